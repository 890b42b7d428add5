"""The files by which this process and a server know each other over TLS: read, and what is wrong with them told."""

from __future__ import annotations

import ssl
from pathlib import Path


def context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Raises OSError, whose message names the file that cannot be read, or is not what it should be."""
    for path in (authority, certificate, key):
        # The errors of the module ssl do not say which file they are about.
        path.read_bytes()
    made = ssl.create_default_context(cafile=str(_certificates(authority)))
    try:
        # Without a password it would ask for one at the terminal.
        made.load_cert_chain(_certificates(certificate), key, password="")
    except ssl.SSLError as error:
        raise OSError(f"{key} is not the key of {certificate}, in PEM and not encrypted: {error}") from error
    return made


def _certificates(path: Path) -> Path:
    try:
        ssl.create_default_context(cafile=str(path))
    except ssl.SSLError as error:
        raise OSError(f"{path} is not a certificate in PEM: {error}") from error
    return path
