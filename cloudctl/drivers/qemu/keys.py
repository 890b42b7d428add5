"""Keys with which a guest's QEMU opens disks in Ceph: passed in a file that exists while it starts, or by QMP.

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
    """The name of QEMU's object for the key, one per user of a cluster."""
    return f"key-{disk.secret_id}"


def needed(record: Record) -> Mapping[str, RbdDisk]:
    """The keys for all the guest's disks, each once, by name."""
    root = [] if record.root is None else [record.root]
    return {name(disk): disk for disk in (*root, *rbd_disks(record.spec.volumes))}


def told(disk: RbdDisk) -> Mapping[str, str]:
    """For object-add. Raises DriverError."""
    return {"qom-type": "secret", "id": name(disk), "format": "base64", "data": disk.key()}


@contextmanager
def lent(record: Record, files: Files) -> Iterator[None]:
    """Inside the block the files that `Files.key` names exist. Raises DriverError."""
    with ExitStack() as left:
        for key, disk in needed(record).items():
            path = files.key(key)
            content = disk.key()
            # Left by a start that was killed.
            path.unlink(missing_ok=True)
            left.callback(path.unlink, missing_ok=True)
            _write(path, content)
        yield


def _write(path: Path, content: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
