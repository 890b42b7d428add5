"""Taking over volumes and snapshots that a backend has outside the cloud, and giving them back.

Reference: OpenStack's block storage API, «Volume manage extension» and «Snapshot manage extension».
"""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import Unmanaged
from cloudctl.errors import Invalid, Unavailable
from cloudctl.rest.caller import Caller
from cloudctl.volume import creation, kinds, placing, services, snapshots, types, volumes
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Snapshot, Volume


def name_of(volume_id: str) -> str:
    """The name of a volume on its backend once it is unmanaged."""
    return f"volume-{volume_id}"


def pool(conn: Connection, options: VolumeOptions, host: str) -> str:
    """The pool named in full, or without its part after `#`. Raises NotFound; Unavailable if it is disabled."""
    found = options.find_pool(host)
    if found is None:
        raise services.not_found(host, services.VOLUME)
    if not services.takes_volumes(conn, found):
        raise Unavailable(f"Service {services.VOLUME} on host {found.partition('#')[0]} is disabled.")
    return found


def demand_safe(name: str, found: Unmanaged | None) -> Unmanaged:
    """Raises Invalid for something that does not exist or cannot be adopted."""
    why = "there is nothing of this name" if found is None else found.objection
    if found is None or why:
        raise Invalid(f"Failed to manage existing resource due to invalid backend reference {name[:255]!r}: {why}.")
    return found


@frozen
class Managed:
    """A volume of a backend. `wanted`: what it is to become, including its size."""

    host: str  # the pool
    name: str
    wanted: NewVolume
    bootable: bool = False


def manage(conn: Connection, caller: Caller, new: Managed, options: VolumeOptions) -> Volume:
    """The volume, `creating`, until a task has adopted it. Raises NotFound, Invalid, OverQuota."""
    made = creation.create(conn, caller, new.wanted, options, submit=False)
    if not placing.is_named(new.host, types.get(conn, made.volume_type_id).extra_specs):
        raise Invalid(f"Invalid input received: volumes of this type cannot be on {new.host}.")
    conn.execute(update(Volume).where(Volume.id == made.id).values(host=new.host, bootable=new.bootable))
    tasks.submit(conn, kinds.MANAGE_VOLUME, made.id, caller, args={"name": new.name})
    return volumes.get(conn, made.id)


def unmanage(conn: Connection, caller: Caller, volume_id: str) -> None:
    """Set `deleting`; its content stays on the backend. Raises NotFound, Conflict."""
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    volumes.begin_delete(conn, volume.id, caller.now)
    tasks.supersede(conn, kinds.UNMANAGE_VOLUME, volume.id, caller, keep=kinds.LENT)


def manage_snapshot(
    conn: Connection, caller: Caller, name: str, wanted: NewSnapshot, options: VolumeOptions
) -> Snapshot:
    """The snapshot, `creating`, until a task has adopted it. Raises NotFound, Conflict, OverQuota."""
    made = snapshots.begin(conn, caller, wanted, options)
    tasks.submit(conn, kinds.MANAGE_SNAPSHOT, made.id, caller, args={"name": name})
    return made


def unmanage_snapshot(conn: Connection, caller: Caller, snapshot_id: str) -> None:
    """Set `deleting`; the snapshot itself stays in its volume. Raises NotFound, Conflict."""
    snapshots.begin_remove(conn, caller, snapshot_id, "delete")
    tasks.supersede(conn, kinds.UNMANAGE_SNAPSHOT, snapshot_id, caller, keep=kinds.LENT)
