"""Changing the type and the backend of a volume. Reference: volume.md, section 3; volume-states.md.

A type that allows the volume's current backend takes effect at once. Otherwise a task has to move the volume, and
meanwhile nobody else may have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import (
    attachments,
    encryption,
    kinds,
    messages,
    placing,
    qos_specs,
    quotas,
    services,
    snapshots,
    states,
    types,
    volumes,
)
from cloudctl.volume.options import VolumeOptions, is_same, present
from cloudctl.volume.placing import Pool
from cloudctl.volume.tables import Volume, VolumeType

NEVER, ON_DEMAND = "never", "on-demand"


def retype(
    conn: Connection,
    caller: Caller,
    volume_id: str,
    name_or_id: str,
    policy: str,
    options: VolumeOptions,
    pool: Pool | None,
    *,
    swaps: bool,
) -> None:
    """`policy`: whether the volume may be moved for it; if not, a message tells why nothing happened. `pool`: where it
    is, if that is `asked`. `swaps`: whether a volume can be moved while a guest uses it.

    Raises NotFound, Invalid, Conflict, OverQuota.
    """
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    old = types.get(conn, volume.volume_type_id)
    new = types.by_name_or_id(conn, caller, name_or_id, for_volume=True)
    if new.id == old.id or volume.group_id is not None:
        raise states.refused(conn, volume.id, "retype")
    if not states.VOLUME.allows(conn, volume.id, "retype", states.not_migrating):
        raise states.refused(conn, volume.id, "retype")
    _demand_fitting(conn, volume, old, new)
    # They are of its type. Those that a former owner kept count there.
    mine = [each for each in snapshots.of_volume(conn, volume.id) if each.project_id == volume.project_id]
    gigabytes = volume.size + sum(each.size for each in mine)
    more = {"volumes": 1, "snapshots": len(mine), "gigabytes": gigabytes}
    quotas.take_of_type(conn, options, volume.project_id, new.name, more)
    if _may_stay(volume, new, pool):
        become(conn, volume.id, new)
        conn.execute(update(Volume).where(Volume.id == volume.id).values(updated_at=caller.now))
    elif policy == NEVER:
        told = messages.RETYPE_FAILED
        messages.record(conn, told, volume.project_id, caller.request_id, volume.id, caller.now)
    else:
        _demand_movable(conn, volume, swaps)
        states.move(conn, volume.id, "retype", caller.now, migration_status="starting")
        _submit(conn, caller, volume, {"type_id": new.id, "host": None})


def asked(conn: Connection, caller: Caller, volume_id: str, name_or_id: str) -> str | None:
    """The pool that the volume is in, if it takes more than its name to know whether the type allows it.

    Raises NotFound.
    """
    host = volumes.visible(conn, caller, volume_id).host
    return host if types.by_name_or_id(conn, caller, name_or_id).extra_specs.keys() - {placing.NAME} else None


def _may_stay(volume: Volume, new: VolumeType, pool: Pool | None) -> bool:
    if volume.host is None:
        return True
    if pool is None or not is_same(pool.host, volume.host):
        return placing.is_named(volume.host, new.extra_specs)
    return placing.suits(pool, new.extra_specs)


def _demand_fitting(conn: Connection, volume: Volume, old: VolumeType, new: VolumeType) -> None:
    """Raises Invalid if the volume cannot be of the new type."""
    encryption.demand_plain(conn, new.id)
    types.demand_size(new, volume.size)
    types.demand_zone(new, volume.availability_zone)
    if volume.status == states.AVAILABLE:
        return
    if types.is_multiattach(new) != volume.multiattach:
        raise Invalid("Invalid volume: multiattach can be changed only while the volume is available.")
    if _front_end(conn, old) != _front_end(conn, new):
        raise Invalid("Invalid volume: front-end QoS specs can be changed only while the volume is available.")


def _front_end(conn: Connection, type_: VolumeType) -> str | None:
    """The QoS specs that hypervisors enforce."""
    if type_.qos_specs_id is None or qos_specs.get(conn, type_.qos_specs_id).consumer == "back-end":
        return None
    return type_.qos_specs_id


def become(conn: Connection, volume_id: str, type_: VolumeType) -> None:
    values = {"volume_type_id": type_.id, "multiattach": types.is_multiattach(type_)}
    conn.execute(update(Volume).where(Volume.id == volume_id).values(**values))


def migrate(
    conn: Connection, caller: Caller, volume_id: str, host: str, options: VolumeOptions, *, swaps: bool
) -> None:
    """Move to another pool, named in full or without its part after `#`. `swaps` as with `retype`.

    Raises NotFound, Invalid, Conflict.
    """
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    found = options.find_pool(host)
    if found is None or not services.takes_volumes(conn, found):
        raise Invalid(f"Invalid host: No valid service of volumes on {host[:255]}.")
    if found == present(options.pools, volume.host):
        raise Invalid(f"Invalid host: Destination host must be different than the current host: {host}.")
    _demand_movable(conn, volume, swaps)
    name = "migrate in use" if volume.status == states.IN_USE else "migrate"
    states.move(conn, volume.id, name, caller.now, states.not_migrating, migration_status="starting")
    _submit(conn, caller, volume, {"type_id": None, "host": found})


def arrive(conn: Connection, volume_id: str, host: str, type_id: str | None) -> None:
    """From here on the copy is the volume. `type_id`: its new type, if that changes with it."""
    volumes.place(conn, volume_id, host)
    if type_id is not None:
        become(conn, volume_id, types.get(conn, type_id))
    conn.execute(update(Volume).where(Volume.id == volume_id).values(migration_status="completing"))


def server_of(conn: Connection, volume_id: str) -> str | None:
    """The only server that uses the volume; None if none does, or several do, or something else does."""
    found = attachments.of_volume(conn, [volume_id]).get(volume_id, [])
    holding = [each for each in found if each.status not in volumes.BROKEN]
    if len(holding) != 1 or not holding[0].managed or holding[0].status != attachments.ATTACHED:
        return None
    return holding[0].server_id


def _demand_movable(conn: Connection, volume: Volume, swaps: bool) -> None:
    """Raises Conflict for a volume that something keeps in place."""
    if volume.status == states.AVAILABLE:
        held = volumes.is_held(conn, volume.id)
    else:
        held = volume.status != states.IN_USE or server_of(conn, volume.id) is None
    if held:
        raise Conflict(
            f"Invalid volume: Volume {volume.id} is {volume.status}; only an available one can be moved, and one that "
            "is attached to one server by the compute service."
        )
    if volumes.has_snapshots(conn, volume.id) or volume.group_id is not None:
        raise Conflict(f"Invalid volume: Volume {volume.id} must have no snapshots and be in no group to be moved.")
    if volume.status == states.IN_USE and not swaps:
        raise Conflict(
            f"Invalid volume: The hypervisor cannot move volume {volume.id} while it is in use; detach it first."
        )


def _submit(conn: Connection, caller: Caller, volume: Volume, args: Mapping[str, Any]) -> None:
    tasks.submit(conn, kinds.MOVE_VOLUME, volume.id, caller, args=args)


def complete(conn: Connection, caller: Caller, volume_id: str, new_id: str) -> str:
    """Answer a service that reports the end of its own move: no move here needs that. Returns the id of the volume that
    stays.

    Raises NotFound, Conflict.
    """
    for each in (volumes.visible(conn, caller, volume_id), volumes.visible(conn, caller, new_id)):
        if each.migration_status not in (None, "error", "success"):
            raise Conflict(f"Invalid volume: Volume {each.id} is being moved by a task, which ends by itself.")
    return new_id
