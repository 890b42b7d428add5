"""Leads a volume of a guest elsewhere: QEMU copies it while the guest writes, and goes on there. All of this blocks.

    copying     the guest's writes go to both places
    noted       both places hold the same, and the next start uses the new one: whatever dies now, it has everything
    led         the guest's device reads and writes at the new place alone

Where it is at each moment, the running guest's own XML says. Source: libvirt's document «Domain XML format» (mirror),
its API virDomainBlockCopy.
"""

from __future__ import annotations

import time
from typing import Any
from xml.etree.ElementTree import Element

import libvirt

from cloudctl.drivers.errors import Busy, DriverError, InvalidPower, NoCapacity, UnknownVolume, Unreachable
from cloudctl.drivers.libvirt import domain, guests, secrets
from cloudctl.drivers.libvirt.guests import Unless
from cloudctl.drivers.libvirt.waiting import rest
from cloudctl.drivers.rbd.disk import rbd_disks
from cloudctl.drivers.specs import VolumeConnection

# Onto a volume that is there; a write of the guest ends when both places have it.
COPY = (
    libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
    | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    | libvirt.VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES
)


def lead(connection: Any, id: str, volume: VolumeConnection, exact: bool, timeout: float) -> None:
    """The guest has the volume at this place. `exact`: it is off, and the same is there already. `timeout`: seconds.

    Raises UnknownGuest, UnknownVolume, InvalidPower if it is off and only it could copy, Busy, NoCapacity, Unreachable.
    """
    guest, alias = guests.get(connection, id), domain.volume_alias(volume.volume_id)
    noted, there = _of_next_start(guest, alias), domain.place(domain.volume_disk(volume, ""))
    if guest.isActive():
        _lead(connection, guest, alias, volume, noted, timeout)
    elif domain.place(noted) != there:
        if not exact:
            raise InvalidPower(f"guest {id} is off, so it cannot copy volume {volume.volume_id}")
        _note(guest, domain.led(noted, volume))


def _lead(connection: Any, guest: Any, alias: str, volume: VolumeConnection, noted: Element, timeout: float) -> None:
    there = domain.place(domain.volume_disk(volume, ""))
    disk = _now(guest, alias)
    name = domain.target(disk)
    if _copy_of(disk) not in (None, there):
        _give_up(guest, name)
        disk = _now(guest, alias)
    if domain.place(disk) != there:
        before = domain.led_to(noted, disk)
        try:
            if _copy_of(disk) is None:
                secrets.ensure(connection, rbd_disks([volume]))
                _begin(guest, name, domain.led(noted, volume))
            _wait(guest, alias, volume.volume_id, timeout)
            _note(guest, domain.led(noted, volume))
            guest.blockJobAbort(name, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
            if domain.place(_now(guest, alias)) != there:
                raise Busy(f"guest {guest.name()} did not go on with the copy of volume {volume.volume_id}")
        except (DriverError, libvirt.libvirtError):
            if guest.isActive() and domain.place(_now(guest, alias)) != there:
                _give_up(guest, name)
                _note(guest, before)
            raise
    _note(guest, domain.led(noted, volume))


def _begin(guest: Any, name: str, disk: Element) -> None:
    try:
        guest.blockCopy(name, domain.text(disk), None, COPY)
    except libvirt.libvirtError as error:
        if "lock" in str(error):
            raise Busy(f"the place where disk {name} of guest {guest.name()} is led is in use: {error}") from error
        raise


def _wait(guest: Any, alias: str, volume_id: str, timeout: float) -> None:
    """Until both places hold the same. It ends before the caller gives up: nothing may go on behind its back."""
    limit = time.monotonic() + timeout
    while (mirror := _now(guest, alias).find("mirror")) is not None:
        if mirror.get("ready") == "yes":
            return
        if time.monotonic() >= limit:
            raise Unreachable(f"volume {volume_id} was not copied in time")
        rest()
    # libvirt does not keep why.
    raise NoCapacity(f"volume {volume_id} was not copied: its new place may be full, or cannot be reached")


def _give_up(guest: Any, name: str) -> None:
    with Unless(libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_INVALID_ARG):  # there is no copy any more
        guest.blockJobAbort(name, 0)


def _now(guest: Any, alias: str) -> Element:
    return _found(guest.XMLDesc(0), guest, alias)


def _of_next_start(guest: Any, alias: str) -> Element:
    return _found(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), guest, alias)


def _found(xml: str, guest: Any, alias: str) -> Element:
    disk = domain.device(xml, alias)
    if disk is None:
        raise UnknownVolume(f"{alias} of guest {guest.name()}")
    return disk


def _copy_of(disk: Element) -> domain.Place | None:
    """Where the disk is being copied."""
    mirror = disk.find("mirror")
    return None if mirror is None else domain.place(mirror)


def _note(guest: Any, disk: Element) -> None:
    """The guest's next start finds the disk so."""
    guest.updateDeviceFlags(domain.text(disk), libvirt.VIR_DOMAIN_AFFECT_CONFIG)
