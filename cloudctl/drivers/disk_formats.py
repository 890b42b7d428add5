"""Disk image files: what QEMU calls their formats, and which of them it may be given at all.

An image comes from a user. Some formats let it name other files, which QEMU would open with this process's rights: a
qcow2 its backing file or its data file, a VMDK its parent or its extents. So the start of the file is checked before
QEMU sees it, and QEMU is always told the format, never left to guess it: the bytes of what we call raw could be a
qcow2. Sources: QEMU's docs/interop/qcow2.rst, VMware's «Virtual Disk Format 5.0».
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.specs import ImageSource

QEMU_FORMATS: Mapping[str, str] = {
    "raw": "raw",
    "iso": "raw",
    "ami": "raw",
    "ari": "raw",
    "aki": "raw",
    "qcow2": "qcow2",
    "vdi": "vdi",
    "vhd": "vpc",
    "vhdx": "vhdx",
    "vmdk": "vmdk",
}
"""Disk format of an image → format of QEMU. The others cannot be read."""

HEAD = 1 << 17  # bytes of a file that are checked; they contain a VMDK's descriptor
SECTOR = 512

QCOW2_MAGIC = b"QFI\xfb"
EXTERNAL_DATA = 1 << 2  # among qcow2's incompatible features
VMDK_MAGIC = b"KDMV"
# Sectors from the start of a VMDK in which QEMU looks for a parent, wherever its header says that the descriptor is.
VMDK_LOOKED_AT = 21


@frozen
class Qcow2Header:
    """The header of a qcow2."""

    size_bytes: int
    backing_file: bool
    data_file: bool
    snapshots: int = 0  # inside it
    backing_at: tuple[int, int] = (0, 0)  # offset and length of the backing file's name


def qcow2_header(head: bytes) -> Qcow2Header:
    """Raises ValueError if this is not the start of a qcow2 of version 2 or 3."""
    if len(head) < 72 or not head.startswith(QCOW2_MAGIC):
        raise ValueError("it does not have a qcow2 header")
    version, backing, length = struct.unpack_from(">IQI", head, 4)
    if version not in (2, 3) or (version == 3 and len(head) < 104):
        raise ValueError(f"unsupported qcow2 version {version}; 2 and 3 are supported")
    (size_bytes,) = struct.unpack_from(">Q", head, 24)
    features = struct.unpack_from(">Q", head, 72)[0] if version == 3 else 0
    (snapshots,) = struct.unpack_from(">I", head, 60)
    return Qcow2Header(size_bytes, bool(backing), bool(features & EXTERNAL_DATA), snapshots, (backing, length))


CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS


def qcow2(data: bytes, size_bytes: int) -> bytes:
    """A qcow2 whose disk begins with `data`, at most one cluster, and is empty after that.

    Clusters: header, reference count table, reference counts, level 2 table, the data, level 1 table.
    """
    if len(data) > CLUSTER:
        raise ValueError(f"a disk begins with {CLUSTER} bytes at most, not {len(data)}")
    level_1 = -(-size_bytes // (CLUSTER * (CLUSTER // 8)))  # entries; each is a level 2 table
    count = 5 + -(-level_1 * 8 // CLUSTER)
    allocated = 1 << 63  # and used once
    header = struct.pack(
        ">4sIQIIQIIQQIIQ", QCOW2_MAGIC, 2, 0, 0, CLUSTER_BITS, size_bytes, 0, level_1, 5 * CLUSTER, CLUSTER, 1, 0, 0
    )
    clusters = (
        header,
        struct.pack(">Q", 2 * CLUSTER),
        b"\0\1" * count,
        struct.pack(">Q", 4 * CLUSTER | allocated),
        data,
        struct.pack(">Q", 3 * CLUSTER | allocated),
    )
    return b"".join(each.ljust(CLUSTER, b"\0") for each in clusters).ljust(count * CLUSTER, b"\0")


def objection(format: str, head: bytes) -> str | None:
    """Why a user's file of this QEMU format must not be opened; None if it may be. `head`: its first `HEAD` bytes."""
    if format == "qcow2":
        try:
            header = qcow2_header(head)
        except ValueError as error:
            return str(error)
        return "it refers to another file" if header.backing_file or header.data_file else None
    if format == "vmdk":
        return _vmdk_objection(head)
    return None


def _vmdk_objection(head: bytes) -> str | None:
    if len(head) < SECTOR or not head.startswith(VMDK_MAGIC):
        return "it is not a single-file sparse VMDK"
    capacity, _grain, descriptor, length = struct.unpack_from("<4Q", head, 12)
    if not capacity:
        # Then QEMU takes the extents from the descriptor, which can name any files.
        return "it refers to another file"
    if (descriptor + length) * SECTOR > len(head):
        return "its descriptor is not at the start of the file"
    text = head[: max(descriptor + length, VMDK_LOOKED_AT) * SECTOR].lower()
    return "it refers to another file" if b"parentfilenamehint" in text else None


def format_of(image: ImageSource) -> str:
    """QEMU's name of the format of the image's file, which is then safe to open.

    Reads the start of the file. Raises Unfit: unknown format, not readable, or it refers to other files.
    """
    format = QEMU_FORMATS.get(image.disk_format)
    if format is None or image.path is None:
        raise Unfit(f"image {image.id} is {image.disk_format!r}; disks are made from {', '.join(QEMU_FORMATS)}")
    try:
        with Path(image.path).open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise Unfit(f"image {image.id} cannot be read: {error.strerror}") from error
    if reason := objection(format, head):
        raise Unfit(f"image {image.id} cannot be used as {image.disk_format}: {reason}")
    return format
