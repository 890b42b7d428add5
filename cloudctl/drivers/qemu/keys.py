"""Keys that a guest's QEMU opens disks in Ceph with: told by a file that is there while it starts, or by its socket.

They are on no command line. Source: QEMU's documents «Secret data», «QMP Reference Manual» (object-add).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cloudctl.drivers.qemu.records import Files, Record
from cloudctl.drivers.rbd.disk import RbdDisk, rbd_disks


def name(disk: RbdDisk) -> str:
    """Of QEMU's object: of one user of one cluster."""
    return f"key-{disk.secret_id}"


def needed(record: Record) -> Mapping[str, RbdDisk]:
    """By all that the guest has, each key once, by its name."""
    root = [] if record.root is None else [record.root]
    return {name(disk): disk for disk in (*root, *rbd_disks(record.spec.volumes))}


def told(disk: RbdDisk) -> Mapping[str, str]:
    """For object-add. Raises DriverError."""
    return {"qom-type": "secret", "id": name(disk), "format": "base64", "data": disk.key()}


@contextmanager
def lent(record: Record, files: Files) -> Iterator[None]:
    """The files that `Files.key` names are there meanwhile. Raises DriverError."""
    with ExitStack() as left:
        for key, disk in needed(record).items():
            path = files.key(key)
            content = disk.key()
            # Of a start that was killed.
            path.unlink(missing_ok=True)
            left.callback(path.unlink, missing_ok=True)
            _write(path, content)
        yield


def _write(path: Path, content: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
