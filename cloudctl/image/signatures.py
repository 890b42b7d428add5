"""Signatures of images' data: properties that say who vouches for it. Reference: image.md, section 1.

To check one takes the certificate of who signed, which a key manager would keep. There is none here: such data is
refused, for nobody shall take for checked what was not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from cloudctl.errors import Invalid

# All of them together: one alone asks for nothing.
PROPERTIES = ("img_signature", "img_signature_hash_method", "img_signature_key_type", "img_signature_certificate_uuid")


def refuse(properties: Mapping[str, str]) -> None:
    """Raises Invalid if the data that comes would have to be checked."""
    if all(name in properties for name in PROPERTIES):
        raise Invalid(
            "The signature of the data cannot be verified: this cloud has no key manager with the certificate. "
            f"Remove the properties {', '.join(PROPERTIES)} to bring the data without a check."
        )
