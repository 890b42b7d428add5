"""The files of a config drive, read back from its bytes: for code that has the drive but not what it was made from.

A drive is an ISO 9660 file system with Joliet names. Sources: ECMA-119; Microsoft's «Joliet Specification».
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

SECTOR = 2048
FIRST_DESCRIPTOR = 16  # sectors from the start
SUPPLEMENTARY, LAST = 2, 255  # types of descriptors
ROOT_AT = 156  # bytes from the start of a descriptor
DIRECTORY = 2  # among the flags of a record
SELF, PARENT = b"\0", b"\1"  # their names in each directory
META_DATA, PASSWORD = "meta_data.json", "admin_pass"


def files(drive: bytes) -> dict[str, bytes]:
    """Path → content. Raises ValueError if this is not such a drive."""
    for sector in range(FIRST_DESCRIPTOR, len(drive) // SECTOR):
        descriptor = drive[sector * SECTOR : (sector + 1) * SECTOR]
        if descriptor[1:6] != b"CD001" or descriptor[0] == LAST:
            break
        if descriptor[0] == SUPPLEMENTARY:
            return dict(_files(drive, descriptor[ROOT_AT:], ""))
    raise ValueError("it has no names of Joliet")


def _files(drive: bytes, record: bytes, inside: str) -> Iterator[tuple[str, bytes]]:
    listing = _content(drive, record)
    at = 0
    while at < len(listing):
        length = listing[at]
        if not length:
            # Records do not cross sectors.
            at += SECTOR - at % SECTOR
            continue
        found = listing[at : at + length]
        at += length
        name = found[33 : 33 + found[32]]
        if name in (SELF, PARENT):
            continue
        path = inside + name.decode("utf-16-be").partition(";")[0]
        if found[25] & DIRECTORY:
            yield from _files(drive, found, f"{path}/")
        else:
            yield path, _content(drive, found)


def _content(drive: bytes, record: bytes) -> bytes:
    start = int.from_bytes(record[2:6], "little") * SECTOR
    size = int.from_bytes(record[10:14], "little")
    if start + size > len(drive):
        raise ValueError("it is cut off")
    return drive[start : start + size]


def with_password(files: Mapping[str, bytes], password: str) -> dict[str, bytes]:
    """The same files, with this admin password in their metadata."""
    return {path: _told(content, password) if _tells(path) else content for path, content in files.items()}


def _tells(path: str) -> bool:
    return path.startswith("openstack/") and path.endswith(f"/{META_DATA}")


def _told(content: bytes, password: str) -> bytes:
    return json.dumps({**json.loads(content), PASSWORD: password}).encode()
