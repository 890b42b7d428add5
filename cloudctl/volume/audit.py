"""The audit of volume backends: what they hold, compared with volumes and snapshots.

A task mends a volume that is too small, or that a host it is attached to cannot use. Everything else is only reported:
what is missing cannot be recreated, and what no record knows is nobody's to delete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from attrs import evolve, frozen
from sqlalchemy import bindparam, func, select

from cloudctl import db, tasks
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import IVolumeBackend, IVolumeSnapshots
from cloudctl.drivers.specs import SnapshotState, VolumeState
from cloudctl.tasks.audit import Finding, Well, mended
from cloudctl.volume import attachments, kinds, states, volumes
from cloudctl.volume.tables import Attachment, Snapshot, Volume

# The statuses in which a volume or snapshot must match its record, unless a task is working on it.
SETTLED = (states.AVAILABLE, states.IN_USE)
# While a volume is in one of these, it may have a snapshot that is only a frozen copy.
COPIED = (states.BACKING_UP, states.UPLOADING)


class Settled(NamedTuple):
    """What the audit reads of a settled volume; it reads all of them."""

    id: str
    size: int
    status: str
    is_old: bool  # it has not changed since the round began


_ids = select(Volume.id)
_settled = select(
    Volume.id,
    Volume.size,
    Volume.status,
    (func.coalesce(Volume.updated_at, Volume.created_at) < bindparam("before")).label("is_old"),
).where(Volume.status.in_(SETTLED))
# The tables that are read.
READ = Volume.table.name, Attachment.table.name, Snapshot.table.name


@frozen
class Before:
    """What the database held before the backend was queried: anything changed since then is not judged."""

    at: datetime
    changes: Any  # of the tables, before they were read
    volumes: frozenset[str]
    snapshots: frozenset[str]


def check(database: Database, backend: IVolumeBackend) -> Callable[[], Awaitable[Sequence[Finding]]]:
    """The check, for `tasks.audit.Audit`."""

    well = Well()
    latest: Before | None = None

    async def round() -> Sequence[Finding]:
        nonlocal latest
        changes = database.changes(READ)
        latest = before = await database.scan(_before, changes, latest)
        found = await backend.inventory()
        frozen_ones = await backend.snapshots() if IVolumeSnapshots.providedBy(backend) else None
        # These read every volume, so they must not block writers.
        findings: list[Finding] = []
        if not well.is_still(changes, found):
            findings, all_are_well = await database.scan(_volumes, before, found)
            well.note(all_are_well, changes, found)
        if frozen_ones is not None:
            findings += await database.scan(_snapshots, before, frozen_ones)
        return await mended(database, _mend, findings)

    return round


def _before(conn: Connection, changes: Any = None, latest: Before | None = None) -> Before:
    """`latest`: from the previous round; its ids still hold if nothing has changed."""
    at = utc(db.now(conn))
    if latest is not None and changes is not None and changes == latest.changes:
        return evolve(latest, at=at)
    ids = (frozenset(conn.execute(select(each.c.id)).scalars()) for each in (Volume.table, Snapshot.table))
    return Before(at, changes, *ids)


# -- volumes


def _volumes(conn: Connection, before: Before, found: Sequence[VolumeState]) -> tuple[list[Finding], bool]:
    """All differences (the tasks of those marked `submitted` are yet to be submitted), and whether there are none."""
    findings: list[Finding] = []
    are_well = True
    present = {state.id: state for state in found}
    places = attachments.places(conn)
    for id, size, status, is_old in conn.execute(_settled, {"before": before.at}):
        state, held = present.get(id), places.get(id, ())
        # Nearly all match, and there may be very many.
        if state is None or state.size_gib != size or state.hosts != held or not is_old:
            are_well = False
            if is_old:
                findings += _one(conn, Settled(id, size, status, is_old), state, frozenset(held))
    unknown = present.keys() - before.volumes
    for id in sorted(unknown - set(conn.scalars(_ids)) if unknown else ()):
        findings.append(
            Finding("volume-unknown", kinds.VOLUME, id, "the database does not know this volume of the backend", False)
        )
    return findings, are_well and not unknown


def _one(conn: Connection, row: Settled, state: VolumeState | None, held: frozenset[str]) -> Iterator[Finding]:
    differences = list(_differences(row, state, held))
    if not differences or tasks.has_open(conn, kinds.VOLUME, row.id):
        return
    for kind, message, mend in differences:
        yield Finding(kind, kinds.VOLUME, row.id, message, mend)


def _differences(row: Settled, state: VolumeState | None, held: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """(kind, message, whether it can be mended)"""
    if state is None:
        yield "volume-missing", f"the backend does not have the volume, which is {row.status}", False
        return
    if state.size_gib != row.size:
        kind = "volume-smaller" if state.size_gib < row.size else "volume-larger"
        yield kind, f"it has {state.size_gib} GiB instead of {row.size}", state.size_gib < row.size
    for host in sorted(held - set(state.hosts)):
        yield "volume-unconnected", f"host {host} cannot access the volume that is attached there", True
    if row.status == states.AVAILABLE and state.hosts:
        yield "volume-connected", f"it is not attached, but {', '.join(state.hosts)} can still access it", False


def _mend(conn: Connection, wanted: Sequence[tuple[str, str]]) -> set[str]:
    """The volumes among these that now have a task; one with other work by now is checked in the next round."""
    having = set()
    for _, id in wanted:
        row = volumes.find(conn, id)
        if row is None or tasks.has_open(conn, kinds.VOLUME, id):
            continue
        tasks.submit(conn, kinds.MEND_VOLUME, id, tasks.Unasked(row.project_id))
        having.add(id)
    return having


def _is_old(row: Snapshot, before: Before) -> bool:
    return bool((row.updated_at or row.created_at) < before.at)


# -- snapshots


def _snapshots(conn: Connection, before: Before, found: Sequence[SnapshotState]) -> list[Finding]:
    findings: list[Finding] = []
    present = {state.id: state for state in found}
    known = set()
    for row in conn.execute(select(Snapshot)).all():
        known.add(row.id)
        if row.status != states.AVAILABLE or not _is_old(row, before) or row.id in present:
            continue
        if not tasks.has_open(conn, kinds.SNAPSHOT, row.id):
            message = "the backend does not have the snapshot"
            findings.append(Finding("snapshot-missing", kinds.SNAPSHOT, row.id, message, False))
    for id in sorted(present.keys() - known - before.snapshots):
        if not _is_copied(conn, present[id].volume_id):
            message = f"unknown snapshot of volume {present[id].volume_id}"
            findings.append(Finding("snapshot-unknown", kinds.SNAPSHOT, id, message, False))
    return findings


def _is_copied(conn: Connection, volume_id: str) -> bool:
    """Whether there may be a frozen copy of the volume now."""
    query = select(func.count()).select_from(Volume).where(Volume.id == volume_id, Volume.status.in_(COPIED))
    return bool(conn.execute(query).scalar_one())
