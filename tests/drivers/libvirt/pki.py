"""Certificates of libvirt's and QEMU's, under the names that each of them looks for."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = 8  # at most
AUTHORITY = ("cacert.pem", "ca-cert.pem")
CERTIFICATES = ("clientcert.pem", "servercert.pem", "client-cert.pem", "server-cert.pem")
KEYS = ("clientkey.pem", "serverkey.pem", "client-key.pem", "server-key.pem")


def make(directory: Path, others: Iterable[str] = ()) -> Path:
    """The directory, with one certificate for whoever is on this machine, as client and as server.

    `others`: addresses that are served, too.
    """
    directory.mkdir()
    # libvirt moves no guest to 127.0.0.1, by which it would reach itself.
    network = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}"
    mine = [f"{network}.{number + 2}" for number in range(HOSTS)]
    (directory / "addresses").write_text("\n".join(mine))
    now = datetime.now(UTC)
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "host"))

    def built(name: x509.Name, public: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.CertificateBuilder:
        # libvirtd ends at once without keyEncipherment.
        usage = x509.KeyUsage(
            digital_signature=not is_authority, key_encipherment=not is_authority, key_cert_sign=is_authority,
            crl_sign=is_authority, content_commitment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        begin, end = now - timedelta(days=1), now + timedelta(days=2)
        made = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number(), begin, end)
        made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        return made.add_extension(usage, critical=True)

    authority = built(issuer, root.public_key(), is_authority=True).sign(root, hashes.SHA256())
    host = built(subject, key.public_key(), is_authority=False)
    host = host.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    here = x509.SubjectAlternativeName(
        [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", *mine, *others)]
    )
    certificate = host.add_extension(here, critical=False).sign(root, hashes.SHA256())
    for name in AUTHORITY:
        (directory / name).write_bytes(authority.public_bytes(Encoding.PEM))
    for name in CERTIFICATES:
        (directory / name).write_bytes(certificate.public_bytes(Encoding.PEM))
    for name in KEYS:
        (directory / name).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return directory


def an_address(directory: Path) -> str:
    """For one more host: on one address, two would take the same port for the guests that come to them."""
    path = directory / "addresses"
    address, *others = path.read_text().split()
    path.write_text("\n".join(others))
    return address
