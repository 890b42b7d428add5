"""Quotas: counts and GiB, of volumes and snapshots (also per type) and of backups.

Reference: volume.md, section 9. `gigabytes` counts volumes and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, bindparam, delete, exists, func, or_, select, update

from cloudctl.db import Connection
from cloudctl.db.totals import total
from cloudctl.errors import Invalid, OverQuota
from cloudctl.rest import quota
from cloudctl.rest.quota import UNLIMITED, Limited, QuotaLimit, Quotas
from cloudctl.volume import volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Snapshot, Volume, VolumeType

SERVICE = "volume"
# The counters that also exist per type, as `volumes_TYPE` and so on.
TYPED = ("volumes", "gigabytes", "snapshots")

Count = Callable[[Connection, str], int]

size = func.coalesce(Volume.reserved_size, Volume.size)


def _counted(table: Table, *where: ColumnElement[bool]) -> Count:
    return _number(select(func.count()).select_from(table).where(table.c.project_id == bindparam("project"), *where))


def _summed(table: Table, column: ColumnElement[Any], *where: ColumnElement[bool]) -> Count:
    total = func.coalesce(func.sum(column), 0)
    return _number(select(total).where(table.c.project_id == bindparam("project"), *where))


def _number(query: Select[Any]) -> Count:
    """`query` is built once: that costs more than running it."""
    return lambda conn, project_id: int(conn.execute(query, {"project": project_id}).scalar_one())


def _both(one: Count, other: Count) -> Count:
    return lambda conn, project_id: one(conn, project_id) + other(conn, project_id)


def _gigabytes(volume: Sequence[ColumnElement[bool]] = (), snapshot: Sequence[ColumnElement[bool]] = ()) -> Count:
    """The GiB of the volumes and snapshots that meet these conditions."""
    return _both(
        _summed(Volume.table, size, *volume),
        _summed(Snapshot.table, Snapshot.size, *snapshot),
    )


@lru_cache(maxsize=1000)
def _of_type(name: str) -> tuple[Limited, ...]:
    type_id = select(VolumeType.id).where(VolumeType.name == name).scalar_subquery()
    mine = Volume.volume_type_id == type_id
    mine_or_coming = volumes.of_type(type_id)
    # Looked up for each snapshot of the project: there are far more volumes of a type.
    of_mine = exists(select(Volume.id).where(Volume.id == Snapshot.volume_id, mine))
    return (
        Limited(f"volumes_{name}", UNLIMITED, _counted(Volume.table, mine_or_coming)),
        Limited(f"gigabytes_{name}", UNLIMITED, _gigabytes([mine_or_coming], [of_mine])),
        Limited(f"snapshots_{name}", UNLIMITED, _counted(Snapshot.table, of_mine)),
    )


def told(resource: str, asked: int, used: int, limit: int) -> str:
    """The refusal. It contains the word «exceed»: stock clients take a 413 without it for a rate limit and retry."""
    kind = resource.partition("_")[0]
    if resource == "per_volume_gigabytes":
        return f"VolumeSizeExceedsLimit: Requested volume size {asked}G exceeds the maximum allowed limit {limit}G."
    if kind == "gigabytes":
        return (
            f"VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed {resource} quota. "
            f"Requested {asked}G, quota is {limit}G and {used}G has been consumed."
        )
    if resource == "backup_gigabytes":
        return (
            "VolumeBackupSizeExceedsAvailableQuota: Requested backup exceeds allowed Backup gigabytes quota. "
            f"Requested {asked}G, quota is {limit}G and {used}G has been consumed."
        )
    if kind in ("snapshots", "backups", "groups"):
        name = kind.removesuffix("s")
        return (
            f"{name.title()}LimitExceeded: Maximum number of {kind} allowed ({limit}) exceeded for quota '{resource}'."
        )
    return f"VolumeLimitExceeded: Maximum number of volumes allowed ({limit}) exceeded for quota '{resource}'."


# Looked up once: finding such a Total searches all tables.
_totals = {name: total(name) for name in ("volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes", "groups")}


def quotas(options: VolumeOptions, types: Sequence[str] = ()) -> Quotas:
    """The overall counters, and those of each of these types, given by name."""
    return Quotas(
        SERVICE,
        (
            Limited("volumes", options.volumes, _totals["volumes"]),
            Limited("snapshots", options.snapshots, _totals["snapshots"]),
            Limited("gigabytes", options.gigabytes, _totals["gigabytes"]),
            Limited("backups", options.backups, _totals["backups"]),
            Limited("backup_gigabytes", options.backup_gigabytes, _totals["backup_gigabytes"]),
            Limited("per_volume_gigabytes", options.per_volume_gigabytes),
            Limited("groups", options.groups, _totals["groups"]),
            *(limited for name in types for limited in _of_type(name)),
        ),
        told,
    )


def of_all_types(conn: Connection, options: VolumeOptions) -> Quotas:
    ordered = select(VolumeType.name).order_by(VolumeType.created_at, VolumeType.id)
    return quotas(options, conn.execute(ordered).scalars().all())


def take(
    conn: Connection, options: VolumeOptions, project_id: str, type_name: str, more: Mapping[str, int], size: int = 0
) -> None:
    """Make sure that this many more volumes, snapshots and GiB of a type fit. Raises OverQuota.

    `size`: GiB of the largest volume.
    """
    wanted = {"per_volume_gigabytes": size, **_typed(more, type_name)}
    _take(conn, quotas(options, [type_name]), project_id, wanted)


def take_of_type(
    conn: Connection, options: VolumeOptions, project_id: str, type_name: str, more: Mapping[str, int]
) -> None:
    """As `take`, for the type's counters only: the project has the volume already. Raises OverQuota."""
    wanted = {f"{name}_{type_name}": amount for name, amount in more.items()}
    _take(conn, quotas(options, [type_name]), project_id, wanted)


