"""Lend: a volume, or a snapshot, stays as it is until what is being made from it is made.

It does nothing itself: the tasks of one resource take turns, so later ones wait for it. `args`: `to`, the new volume.
`returned` ends the wait; without it the wait ends a moment later.
"""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Wait, Workflow, queue
from cloudctl.tasks.workflow import Memo
from cloudctl.volume import kinds, states, volumes
from cloudctl.volume.tables import Volume


async def wait(ctx: Context) -> Memo | Wait:
    return Wait(poll=1.0) if await ctx.read(is_being_made, ctx.args["to"]) else None


def is_being_made(conn: Connection, volume_id: str) -> bool:
    volume = volumes.find(conn, volume_id)
    return volume is not None and volume.status == states.CREATING


def returned(conn: Connection, volume: Volume) -> None:
    """The volume is made, or never will be."""
    if volume.source_volid is not None:
        queue.wake(conn, kinds.VOLUME, volume.source_volid)
    if volume.snapshot_id is not None:
        queue.wake(conn, kinds.SNAPSHOT, volume.snapshot_id)


LEND, LEND_SNAPSHOT = (Workflow(kind, (Step("wait", wait),)) for kind in kinds.LENT)
