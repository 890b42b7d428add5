"""Quotas: limits of a project, checked inside the transaction that creates.

A service declares its resources; what a project uses is a total that the database keeps (`db/totals.py`), or is counted
from the rows. Neither is ever wrong after a crash. Two transactions that check at once take turns by the lock of one
row (SQLite has one writer anyway).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from attrs import frozen
from sqlalchemy import Integer, String, bindparam, delete, false, insert, select, true, union_all, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection, Database, totals
from cloudctl.db.columns import Field, column
from cloudctl.db.records import Record
from cloudctl.db.totals import Kept, Sum
from cloudctl.errors import OverQuota
from cloudctl.tasks.audit import Finding, Well

UNLIMITED = -1
# Stands for all projects that have no limit of their own, in place of a project's id.
EVERYBODY = ""


class QuotaLimit(Record, table="quota_limits"):
    service: Field[str] = column(String(32), primary_key=True)
    project_id: Field[str] = column(String(64), primary_key=True)
    resource: Field[str] = column(String(300), primary_key=True)
    limit: Field[int] = column(Integer)


class QuotaLock(Record, table="quota_locks"):
    """One row per project and service: a transaction that creates holds it until the commit."""

    service: Field[str] = column(String(32), primary_key=True)
    project_id: Field[str] = column(String(64), primary_key=True)
    turn: Field[int] = column(Integer, default=0)


# Built once: building a statement costs more than running it.
_whose = (
    QuotaLimit.service == bindparam("service"),
    QuotaLimit.project_id.in_((EVERYBODY, bindparam("project", type_=String()))),
)
# What is for everybody comes first, and a project's own limit replaces it.
_limits = select(QuotaLimit.resource, QuotaLimit.limit).where(*_whose).order_by(QuotaLimit.project_id)
_limits_and_sums = union_all(
    select(
        true().label("is_limit"),
        QuotaLimit.resource.label("name"),
        QuotaLimit.limit.label("amount"),
        QuotaLimit.project_id.label("project_id"),
    ).where(*_whose),
    select(false(), Kept.name, Kept.amount, Kept.project_id).where(
        Kept.name.in_(bindparam("sums", expanding=True)), Kept.project_id == bindparam("project", type_=String())
    ),
).order_by("project_id")
_turn = (
    update(QuotaLock)
    .where(QuotaLock.service == bindparam("of_service"), QuotaLock.project_id == bindparam("of_project"))
    .values(turn=QuotaLock.turn + 1)
)


@frozen
class Limited:
    """A resource with a limit. `used(conn, project_id)` is how much there is: `total("volumes")`, or what counts it.

    None: the limit is one for each item, and nothing is counted.
    """

    name: str
    default: int
    used: Callable[[Connection, str], int] | None = None


@frozen
class Quotas:
    """The limited resources of one service.

    `told(resource, asked, used, limit)` words the refusal. `unified(conn, project_id)`: limits that are kept elsewhere,
    as resource → limit; those of `set_limits` override them.
    """

    service: str
    resources: tuple[Limited, ...]
    told: Callable[[str, int, int, int], str]
    unified: Callable[[Connection, str], Mapping[str, int]] | None = None

    def __getitem__(self, name: str) -> Limited:
        return next(resource for resource in self.resources if resource.name == name)


def limits(conn: Connection, quotas: Quotas, project_id: str) -> dict[str, int]:
    """Resource → limit of one project; -1 is no limit."""
    found = conn.execute(_limits, {"service": quotas.service, "project": project_id})
    return _limits_of(conn, quotas, project_id, dict(found))


def balance(
    conn: Connection, quotas: Quotas, project_id: str, names: Iterable[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """The limits of one project; and what it uses of those of the resources `names` whose sums the database keeps."""
    kept = {each.used.name: each.name for each in map(quotas.__getitem__, names) if isinstance(each.used, Sum)}
    if not kept:
        return limits(conn, quotas, project_id), {}
    # In one statement: it costs more to send than to run.
    own, used = dict[str, int](), dict.fromkeys(kept.values(), 0)
    given = {"service": quotas.service, "project": project_id, "sums": list(kept)}
    for is_limit, name, amount, _ in conn.execute(_limits_and_sums, given):
        if is_limit:
            own[name] = amount
        else:
            used[kept[name]] = amount
    return _limits_of(conn, quotas, project_id, own), used


def _limits_of(conn: Connection, quotas: Quotas, project_id: str, own: dict[str, int]) -> dict[str, int]:
    allowed = {resource.name: resource.default for resource in quotas.resources}
    if quotas.unified is not None:
        said = quotas.unified(conn, project_id)
        allowed |= {name: said[name] for name in allowed if name in said}
    return allowed | own


def defaults(conn: Connection, quotas: Quotas) -> dict[str, int]:
    """The limits of a project that has none of its own; `set_limits` for EVERYBODY changes them."""
    return limits(conn, quotas, EVERYBODY)


def usage(conn: Connection, quotas: Quotas, project_id: str) -> dict[str, int]:
    return {resource.name: resource.used(conn, project_id) if resource.used else 0 for resource in quotas.resources}


def used(conn: Connection, quotas: Quotas, name: str, project_id: str) -> int:
    """What a project uses of one resource."""
    resource = quotas[name]
    return resource.used(conn, project_id) if resource.used else 0


def take(conn: Connection, quotas: Quotas, project_id: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Make sure that `wanted` more of each resource fits. Raises OverQuota. Call it before the rows are inserted.

    Returns the limits: code that counts in its own way passes an empty `wanted`, and nobody else counts meanwhile.
    """
    turn(conn, quotas, project_id)
    return check(conn, quotas, project_id, wanted)


