"""Server groups: servers to be placed together, or apart.

Reference: compute.md, section 12; compute-scheduling.md, section 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

from attrs import frozen
from sqlalchemy import delete, insert, select, update

from cloudctl.compute import migrations, quotas
from cloudctl.compute.servers import ALL_PROJECTS
from cloudctl.compute.tables import Migration, Server, ServerGroup
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.errors import Invalid
from cloudctl.placement.wishes import AFFINITY, SOFT_AFFINITY, GroupWish
from cloudctl.rest.caller import Caller

TOGETHER = (AFFINITY, SOFT_AFFINITY)
REVERTING = frozenset({migrations.REVERTING})
MAY_REVERT = REVERTING | {migrations.FINISHED, migrations.CONFIRMING}


RECORDS = ById(ServerGroup, "Instance group {} could not be found.", longest=255)
get, not_found = RECORDS.get, RECORDS.not_found


def visible(conn: Connection, caller: Caller, group_id: str, *, lock: bool = False) -> ServerGroup:
    """`lock`: no server joins the group before the transaction ends. Raises NotFound."""
    row = get(conn, group_id, lock=lock)
    if row.project_id != caller.project_id and not caller.may(ALL_PROJECTS):
        raise not_found(group_id)
    return row


def page(conn: Connection, caller: Caller, everyone: bool, limit: int, offset: int) -> list[ServerGroup]:
    """The groups of the project, or of everyone, the oldest first."""
    query = select(ServerGroup).order_by(ServerGroup.number).limit(limit).offset(offset)
    if not everyone:
        query = query.where(ServerGroup.project_id == caller.project_id)
    return list(conn.execute(query))


@frozen
class NewGroup:
    name: str
    policy: str
    rules: Mapping[str, int]


def create(conn: Connection, caller: Caller, new: NewGroup) -> ServerGroup:
    """Raises OverQuota."""
    quotas.take_group(conn, caller.project_id, caller.user_id)
    values: dict[str, Any] = {
        "id": new_id(),
        "project_id": caller.project_id,
        "user_id": caller.user_id,
        "name": new.name,
        "policy": new.policy,
        "rules": dict(new.rules),
        "created_at": caller.now,
    }
    return ServerGroup(number=conn.execute(insert(ServerGroup), values).key, **values)


def remove(conn: Connection, caller: Caller, group_id: str) -> None:
    """Its servers remain, in no group. Raises NotFound."""
    visible(conn, caller, group_id, lock=True)
    conn.execute(update(Server).where(Server.group_id == group_id).values(group_id=None))
    conn.execute(delete(ServerGroup).where(ServerGroup.id == group_id))


def join(conn: Connection, caller: Caller, group_id: str, more: int) -> str:
    """Make sure that `more` servers may be created in the group; returns its id. Raises Invalid, OverQuota."""
    row = conn.execute(
        select(ServerGroup)
        .where(ServerGroup.id == group_id, ServerGroup.project_id == caller.project_id)
        .with_for_update()
    ).first()
    if row is None:
        raise Invalid(not_found(group_id).message)
    present = select(Server.id).where(Server.group_id == group_id, Server.deleted_at.is_(None))
    quotas.take_member(conn, caller.project_id, len(conn.execute(present).all()), more)
    return group_id


def _moving(conn: Connection, group_id: str, server_id: str, returning: Container[str]) -> list[tuple[str, str]]:
    """(from, to) of the other members that are being moved, and have not arrived.

    `returning`: the statuses of a migration in which a member counts as one that goes back to where it was.
    """
    query = (
        select(Server.host, Migration.status, Migration.source_host, Migration.dest_host)
        .join(Migration, Migration.server_id == Server.id)
        .where(Server.group_id == group_id, Server.deleted_at.is_(None), Server.id != server_id)
        .where(Migration.status.in_(migrations.OPEN), Server.host.is_not(None))
    )
    found = []
    for here, status, source, dest in conn.execute(query):
        there = source if status in returning else dest
        if here is not None and there is not None and there != here:
            found.append((here, there))
    return found


def wish(conn: Connection, group_id: str, server_id: str) -> GroupWish | None:
    """What the group requires of the server's host; no other member is placed before this transaction ends."""
    row = conn.execute(select(ServerGroup).where(ServerGroup.id == group_id).with_for_update()).first()
    if row is None:
        return None
    others = select(Server.host).where(
        Server.group_id == group_id,
        Server.deleted_at.is_(None),
        Server.id != server_id,
        Server.host.is_not(None),
    )
    members = Counter(host for host in conn.scalars(others) if host is not None)
    together = row.policy in TOGETHER
    # Members that are to be apart stay away from where one is, and from where it may come: it may not arrive, and what
    # waits to be confirmed may be reverted. Together they follow it.
    for here, there in _moving(conn, group_id, server_id, REVERTING if together else MAY_REVERT):
        members[there] += 1
        if together:
            members[here] -= 1
    members = +members
    return GroupWish(row.policy, dict(members), int(row.rules.get("max_server_per_host", 1)))
