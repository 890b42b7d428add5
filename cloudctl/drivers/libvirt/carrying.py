"""The disks of a guest that moves to another host: whether that host sees them already, and what it needs if not.

Everything passes through this process, from one libvirtd to the other: the hosts need not trust each other with files.
Everything here blocks.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4
from xml.etree.ElementTree import fromstring

from attrs import frozen

from cloudctl.drivers.libvirt.storage import WHOLE, RoomFor, Storage, streamed

CHUNK = 1 << 18
# Disks that QEMU copies while the guest runs; blank ones must exist at the destination.
MIRRORED = ("root", "rescue", "ephemeral", "swap")
QCOW2 = ("root", "rescue", "ephemeral")  # the others are raw
CONSOLE = "console"


@frozen
class Part:
    """A file of a guest: `ID.NAME`. `over`: path and format of what a root disk is based on."""

    name: str
    format: str
    size: int  # as the guest sees it
    over: tuple[str, str] | None = None

    @property
    def base(self) -> str | None:
        """The name of the volume that it is based on."""
        return None if self.over is None else PurePosixPath(self.over[0]).name


def shares(source: Storage, to: Storage) -> bool:
    """Whether both hosts see the same directory: one finds what the other puts there."""
    name = f"probe-{uuid4()}"
    source.create(name, "raw", 0)
    try:
        to.refreshed()
        return to.find(name) is not None
    finally:
        source.remove(name)


def parts(storage: Storage, id: str) -> list[Part]:
    """The files of a guest on its host.

    libvirt takes a file for what its first bytes say, and its guest writes those of a raw disk: they must not tell what
    is made, or replaced, on another host.
    """
    pool = storage.refreshed()
    found = []
    for file in sorted(pool.listVolumes()):
        if file.startswith(f"{id}."):
            name, tree = file.removeprefix(f"{id}."), fromstring(pool.storageVolLookupByName(file).XMLDesc(0))
            if name not in QCOW2:
                found.append(Part(name, "raw", int(tree.findtext("physical", "0"))))
                continue
            path, under = tree.findtext("backingStore/path"), tree.find("backingStore/format")
            over = None if path is None else (path, "raw" if under is None else under.get("type", "raw"))
            found.append(Part(name, "qcow2", int(tree.findtext("capacity", "0")), over))
    return found


def carry_base(source: Storage, to: Storage, base: str) -> None:
    """The image that root disks are based on is also there. For one call per image at a time."""
    if to.find(base + WHOLE) is None:
        with RoomFor(f"image {base}"):
            to.remove(base)
            _carry(source, to, base)
            to.create(base + WHOLE, "raw", 0)


def prepare(source: Storage, to: Storage, id: str, having: list[Part]) -> None:
    """The destination has all that QEMU needs to take over the guest: blank disks, and files that do not change."""
    to.remove_all(id)
    with RoomFor(f"the disks of guest {id}"):
        for part in having:
            if part.name in MIRRORED:
                to.create(f"{id}.{part.name}", part.format, part.size, part.over)
            elif part.name != CONSOLE:
                _carry(source, to, f"{id}.{part.name}")


def carry(source: Storage, to: Storage, id: str, having: list[Part]) -> None:
    """Copy all files of a guest that is off, as they are."""
    to.remove_all(id)
    with RoomFor(f"the disks of guest {id}"):
        for part in having:
            _carry(source, to, f"{id}.{part.name}")


def _carry(source: Storage, to: Storage, name: str) -> None:
    found: Any = source.find(name)
    target = to.create(name, "raw", 0)
    with streamed(source.connection) as receiving, streamed(to.connection) as sending:
        found.download(receiving, 0, 0, 0)
        target.upload(sending, 0, 0, 0)
        while chunk := receiving.recv(CHUNK):
            while chunk:
                chunk = chunk[sending.send(chunk) :]
