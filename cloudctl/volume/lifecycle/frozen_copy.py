"""The content of a volume at one moment, while a guest keeps writing to it: a hidden snapshot.

Its id is that of the backup or image made from it, so that it can be found again. If a backend cannot freeze a volume
while a guest has it open, the guest's hypervisor copies it instead.
"""

from __future__ import annotations

from typing import Any

from cloudctl.db import Connection
from cloudctl.drivers.errors import InUse, InvalidPower, UnknownSnapshot
from cloudctl.drivers.interfaces import ICaptureAttached
from cloudctl.drivers.specs import SnapshotSpec
from cloudctl.tasks import Context
from cloudctl.volume import attachments


async def ensure(ctx: Context, volume_id: str, id: str, raw: bool = True) -> None:
    """Make the copy, unless `export` can do without it. `raw`: `export` will copy the volume. Raises InUse."""
    try:
        await ctx.drivers.volume.ensure_snapshot(SnapshotSpec(id, volume_id))
    except InUse:
        if not raw or await _reader(ctx, volume_id) is None:
            raise


async def export(ctx: Context, volume_id: str, id: str, path: str) -> str:
    """As `ensure_exported` of IVolumeData, of what `ensure` prepared."""
    try:
        return str(await ctx.drivers.volume.ensure_exported(volume_id, path, id))
    except UnknownSnapshot:
        reader = await _reader(ctx, volume_id)
        if reader is None:
            raise
    hypervisor, server_id = reader
    try:
        return str(await hypervisor.ensure_volume_captured(server_id, volume_id, path))
    except InvalidPower:
        # The guest has shut down since, so the backend can do it.
        await ctx.drivers.volume.ensure_snapshot(SnapshotSpec(id, volume_id))
        return str(await ctx.drivers.volume.ensure_exported(volume_id, path, id))


async def ensure_absent(ctx: Context, id: str) -> None:
    await ctx.drivers.volume.ensure_snapshot_absent(id)


async def _reader(ctx: Context, volume_id: str) -> tuple[Any, str] | None:
    """A hypervisor that can copy the volume, and the server whose guest has it."""
    if not ICaptureAttached.providedBy(ctx.drivers.hypervisor):
        return None
    server_id = await ctx.read(_user, volume_id)
    return None if server_id is None else (ctx.drivers.hypervisor, server_id)


def _user(conn: Connection, volume_id: str) -> str | None:
    having = attachments.of_volume(conn, [volume_id]).get(volume_id, [])
    return next((each.server_id for each in having if each.managed and each.status == attachments.ATTACHED), None)
