"""What disk format a file really has, how large its disk is, and whether it points at other files.

A qcow2 file with a backing file, or a VMDK that is only a description, makes a hypervisor read files of its host for
the uploader; such data is refused. Reference: image.md, section 7. Layouts: the formats' own specifications
(docs/interop/qcow2.txt, the VHD, VHDX and VMDK specifications, ECMA-119).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import unpack_from
from typing import IO

from attrs import frozen

SECTOR = 512
# Formats that can be recognized in a file. All others (raw, ami, ari, aki, ploop) may be any bytes.
KNOWN = ("qcow2", "vmdk", "vhd", "vhdx", "vdi", "iso")
# Data in one of these is not accepted as raw: a hypervisor that probes it would follow what it says.
NEVER_RAW = ("qcow2", "vmdk", "vhd", "vhdx", "vdi")
VMDK_TYPES = (b"monolithicSparse", b"streamOptimized")

QCOW2_V3_HEADER = 104
QCOW2_EXTERNAL_DATA = 1 << 2  # an incompatible feature: the data is in another file


@frozen
class Inspected:
    """`virtual_size`: bytes of the disk as a guest sees it. `unsafe`: why the data must not be used, else empty."""

    format: str  # one of KNOWN, or "raw"
    virtual_size: int
    unsafe: str = ""


def inspect(file: IO[bytes], size: int) -> Inspected:
    """Look at the headers (and VHD's footer) of `file`, which has `size` bytes."""
    for look in (_qcow2, _vmdk, _vdi, _vhdx, _vhd, _iso):
        found = look(lambda offset, count: _read(file, offset, count), size)
        if found is not None:
            return found
    return Inspected("raw", size)


def refusal(disk_format: str, container_format: str, found: Inspected) -> str | None:
    """Why the inspected data may not be an image of this disk format; None if it may."""
    if container_format not in ("bare",):
        # The disk is inside an archive, or is a part of a machine image.
        return None
    if disk_format in KNOWN and found.format != disk_format:
        return f"The data is not in the format {disk_format}: it looks like {found.format}."
    if disk_format not in KNOWN and found.format in NEVER_RAW:
        return f"The data is not in the format {disk_format}: it looks like {found.format}."
    return found.unsafe or None


Read = Callable[[int, int], bytes]


def _read(file: IO[bytes], offset: int, count: int) -> bytes:
    """`count` bytes at `offset`; fewer at the end of the file."""
    file.seek(offset)
    return file.read(count)


def _qcow2(read: Read, size: int) -> Inspected | None:
    head = read(0, QCOW2_V3_HEADER)
    if not head.startswith(b"QFI\xfb") or len(head) < 72:
        return None
    (version,) = unpack_from(">I", head, 4)
    (backing,) = unpack_from(">Q", head, 8)
    (virtual_size,) = unpack_from(">Q", head, 24)
    unsafe = ""
    if version not in (2, 3):
        unsafe = f"The qcow2 version {version} is not supported."
    elif backing:
        unsafe = "The qcow2 data has a backing file."
    elif version == 3 and len(head) >= 80 and unpack_from(">Q", head, 72)[0] & QCOW2_EXTERNAL_DATA:
        unsafe = "The qcow2 data has an external data file."
    return Inspected("qcow2", _sane(virtual_size), unsafe)


def _vmdk(read: Read, size: int) -> Inspected | None:
    head = read(0, SECTOR)
    if head.lstrip().startswith(b"# Disk DescriptorFile"):
        return Inspected("vmdk", 0, "The VMDK data is a description that names other files.")
    if not head.startswith(b"KDMV") or len(head) < 64:
        return None
    capacity, _, offset, count = unpack_from("<QQQQ", head, 12)
    description = read(offset * SECTOR, min(count, 128) * SECTOR) if 0 < offset < 2**32 else b""
    kind = re.search(rb'createType\s*=\s*"([^"]*)"', description)
    unsafe = ""
    if kind is None or kind[1] not in VMDK_TYPES:
        unsafe = "The VMDK data is neither monolithicSparse nor streamOptimized."
    return Inspected("vmdk", _sane(capacity * SECTOR), unsafe)


def _vdi(read: Read, size: int) -> Inspected | None:
    head = read(0, 512)
    if len(head) < 376 or unpack_from("<I", head, 0x40)[0] != 0xBEDA107F:
        return None
    return Inspected("vdi", _sane(unpack_from("<Q", head, 0x170)[0]))


def _vhd(read: Read, size: int) -> Inspected | None:
    """The footer is at the end; a dynamic disk has a copy of it at the start."""
    for offset in (0, max(0, size - SECTOR)):
        footer = read(offset, SECTOR)
        if footer.startswith(b"conectix") and len(footer) >= 64:
            (kind,) = unpack_from(">I", footer, 60)
            unsafe = "The VHD data is a difference to another file." if kind == 4 else ""
            return Inspected("vhd", _sane(unpack_from(">Q", footer, 48)[0]), unsafe)
    return None


VHDX_REGIONS = 192 * 1024
VHDX_METADATA = bytes.fromhex("06a27c8b 9047 9a4b b8fe 575f050f886e")
VHDX_DISK_SIZE = bytes.fromhex("2442a52f 1bcd 7648 b211 5dbed83bf4b8")
VHDX_FILE_PARAMETERS = bytes.fromhex("3767a1ca 36fa 434d b3b6 33f0aa44e76b")
VHDX_HAS_PARENT = 2


def _vhdx(read: Read, size: int) -> Inspected | None:
    """Region table → metadata region → the items «virtual disk size» and «file parameters»."""
    if read(0, 8) != b"vhdxfile":
        return None
    unreadable = Inspected("vhdx", 0, "The VHDX data has no readable metadata.")
    metadata = _entry(read(VHDX_REGIONS, 65536), b"regi", 8, 16, 32, VHDX_METADATA)
    if metadata is None:
        return unreadable
    (start,) = unpack_from("<Q", metadata, 16)
    table = read(start, 65536) if start < 2**62 else b""
    disk_size = _entry(table, b"metadata", 10, 32, 32, VHDX_DISK_SIZE)
    parameters = _entry(table, b"metadata", 10, 32, 32, VHDX_FILE_PARAMETERS)
    if disk_size is None or parameters is None:
        return unreadable
    value = read(start + unpack_from("<I", disk_size, 16)[0], 8)
    flags = read(start + unpack_from("<I", parameters, 16)[0] + 4, 4)
    if len(value) < 8 or len(flags) < 4:
        return unreadable
    has_parent = unpack_from("<I", flags)[0] & VHDX_HAS_PARENT
    unsafe = "The VHDX data is a difference to another file." if has_parent else ""
    return Inspected("vhdx", _sane(unpack_from("<Q", value)[0]), unsafe)


def _entry(table: bytes, signature: bytes, count_at: int, first: int, length: int, guid: bytes) -> bytes | None:
    """The entry of a VHDX table whose GUID this is."""
    if not table.startswith(signature) or len(table) < first:
        return None
    count = unpack_from("<H", table, count_at)[0]
    for number in range(min(count, 2047)):
        entry = table[first + number * length : first + (number + 1) * length]
        if len(entry) == length and entry.startswith(guid):
            return entry
    return None


def _iso(read: Read, size: int) -> Inspected | None:
    return Inspected("iso", size) if read(0x8001, 5) == b"CD001" else None


def _sane(virtual_size: int) -> int:
    """At most what a column can hold; a header may say anything."""
    return min(virtual_size, 2**63 - 1)
