"""Lend: a volume, or a snapshot, stays as it is until what is being made from it is made.

It does nothing itself: the tasks of one resource take turns, so later ones wait for it. `args`: `to`, the new volume.
"""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.workflow import Memo
from cloudctl.volume import kinds, states, volumes


async def wait(ctx: Context) -> Memo | Wait:
    return Wait(poll=1.0) if await ctx.read(is_being_made, ctx.args["to"]) else None


def is_being_made(conn: Connection, volume_id: str) -> bool:
    volume = volumes.find(conn, volume_id)
    return volume is not None and volume.status == states.CREATING


LEND, LEND_SNAPSHOT = (Workflow(kind, (Step("wait", wait),)) for kind in kinds.LENT)