def check(conn: Connection, quotas: Quotas, project_id: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """As `take`, but only a question: others may count meanwhile."""
    allowed, sums = balance(conn, quotas, project_id, wanted)
    for name, amount in wanted.items():
        limit, resource = allowed[name], quotas[name]
        if limit == UNLIMITED or amount <= 0:
            continue
        used = sums[name] if name in sums else resource.used(conn, project_id) if resource.used else 0
        if used + amount > limit:
            raise OverQuota(quotas.told(name, amount, used, limit))
    return allowed


def set_limits(conn: Connection, quotas: Quotas, project_id: str, wanted: Mapping[str, int]) -> None:
    # Two requests that set a limit for the first time take turns.
    turn(conn, quotas, project_id)
    for name, limit in wanted.items():
        key = (
            QuotaLimit.service == quotas.service,
            QuotaLimit.project_id == project_id,
            QuotaLimit.resource == name,
        )
        if conn.execute(update(QuotaLimit).where(*key).values(limit=limit)).rowcount == 0:
            conn.execute(
                insert(QuotaLimit).values(service=quotas.service, project_id=project_id, resource=name, limit=limit)
            )


def reset_limits(conn: Connection, quotas: Quotas, project_id: str) -> None:
    conn.execute(delete(QuotaLimit).where(QuotaLimit.service == quotas.service, QuotaLimit.project_id == project_id))


def check_totals(db: Database) -> Callable[[], Awaitable[Sequence[Finding]]]:
    """The audit's check of totals: puts right those that differ from the rows, as after a copy without triggers."""

    well = Well()

    async def round() -> Sequence[Finding]:
        changes = db.changes(totals.tables())
        if well.is_still(changes):
            return []
        differ = await db.scan(totals.differences)
        well.note(not differ, changes)
        if not differ:
            return []
        return [
            Finding("total-wrong", "project", project, f"{name} was kept as {kept}, and is {counted}", submitted=False)
            for name, project, kept, counted in await db.run(totals.mend)
        ]

    return round


def turn(conn: Connection, quotas: Quotas, whose: str) -> None:
    """Take the turn of this project, or of this user, until this transaction ends: others that count have to wait.

    A deletion that locks more than the row it deletes takes the turn as well, and takes it first: the database itself
    locks the sums (`db.totals`) until the commit, so reaching them another way would deadlock with a creation.
    """
    if conn.dialect.name == "sqlite":
        return
    mine = {"of_service": quotas.service, "of_project": whose}
    if conn.execute(_turn, mine).rowcount == 0:
        try:
            with conn.begin_nested():
                conn.execute(insert(QuotaLock).values(service=quotas.service, project_id=whose, turn=1))
        except IntegrityError:
            conn.execute(_turn, mine)
