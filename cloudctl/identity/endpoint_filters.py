"""Which endpoints a project sees: those associated with it, directly or through groups; all if there are none.

Reference: identity.md, section 9 (OS-EP-FILTER).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, or_, select

from cloudctl.db import Connection, Record
from cloudctl.identity import epoch, records
from cloudctl.identity.tables import Endpoint, EndpointGroup, Project, ProjectEndpoint, ProjectEndpointGroup
from cloudctl.rest.listing import Condition

# Built once: every catalog needs them.
_direct = select(ProjectEndpoint.endpoint_id).where(ProjectEndpoint.project_id == bindparam("project"))
_groups = select(EndpointGroup).where(
    EndpointGroup.id.in_(
        select(ProjectEndpointGroup.group_id).where(ProjectEndpointGroup.project_id == bindparam("project"))
    )
)
_any_direct = select(ProjectEndpoint.project_id).limit(1)
_any_group = select(ProjectEndpointGroup.project_id).limit(1)


def of_project(conn: Connection, project_id: str) -> ColumnElement[bool] | None:
    """The condition for the endpoints that a project sees; None: all."""
    wanted = {"project": project_id}
    conditions = [meets(group.filters) for group in conn.execute(_groups, wanted)]
    if conn.execute(_direct, wanted).first() is not None:
        direct = select(ProjectEndpoint.endpoint_id).where(ProjectEndpoint.project_id == project_id)
        conditions.append(Endpoint.id.in_(direct))
    return or_(*conditions) if conditions else None


def is_used(conn: Connection) -> bool:
    """Whether there is a project that does not see all endpoints."""
    return conn.execute(_any_direct).first() is not None or conn.execute(_any_group).first() is not None


def meets(filters: Mapping[str, Any]) -> ColumnElement[bool]:
    """The condition that an endpoint meets all filters of a group."""
    return and_(Endpoint.id.is_not(None), *(Endpoint.table.c[name] == value for name, value in filters.items()))


def in_project(project_id: str) -> Condition:
    """The endpoint groups of a project."""
    return EndpointGroup.id.in_(
        select(ProjectEndpointGroup.group_id).where(ProjectEndpointGroup.project_id == project_id)
    )


def with_endpoint(endpoint_id: str) -> Condition:
    """The projects with which an endpoint is associated."""
    return Project.id.in_(select(ProjectEndpoint.project_id).where(ProjectEndpoint.endpoint_id == endpoint_id))


def with_group(group_id: str) -> Condition:
    """The projects of an endpoint group."""
    return Project.id.in_(select(ProjectEndpointGroup.project_id).where(ProjectEndpointGroup.group_id == group_id))


# -- groups


def get(conn: Connection, group_id: str, *, lock: bool = False) -> EndpointGroup:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, EndpointGroup, group_id, "endpoint group", lock=lock)


def create(conn: Connection, values: Mapping[str, Any], now: datetime) -> EndpointGroup:
    """`values`: name, description, filters."""
    return records.create(conn, EndpointGroup, values, now)


def change(conn: Connection, group_id: str, changes: Mapping[str, Any]) -> EndpointGroup:
    """Raises NotFound."""
    before = get(conn, group_id, lock=True)
    epoch.changed(conn)
    return records.change(conn, EndpointGroup, before, changes)


def remove(conn: Connection, group_id: str) -> None:
    """Raises NotFound."""
    get(conn, group_id, lock=True)
    conn.execute(delete(ProjectEndpointGroup).where(ProjectEndpointGroup.group_id == group_id))
    conn.execute(delete(EndpointGroup).where(EndpointGroup.id == group_id))
    epoch.changed(conn)


# -- associations: a record of ProjectEndpoint or ProjectEndpointGroup is all key


ASSOCIATED: Mapping[str, tuple[type[Record], str]] = {
    "project_id": (Project, "project"),
    "endpoint_id": (Endpoint, "endpoint"),
    "group_id": (EndpointGroup, "endpoint group"),
}


def associate(conn: Connection, record: type[Record], **key: str) -> None:
    """Repeating it does nothing. Raises NotFound."""
    for name, id in key.items():
        associated, kind = ASSOCIATED[name]
        records.get(conn, associated, id, kind, stays=True)
    records.put(conn, record, **key)
    epoch.changed(conn)


def is_associated(conn: Connection, record: type[Record], **key: str) -> bool:
    return conn.execute(select(record).where(*records.having(record, key))).first() is not None


def dissociate(conn: Connection, record: type[Record], **key: str) -> bool:
    """Returns whether they were associated."""
    gone = conn.execute(delete(record).where(*records.having(record, key))).rowcount > 0
    if gone:
        epoch.changed(conn)
    return gone
