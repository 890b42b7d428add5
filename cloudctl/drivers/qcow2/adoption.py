"""Files that are not volumes of the cloud: what they are, and whether they can be adopted."""

from __future__ import annotations

from pathlib import Path

from cloudctl.drivers.disk_formats import HEAD, objection, qcow2_header
from cloudctl.drivers.qcow2.records import GIB
from cloudctl.drivers.specs import Unmanaged


def unmanaged(file: Path) -> Unmanaged:
    """What a file is. While it is being adopted or released it also belongs to a volume."""
    with file.open("rb") as opened:
        head = opened.read(HEAD)
    why = objection("qcow2", head)
    size = file.stat().st_size if why else qcow2_header(head).size_bytes
    if why is None and file.is_symlink():
        why = "it is a link to another place"
    if why is None and file.stat().st_nlink > 1:
        why = "it has another name, too"
    return Unmanaged(file.name.removesuffix(".qcow2"), -(-size // GIB), objection=why or "")


def is_same(file: Path, disk: Path) -> bool:
    return file.exists() and file.samefile(disk)
