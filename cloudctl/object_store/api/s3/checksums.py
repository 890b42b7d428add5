"""Checksums that clients send with their data, besides MD5. Reference: object-store.md, B1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable

from attrs import define, field

from cloudctl.object_store.hashing import Digest

HEADER = "x-amz-checksum-"


@define
class Crc:
    """A cyclic redundancy check: `step(data, value)` continues from a value."""

    step: Callable[[bytes, int], int]
    width: int  # bytes
    value: int = field(default=0, init=False)

    def update(self, data: bytes, /) -> None:
        self.value = self.step(data, self.value)

    def digest(self) -> bytes:
        return self.value.to_bytes(self.width, "big")


def _crc32c() -> Digest:
    # Imported only once somebody sends one.
    from awscrt import checksums

    return Crc(checksums.crc32c, 4)


def _crc64nvme() -> Digest:
    from awscrt import checksums

    return Crc(checksums.crc64nvme, 8)


ALGORITHMS: dict[str, Callable[[], Digest]] = {
    "crc32": lambda: Crc(zlib.crc32, 4),
    "crc32c": _crc32c,
    "crc64nvme": _crc64nvme,
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}


def is_one(name: str, value: str) -> bool:
    """Whether a value can be a sum by this algorithm."""
    try:
        raw = base64.b64decode(value, validate=True)
        # There is only one valid encoding.
        return base64.b64encode(raw).decode() == value and len(raw) == len(ALGORITHMS[name]().digest())
    except (binascii.Error, ValueError):
        return False


def told(digest: Digest) -> str:
    return base64.b64encode(digest.digest()).decode()
