"""What a volume holds at one moment, while somebody goes on writing to it: a snapshot that nobody sees.

Its id is that of what is made of it (a backup, an image), so that it is found again under it.
"""

from __future__ import annotations

from cloudctl.drivers.specs import SnapshotSpec
from cloudctl.tasks import Context


async def ensure(ctx: Context, volume_id: str, id: str) -> None:
    await ctx.drivers.volume.ensure_snapshot(SnapshotSpec(id, volume_id))


async def ensure_absent(ctx: Context, id: str) -> None:
    await ctx.drivers.volume.ensure_snapshot_absent(id)
