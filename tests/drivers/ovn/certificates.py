"""Certificates of the tests' own: an authority, and whom it has signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """`signed(name)` makes the files `name-key.pem` and `name.pem`; the authority's own is `authority.pem`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name("authority")
        self.certificate = directory / "authority.pem"
        made = self._certificate(self.name, self.key.public_key(), authority=True)
        self.certificate.write_bytes(made.public_bytes(Encoding.PEM))

    def signed(self, name: str) -> tuple[Path, Path]:
        """Key and certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = self.directory / f"{name}-key.pem", self.directory / f"{name}.pem"
        files[0].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        made = self._certificate(_name(name), key.public_key(), authority=False)
        files[1].write_bytes(made.public_bytes(Encoding.PEM))
        return files

    def _certificate(self, name: x509.Name, key: ec.EllipticCurvePublicKey, authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
