"""A guest's request for its metadata, forwarded from its host to a process of the cloud: who asks is in headers.

The guest's network and its address on it tell which guest it is. A signature with a secret that hosts and processes
share proves that a host says so, and not somebody who merely reaches the process.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

NETWORK = "X-Network-Id"
ADDRESS = "X-Forwarded-For"
SIGNATURE = "X-Signature"

SECRET_BYTES = 16


def headers(secret: str, network_id: str, address: str) -> dict[str, str]:
    return {NETWORK: network_id, ADDRESS: address, SIGNATURE: signature(secret, network_id, address)}


def signature(secret: str, network_id: str, address: str) -> str:
    """HMAC-SHA-256, in hexadecimal digits."""
    return hmac.new(secret.encode(), f"{network_id}\n{address}".encode(), "sha256").hexdigest()


def asker(secret: str, header: Callable[[str], str | None]) -> tuple[str, str] | None:
    """The network and the address of the guest; None if the signature is not that of this secret."""
    network_id, address, given = (header(name) or "" for name in (NETWORK, ADDRESS, SIGNATURE))
    if not hmac.compare_digest(signature(secret, network_id, address).encode(), given.encode()):
        return None
    return network_id, address


def is_secret(_instance: object, _attribute: Any, value: str) -> None:
    """A validator: none, or one that cannot be guessed."""
    if value and len(value.encode()) < SECRET_BYTES:
        raise ValueError(f"must have {SECRET_BYTES} bytes or more")
