"""Copies a disk as it is at one moment, on its host. The guest goes on. Everything here blocks.

Source: libvirt's document «Backup XML format».
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import libvirt

from cloudctl.drivers.errors import DriverError, InvalidPower, Unfit, UnknownVolume, Unreachable
from cloudctl.drivers.libvirt import domain, guests
from cloudctl.drivers.libvirt.domain import Paths
from cloudctl.drivers.libvirt.guests import Unless
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import RoomFor, Storage
from cloudctl.drivers.libvirt.waiting import rest

NAME = "capture"


def capture(connection: Any, config: Config, id: str, target: Path) -> None:
    """`target`, a new file, is a qcow2 that needs no other file.

    Raises UnknownGuest, Unfit, NoCapacity, Unreachable if that takes too long.
    """
    guest, storage, paths = guests.get(connection, id), Storage(config, connection), Paths(config.directory, id)
    root, name = storage.find(paths.volume("root")), paths.volume(NAME)
    if root is None:
        raise Unfit(f"guest {id} has no root disk of its own; it boots from a volume")
    _clear(guest, storage, name, config.answer_timeout)
    try:
        with RoomFor(f"a copy of the root disk of guest {id}"):
            if guest.isActive():
                (disk,) = domain.targets_of(guest.XMLDesc(0), ["root"])
                _back_up(guest, disk, paths(NAME), config.copy_timeout)
            else:
                storage.flatten(root, name)
        storage.fetch(name, target)
    finally:
        _clear(guest, storage, name, config.answer_timeout)


def capture_volume(connection: Any, config: Config, id: str, volume_id: str, target: Path) -> None:
    """As `capture`, of a volume that the guest has open. Raises UnknownVolume and InvalidPower, too."""
    guest, storage, paths = guests.get(connection, id), Storage(config, connection), Paths(config.directory, id)
    disk = domain.target_of(guest.XMLDesc(0), domain.volume_alias(volume_id))
    if disk is None:
        raise UnknownVolume(volume_id)
    if not guest.isActive():
        raise InvalidPower(f"guest {id} is off, so it has volume {volume_id} not open")
    name = paths.volume(NAME)
    _clear(guest, storage, name, config.answer_timeout)
    try:
        with RoomFor(f"a copy of volume {volume_id}"):
            _back_up(guest, disk, paths(NAME), config.copy_timeout)
        storage.fetch(name, target)
    finally:
        _clear(guest, storage, name, config.answer_timeout)


def _back_up(guest: Any, name: str, path: str, timeout: float) -> None:
    """`name`: the guest's name of the disk, such as vda. `timeout`: seconds."""
    tree = Element("domainbackup", mode="push")
    # Disks that are not named are left out.
    disk = SubElement(SubElement(tree, "disks"), "disk", name=name, backup="yes", type="file")
    SubElement(disk, "driver", type="qcow2")
    SubElement(disk, "target", file=path)
    guest.backupBegin(domain.text(tree), None, 0)
    _wait(guest, timeout)
    done = guest.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED)
    if done["type"] != libvirt.VIR_DOMAIN_JOB_COMPLETED:
        raise DriverError(f"disk {name} of guest {guest.name()} was not copied: {done.get('errmsg', 'it went off')}")


def _clear(guest: Any, storage: Storage, name: str, timeout: float) -> None:
    """No copy is being made any more, such as one whose caller was killed, and none is left."""
    with Unless(libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
        if _is_copied(guest):
            guest.abortJob()
            _wait(guest, timeout)
    # QEMU made it.
    storage.refreshed()
    storage.remove(name)


def _wait(guest: Any, timeout: float) -> None:
    """Until no copy is being made. It ends before the caller gives up: nothing may go on behind its back."""
    limit = time.monotonic() + timeout
    while _is_copied(guest):
        if time.monotonic() >= limit:
            raise Unreachable(f"the copy of a disk of guest {guest.name()} has not ended in time")
        rest()


def _is_copied(guest: Any) -> bool:
    return bool(guest.isActive()) and guest.jobStats(0).get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
