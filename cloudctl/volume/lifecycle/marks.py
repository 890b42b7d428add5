"""Marks in volumes at the moments of their backups: the next backup reads only what has changed since the last one.

A mark has the id of its backup, so that it can be found again. A volume keeps one: that of its newest backup.
"""

from __future__ import annotations

from typing import Any

from cloudctl.drivers.backends import Backends
from cloudctl.drivers.errors import UnknownVolume
from cloudctl.drivers.interfaces import IVolumeChanges
from cloudctl.tasks import Context
from cloudctl.volume.tables import Backup


async def backend(ctx: Context, backup: Backup) -> Any:
    """The backend of the volume, if it can tell what has changed; else None."""
    found: Any = ctx.drivers.volume
    if isinstance(found, Backends):
        try:
            found = await found.where(backup.volume_id)
        except UnknownVolume:
            return None
    return found if IVolumeChanges.providedBy(found) else None


async def ensure_absent(ctx: Context, backup: Backup) -> None:
    found = await backend(ctx, backup)
    if found is not None:
        await found.ensure_unmarked(backup.volume_id, backup.id)


async def ensure_only(ctx: Context, backup: Backup) -> None:
    """Remove the marks of all other backups of its volume: later ones build on this one."""
    found = await backend(ctx, backup)
    if found is None or backup.snapshot_id is not None:
        return
    try:
        there = await found.marks(backup.volume_id)
    except UnknownVolume:
        return
    for mark in there:
        if mark != backup.id:
            await found.ensure_unmarked(backup.volume_id, mark)
