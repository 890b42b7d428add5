"""Delete: no host is connected, nothing is on the backend, the record is gone. Reference: volume-states.md, section 2.

Snapshots that were to be deleted with it go first.
It also cleans up after a volume that was never made, and succeeds if there is no record (any more).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from cloudctl import tasks
from cloudctl.db import Connection, totals
from cloudctl.drivers.errors import InUse, UnknownVolume
from cloudctl.tasks import Context, Step, Transient, Wait, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import groups, kinds, messages, snapshots, states, volumes
from cloudctl.volume.owned import GROUPS
from cloudctl.volume.tables import Volume


async def everything(ctx: Context) -> Memo | Wait:
    """One step: everything in it is an ensure, and each boundary between steps costs a transaction."""
    volume, lent = await ctx.read(look, ctx.resource_id)
    if lent:
        return Wait(poll=1.0)
    if volume is not None and volume.status != states.DELETING:
        await ctx.write(begin, ctx.resource_id, ctx.now)
    await disconnect(ctx)
    await remove_snapshots(ctx)
    await remove(ctx)
    await ctx.commit(gone, ctx.resource_id, None if volume is None else volume.group_id, ctx.now)
    return None


def look(conn: Connection, volume_id: str) -> tuple[Volume | None, bool]:
    """The volume, and whether another one is being made from a snapshot of it."""
    mine = snapshots.of_volume(conn, volume_id)
    lent = any(tasks.has_open(conn, kinds.SNAPSHOT, row.id, kinds.LENT) for row in mine)
    return volumes.find(conn, volume_id), lent


def gone(conn: Connection, volume_id: str, group_id: str | None, now: datetime) -> None:
    """Delete the record, and with the last one that of a group that is being deleted."""
    with following(conn, group_id, now):
        volumes.forget(conn, volume_id)


@contextmanager
def following(conn: Connection, group_id: str | None, now: datetime) -> Iterator[None]:
    """Around what becomes of a volume of this group, if it is in one. The group is locked first, as by `groups`."""
    group = None if group_id is None else GROUPS.find(conn, group_id, lock=True)
    if group is not None and group.status == states.DELETING:
        # It may go with the volume. Who copies a group inserts the group first, then its volumes.
        totals.hold(conn, ("groups", "volumes", "gigabytes"), (group.project_id,))
    yield
    if group is not None:
        groups.follow(conn, group.id, now)


def begin(conn: Connection, volume_id: str, now: datetime) -> None:
    """Set `deleting`: for a child of another task no request has set it. Raises Conflict if the volume is held."""
    volume = volumes.find(conn, volume_id)
    if volume is not None and volume.status != states.DELETING:
        volumes.begin_delete(conn, volume_id, now, force=True)


async def disconnect(ctx: Context) -> Memo:
    """A host that lost its attachment without a word (a status was reset) must not keep the volume alive."""
    backend = ctx.drivers.volume
    try:
        found = await backend.observe(ctx.resource_id)
    except UnknownVolume:
        return None
    for host in found.hosts:
        await backend.disconnect(ctx.resource_id, host)
    return None


async def remove_snapshots(ctx: Context) -> None:
    for row in await ctx.read(snapshots.of_volume, ctx.resource_id):
        await ctx.drivers.volume.ensure_snapshot_absent(row.id)
        await ctx.write(snapshots.forget, row.id)


async def remove(ctx: Context) -> None:
    try:
        await ctx.drivers.volume.ensure_absent(ctx.resource_id)
    except InUse as error:
        # Work that was stopped by force (a snapshot, a backup) releases the volume in a moment.
        raise Transient(str(error)) from error


def forget(conn: Connection, task: Task, now: datetime) -> None:
    volumes.forget(conn, task.resource_id)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    # Those that were to be deleted with it have no task of their own.
    for row in snapshots.of_volume(conn, task.resource_id):
        states.SNAPSHOT.try_move(conn, row.id, "delete failed", now)
    volume = volumes.find(conn, task.resource_id)
    if volume is None:
        return
    with following(conn, volume.group_id, now):
        if states.try_move(conn, volume.id, "delete failed", now):
            messages.record(conn, messages.DELETE_FAILED, volume.project_id, task.request_id, volume.id, now)


DELETE = Workflow(
    kinds.DELETE_VOLUME,
    (Step("forget", everything, aliases=("start", "disconnect", "snapshots", "remove")),),
    on_failure=failed,
)
