"""A guest's migration from one libvirtd to another. Plain functions on libvirt's connection, which block.

libvirt migrates it by itself, from host to host, whatever becomes of us. The guest is not defined at its destination
until it has arrived: this shows which side has it, whichever process was killed and when.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import libvirt
from attrs import evolve

from cloudctl.drivers.errors import Aborted, InvalidPower
from cloudctl.drivers.libvirt import domain, guests, mishaps
from cloudctl.drivers.libvirt.carrying import MIRRORED
from cloudctl.drivers.libvirt.guests import Claim, Unless
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.waiting import rest
from cloudctl.drivers.specs import GuestSpec, MigrationProgress, Power

FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)
AGAIN_SECONDS = 1.0  # after which a late migration is ended again
# Milliseconds that a guest may stand still if it is to arrive soon.
LONGEST_PAUSE = 600_000


class Standing(Enum):
    """A guest's state on one host."""

    ABSENT = "absent"
    HOME = "home"
    OFF = "off"
    LEAVING = "leaving"  # it is being moved away
    ARRIVING = "arriving"  # it is not here yet
    LEFT = "left"  # it stands still, like a guest that was moved away


class Outcome(Enum):
    """The outcome of a move that nobody works on any more."""

    STAYED = "stayed"
    ARRIVED = "arrived"
    OPEN = "open"


def outcome(there: Standing, here: Standing) -> Outcome:
    """`there`: on the host that it left; `here`: on its destination. It has arrived only if it runs here and not there:
    libvirt lets it go on there if it is not told that it runs here.
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
    """The migration job of a guest that is being moved away, if any."""
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
    """The guest runs on the host at `uri`, as seen from this host. `copied`: with its own disks.

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
        # Every host reaches the volumes, and that both see the guest's own disks was checked.
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
    """Whether it is being moved away; a QEMU that hangs while it cancels that is released."""
    leaves = standing(connection, id) is Standing.LEAVING
    if leaves:
        mishaps.release(connection, id)
    return leaves


def wait(connection: Any, id: str) -> None:
    """Wait until it is no longer being moved away."""
    while is_leaving(connection, id):
        rest()


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
    """The host to which it was last to be moved."""
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        guest = guests.find(connection, id)
        return "" if guest is None else domain.seen(guest.XMLDesc(0)).notes.towards
    return ""


def stay(connection: Any, id: str) -> None:
    """A guest that was to leave and arrived nowhere goes on here."""
    if standing(connection, id) is Standing.LEFT:
        guests.get(connection, id).resume()


def drop(connection: Any, id: str) -> None:
    """Remove what is left here of a guest that is elsewhere; its files stay."""
    guest = guests.find(connection, id)
    if guest is not None:
        guests.cut(guest)
        with Unless(libvirt.VIR_ERR_NO_DOMAIN):
            if guest.isPersistent():
                guest.undefineFlags(guests.UNDEFINE)
