"""Mend: give the backend's volume the size in its record, and connect the hosts to which it is attached.

The audit submits it. What is right already stays as it is; a volume that the backend does not have is left alone.
"""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.drivers.errors import UnknownVolume
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo
from cloudctl.volume import attachments, kinds, states, volumes
from cloudctl.volume.tables import Volume


async def resize(ctx: Context) -> Memo:
    volume, _ = await ctx.read(wanted, ctx.resource_id)
    if volume is None or volume.status not in (states.AVAILABLE, states.IN_USE):
        return None
    try:
        found = await ctx.drivers.volume.observe(volume.id)
    except UnknownVolume:
        return None
    if found.size_gib < volume.size:
        await ctx.drivers.volume.ensure_extended(volume.id, volume.size)
    return None


async def connect(ctx: Context) -> Memo:
    _, hosts = await ctx.read(wanted, ctx.resource_id)
    backend = ctx.drivers.volume
    for host in sorted(hosts):
        try:
            await backend.connect(ctx.resource_id, host)
        except UnknownVolume:
            return None
        _, still = await ctx.read(wanted, ctx.resource_id)
        if host not in still:
            # It was detached while the backend was connecting the host.
            await backend.disconnect(ctx.resource_id, host)
    return None


def wanted(conn: Connection, volume_id: str) -> tuple[Volume | None, frozenset[str]]:
    """The volume (None if it is gone), and the hosts to which it is attached."""
    volume = volumes.find(conn, volume_id)
    return volume, attachments.hosts_of(conn, volume_id)


MEND = Workflow(
    kinds.MEND_VOLUME,
    (
        Step("resize", resize),
        Step("connect", connect),
    ),
)
