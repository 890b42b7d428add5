"""Signatures of images' data: properties that say who vouches for it. Reference: image.md, section 1.

Checking one takes the signer's certificate, which a key manager would keep. There is none here: such data is refused,
so that nobody takes unchecked data for checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from cloudctl.errors import Invalid

# Only all of them together ask for a check.
PROPERTIES = ("img_signature", "img_signature_hash_method", "img_signature_key_type", "img_signature_certificate_uuid")


def refuse(properties: Mapping[str, str]) -> None:
    """Raises Invalid if incoming data would have to be checked."""
    if all(name in properties for name in PROPERTIES):
        raise Invalid(
            "The signature of the data cannot be verified: this cloud has no key manager with the certificate. "
            f"Remove the properties {', '.join(PROPERTIES)} to bring the data without a check."
        )
