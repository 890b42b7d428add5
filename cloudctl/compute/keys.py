"""Public keys as servers take them: checking, fingerprints, and making new pairs. Reference: compute.md, section 10."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Literal

from attrs import field, frozen
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from cloudctl.errors import Invalid

Type = Literal["ssh", "x509"]

RSA_BITS = 2048
COMMENT = "Generated-by-Nova"
# Long enough for the life of a server.
CERTIFICATE_LIFE = timedelta(days=3650)
# A Windows guest finds the user of the certificate in a «user principal name».
USER_PRINCIPAL_NAME = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


@frozen
class Pair:
    """A new key pair; the private key is shown once and stored nowhere."""

    public_key: str
    private_key: str = field(repr=False)
    fingerprint: str


def fingerprint(type: str, public_key: str) -> str:
    """The fingerprint of an imported key. Raises Invalid if it is not a key."""
    try:
        return _x509_fingerprint(public_key) if type == "x509" else _ssh_fingerprint(public_key)
    except (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error, IndexError) as error:
        raise Invalid(f"Keypair data is invalid: failed to generate fingerprint ({str(error)[:200]})") from None


def _ssh_fingerprint(public_key: str) -> str:
    encoded = public_key.strip().encode("utf-8")
    serialization.load_ssh_public_key(encoded)
    blob = base64.b64decode(encoded.split()[1], validate=True)
    return _colons(hashlib.md5(blob, usedforsecurity=False).hexdigest())


def _x509_fingerprint(certificate: str) -> str:
    found = x509.load_pem_x509_certificate(certificate.encode("utf-8"))
    # SHA-1 only identifies a certificate here; it proves nothing.
    return _colons(hashlib.sha1(found.public_bytes(serialization.Encoding.DER), usedforsecurity=False).hexdigest())


def _colons(digest: str) -> str:
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def generate(type: Type, user_id: str, now: datetime) -> Pair:
    """A new RSA pair. It takes tens of milliseconds: not in the reactor's thread. `now` is naive UTC."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    formats = serialization.PrivateFormat
    shape = formats.PKCS8 if type == "x509" else formats.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, shape, serialization.NoEncryption())
    public = _certificate(key, user_id, now) if type == "x509" else _ssh_line(key)
    return Pair(public, private.decode("ascii"), fingerprint(type, public))


def _ssh_line(key: rsa.RSAPrivateKey) -> str:
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode('ascii')} {COMMENT}\n"


def _certificate(key: rsa.RSAPrivateKey, user_id: str, now: datetime) -> str:
    """Self-signed, for client authentication as the user."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:64] or "user")])
    principal = f"{user_id}@localhost".encode()[:120]
    # DER: UTF8String, its length, its bytes.
    upn = x509.OtherName(USER_PRINCIPAL_NAME, bytes([0x0C, len(principal)]) + principal)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.replace(tzinfo=UTC))
        .not_valid_after(now.replace(tzinfo=UTC) + CERTIFICATE_LIFE)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([upn]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode("ascii")
