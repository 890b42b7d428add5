"""Files that are not volumes of the cloud: what they are, and whether they can be adopted."""

from __future__ import annotations

import os
from pathlib import Path

from cloudctl.drivers.disk_formats import HEAD, objection, qcow2_header
from cloudctl.drivers.qcow2.records import GIB, room_for
from cloudctl.drivers.specs import Unmanaged


def unmanaged(file: Path) -> Unmanaged | None:
    """What a file is; None: it is gone. While it is being adopted or released it also belongs to a volume.

    Raises Unreachable.
    """
    with room_for(f"read {file}"):
        try:
            with file.open("rb") as opened:
                head, there = opened.read(HEAD), os.fstat(opened.fileno())
        except FileNotFoundError:
            return None
    why = objection("qcow2", head)
    size = there.st_size if why else qcow2_header(head).size_bytes
    if why is None and file.is_symlink():
        why = "it is a link to another place"
    if why is None and there.st_nlink > 1:
        why = "it has another name, too"
    return Unmanaged(file.name.removesuffix(".qcow2"), -(-size // GIB), objection=why or "")


def is_same(file: Path, disk: Path) -> bool:
    return file.exists() and file.samefile(disk)
