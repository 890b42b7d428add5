"""A guest on its way from one libvirtd to another. Plain functions on libvirt's connection, which block.

libvirt moves it by itself, from host to host, whatever becomes of us. Until it has arrived the guest is not defined
there: this tells which side has it, whoever was killed and when.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

import libvirt
from attrs import evolve

from cloudctl.drivers.errors import Aborted, InvalidPower
from cloudctl.drivers.libvirt import domain, guests, mishaps
from cloudctl.drivers.libvirt.carrying import MIRRORED
from cloudctl.drivers.libvirt.guests import POLL_SECONDS, Claim, Unless
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.specs import GuestSpec, MigrationProgress, Power

FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)
AGAIN_SECONDS = 1.0  # after which one that is late is told so again
# A guest that shall arrive soon may stand still for so long, which libvirt takes in milliseconds.
LONGEST_PAUSE = 600_000


class Standing(Enum):
    """What a host is to a guest."""

    ABSENT = "absent"
    HOME = "home"
    OFF = "off"
    LEAVING = "leaving"  # it is being moved away
    ARRIVING = "arriving"  # it is not here yet
    LEFT = "left"  # it stands still, as one does that was moved away


class Outcome(Enum):
    """Of a move that nobody is at any more."""

    STAYED = "stayed"
    ARRIVED = "arrived"
    OPEN = "open"


def outcome(there: Standing, here: Standing) -> Outcome:
    """`there`, where it was, and `here`, where it was to go. It has arrived only if it runs here and not there: libvirt
    lets it go on there if it is not told that it runs here.
    """
    if there is Standing.LEAVING or (there is Standing.LEFT and here is Standing.LEFT):
        # It is about to run here, or libvirt is about to find that it does not.
        return Outcome.OPEN
    left = there in (Standing.LEFT, Standing.ABSENT)
    return Outcome.ARRIVED if left and here in (Standing.HOME, Standing.LEAVING) else Outcome.STAYED


def standing(connection: Any, id: str) -> Standing:
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        guest = guests.find(connection, id)
        if guest is None:
            return Standing.ABSENT
        if not guest.isPersistent():
            return Standing.ARRIVING
        if not guest.isActive():
            return Standing.OFF
        if job(guest) is not None:
            return Standing.LEAVING
        return Standing.LEFT if guests.claim(guest) is Claim.LEFT else Standing.HOME
    return Standing.ABSENT


def job(guest: Any) -> dict[str, Any] | None:
    """How a guest that is moved away fares."""
    with Unless(libvirt.VIR_ERR_OPERATION_INVALID):  # it has gone off
        found: dict[str, Any] = guest.jobStats(0)
        leaves = found.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
        return found if found["type"] != libvirt.VIR_DOMAIN_JOB_NONE and leaves else None
    return None


def progress(connection: Any, id: str) -> MigrationProgress | None:
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        guest = guests.find(connection, id)
        found = None if guest is None or not guest.isActive() else job(guest)
        if found is not None:
            sizes = (
                found.get(name, 0) for name in ("memory_total", "memory_remaining", "disk_total", "disk_remaining")
            )
            return MigrationProgress(*sizes)
    return None


def migrate(connection: Any, config: Config, spec: GuestSpec, uri: str, copied: bool) -> None:
    """It runs on the host that `uri` leads to, seen from this one. `copied`: with its own disks.

    Raises InvalidPower, Aborted, Unfit.
    """
    guest = guests.get(connection, spec.id)
    found = guests.power(guest)
    if found not in (Power.RUNNING, Power.PAUSED):
        raise InvalidPower(f"guest {spec.id} is {found.value}; only one that is on can be moved so")
    guests.note(guest, evolve(domain.seen(guest.XMLDesc(0)).notes, towards=spec.host))
    live = guest.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE)
    kept = guest.XMLDesc(
        libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
    )
    params: dict[str, Any] = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: domain.elsewhere(live, spec),
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: domain.elsewhere(kept, spec),
    }
    flags = FLAGS
    if config.migration_tls:
        flags |= libvirt.VIR_MIGRATE_TLS
    if config.post_copy:
        flags |= libvirt.VIR_MIGRATE_POSTCOPY
    if config.migration_mib_per_second:
        params[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = config.migration_mib_per_second
    own = domain.targets_of(live, MIRRORED)
    if copied and own:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_INC
        params[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = own
    else:
        # Volumes are where every host reaches them, and of own disks we have looked.
        flags |= libvirt.VIR_MIGRATE_UNSAFE
    guest.migrateSetMaxDowntime(max(1, int(config.migration_pause * 1000)), 0)
    try:
        try:
            guest.migrateToURI3(uri, params, flags)
        except libvirt.libvirtError as error:
            if not mishaps.are_in_the_way(error):
                raise
            mishaps.clear(guest)
            guest.migrateToURI3(uri, params, flags)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_OPERATION_ABORTED:
            raise Aborted(f"the migration of guest {spec.id} was aborted") from error
        raise


def is_leaving(connection: Any, id: str) -> bool:
    """Whether it is being moved away; a QEMU that waits for ever on its way to give that up is let go."""
    leaves = standing(connection, id) is Standing.LEAVING
    if leaves:
        mishaps.release(connection, id)
    return leaves


def wait(connection: Any, id: str) -> None:
    """Nobody moves it away any more."""
    while is_leaving(connection, id):
        time.sleep(POLL_SECONDS)


def abort(connection: Any, id: str) -> None:
    guest = guests.find(connection, id)
    if guest is not None and guest.isActive() and job(guest) is not None:
        with Unless(libvirt.VIR_ERR_OPERATION_INVALID):  # it has ended
            guest.abortJob()
        wait(connection, id)


def hurry(connection: Any, config: Config, id: str) -> None:
    """Arrive soon, at the price of a pause."""
    guest = guests.find(connection, id)
    if guest is not None and guest.isActive() and job(guest) is not None:
        with Unless(libvirt.VIR_ERR_OPERATION_INVALID):  # it has ended
            if config.post_copy:
                guest.migrateStartPostCopy(0)
            else:
                guest.migrateSetMaxDowntime(LONGEST_PAUSE, 0)


def towards(connection: Any, id: str) -> str:
    """The host that it was last to be moved to."""
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        guest = guests.find(connection, id)
        return "" if guest is None else domain.seen(guest.XMLDesc(0)).notes.towards
    return ""


def stay(connection: Any, id: str) -> None:
    """One that was to leave, and arrived nowhere, goes on here."""
    if standing(connection, id) is Standing.LEFT:
        guests.get(connection, id).resume()


def drop(connection: Any, id: str) -> None:
    """What is left here of a guest that is elsewhere; its files stay."""
    guest = guests.find(connection, id)
    if guest is not None:
        guests.cut(guest)
        with Unless(libvirt.VIR_ERR_NO_DOMAIN):
            if guest.isPersistent():
                guest.undefineFlags(guests.UNDEFINE)
