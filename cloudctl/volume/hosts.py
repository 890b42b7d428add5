"""What the hosts of block storage hold, for administrators."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, func, select

from cloudctl.db import Connection
from cloudctl.volume import services
from cloudctl.volume.options import VolumeOptions, backend_of
from cloudctl.volume.tables import Snapshot, Volume


@frozen
class Usage:
    """The usage of one project on a host; `project_id` empty: of all projects."""

    host: str
    project_id: str
    volumes: int = 0
    volume_gib: int = 0
    snapshots: int = 0
    snapshot_gib: int = 0


def _here(options: VolumeOptions, host: str) -> ColumnElement[bool]:
    """The volumes of a backend, as `VolumeOptions.is_one` has it."""
    if len(options.names) == 1:
        return Volume.host.is_not(None)
    return Volume.host.contains(f"@{backend_of(host)}#", autoescape=True)


def usage(conn: Connection, options: VolumeOptions, host: str) -> list[Usage]:
    """The total, then each project. Raises NotFound for a host without an enabled volume service."""
    service = services.get(conn, options, host, services.VOLUME)
    if service.disabled:
        raise services.not_found(host, services.VOLUME)
    here = _here(options, host)
    volumes = select(Volume.project_id, func.count(), func.sum(Volume.size)).where(here).group_by(Volume.project_id)
    snapshots = (
        select(Snapshot.project_id, func.count(), func.sum(Snapshot.size))
        .join(Volume.table, Volume.id == Snapshot.volume_id)
        .where(here)
        .group_by(Snapshot.project_id)
    )
    found: dict[str, Usage] = defaultdict(lambda: Usage(host, ""))
    for project_id, count, gib in conn.execute(volumes):
        found[project_id] = evolve(found[project_id], project_id=project_id, volumes=count, volume_gib=int(gib))
    for project_id, count, gib in conn.execute(snapshots):
        found[project_id] = evolve(found[project_id], project_id=project_id, snapshots=count, snapshot_gib=int(gib))
    each = [found[project_id] for project_id in sorted(found)]
    total = Usage(
        host,
        "",
        sum(one.volumes for one in each),
        sum(one.volume_gib for one in each),
        sum(one.snapshots for one in each),
        sum(one.snapshot_gib for one in each),
    )
    return list(chain([total], each))