def take_group(conn: Connection, options: VolumeOptions, project_id: str) -> None:
    """Make sure that one more group fits. Raises OverQuota."""
    _take(conn, quotas(options), project_id, {"groups": 1})


def take_backup(conn: Connection, options: VolumeOptions, project_id: str, gigabytes: int) -> None:
    """Make sure that one more backup fits. Raises OverQuota."""
    _take(conn, quotas(options), project_id, {"backups": 1, "backup_gigabytes": gigabytes})


def _typed(wanted: Mapping[str, int], type_name: str) -> dict[str, int]:
    """The same amounts overall, and for the type."""
    return {**wanted, **{f"{name}_{type_name}": amount for name, amount in wanted.items()}}


def _take(conn: Connection, counters: Quotas, project_id: str, wanted: Mapping[str, int]) -> None:
    try:
        quota.take(conn, counters, project_id, wanted)
    except OverQuota as error:
        raise OverQuota(error.message, headers={"Retry-After": "0"}) from None


def limits(conn: Connection, counters: Quotas, project_id: str) -> dict[str, int]:
    """The limits of existing counters; those set for a type that is gone are left out."""
    found = quota.limits(conn, counters, project_id)
    return {resource.name: found[resource.name] for resource in counters.resources}


# Type → number and GiB of a project's volumes, and of its snapshots.
_volumes_by_type = (
    select(VolumeType.name, func.count(), func.sum(size))
    .join(Volume.table, Volume.volume_type_id == VolumeType.id)
    .where(Volume.project_id == bindparam("project"))
    .group_by(VolumeType.name)
)
_snapshots_by_type = (
    select(VolumeType.name, func.count(), func.sum(Snapshot.size))
    .join(Volume.table, Volume.volume_type_id == VolumeType.id)
    .join(Snapshot.table, Snapshot.volume_id == Volume.id)
    .where(Snapshot.project_id == bindparam("project"))
    .group_by(VolumeType.name)
)


def usage(conn: Connection, options: VolumeOptions, project_id: str) -> dict[str, int]:
    """What a project uses, by counter; those of a type of which it has nothing are left out."""
    found = quota.usage(conn, quotas(options), project_id)
    # By statements for all types at once: there may be hundreds.
    for counter, query in (("volumes", _volumes_by_type), ("snapshots", _snapshots_by_type)):
        for name, count, gigabytes in conn.execute(query, {"project": project_id}):
            found[f"{counter}_{name}"] = int(count)
            found[f"gigabytes_{name}"] = found.get(f"gigabytes_{name}", 0) + int(gigabytes or 0)
    return found


def set_limits(conn: Connection, options: VolumeOptions, project_id: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set some limits. Returns all, as they are now. Raises Invalid for an unknown one, or one below what is used."""
    counters = of_all_types(conn, options)
    unknown = sorted(wanted.keys() - {resource.name for resource in counters.resources})
    if unknown:
        raise Invalid(f"Bad key(s) in quota set: {', '.join(name[:64] for name in unknown)}")
    # Nobody counts what is below the old limits while this compares what is used with the new ones.
    quota.turn(conn, counters, project_id)
    for name, limit in wanted.items():
        used = counters[name].used
        if limit != UNLIMITED and used is not None and limit < used(conn, project_id):
            raise Invalid(f"The quota {name} cannot be {limit}: the project uses {used(conn, project_id)} now.")
    quota.set_limits(conn, counters, project_id, wanted)
    return limits(conn, counters, project_id)


def rename_type(conn: Connection, old: str, new: str) -> None:
    """Move the limits that were set for a type to its new name."""
    for name in TYPED:
        conn.execute(delete(QuotaLimit).where(_is(f"{name}_{new}")))
        conn.execute(update(QuotaLimit).where(_is(f"{name}_{old}")).values(resource=f"{name}_{new}"))


def forget_type(conn: Connection, name: str) -> None:
    conn.execute(delete(QuotaLimit).where(or_(*(_is(f"{counter}_{name}") for counter in TYPED))))


def _is(resource: str) -> ColumnElement[bool]:
    return (QuotaLimit.service == SERVICE) & (QuotaLimit.resource == resource)
