"""Domains: the roots of the trees of projects, and the namespaces of users and groups.

A domain is stored as a project with `is_domain`. Reference: identity.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Table, delete, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden
from cloudctl.identity import cascade, epoch, records, revocation
from cloudctl.identity.records import (
    check_mutable,
    flag,
    folded,
    insert_unique,
    merged_options,
    not_found,
    own_attributes,
    text_filters,
    update_unique,
)
from cloudctl.identity.tables import Group, Project, Role, User
from cloudctl.rest.listing import Listing

DEFAULT = "default"

LISTING = Listing(
    Project.table,
    sort_keys={"id": Project.id, "name": Project.name, "created_at": Project.created_at},
    order=(("created_at", "asc"),),
    filters={**text_filters("name", Project.name), "enabled": flag(Project.enabled)},
)


def get(conn: Connection, domain_id: str, *, lock: bool = False, stays: bool = False) -> Project:
    """As `records.get`. Raises NotFound, also for a project that is not a domain."""
    found = records.get(conn, Project, domain_id, "domain", lock=lock, stays=stays)
    if not found.is_domain:
        raise not_found("domain", domain_id)
    return found


def create(conn: Connection, values: dict[str, Any], now: datetime) -> Project:
    """`values`: name, description, enabled, options, extra, and perhaps an id. Raises Conflict, Invalid."""
    row = {
        "id": new_hex_id(),
        **values,
        "name_key": folded(values["name"]),
        "extra": own_attributes(values.get("extra", {})),
        "is_domain": True,
        "created_at": now,
    }
    taken = Conflict(f"It is not permitted to have two domains with the name or id: {values['name']}.")
    insert_unique(conn, Project, row, taken)
    return get(conn, row["id"])


def change(conn: Connection, domain_id: str, changes: dict[str, Any], now: datetime) -> Project:
    """Raises NotFound, Conflict, Invalid, Forbidden (immutable)."""
    before = get(conn, domain_id, lock=True)
    check_mutable(before.options, changes, "domain", domain_id)
    values = with_merged(before, changes)
    taken = Conflict(f"It is not permitted to have two domains with the name: {changes.get('name')}.")
    update_unique(conn, Project, domain_id, values, taken)
    if before.enabled and changes.get("enabled") is False:
        revocation.revoke_domain(conn, domain_id, now)
    epoch.changed(conn)
    return get(conn, domain_id)


def with_merged(before: Project | Role, changes: dict[str, Any]) -> dict[str, Any]:
    """The columns of an update: options and the client's own attributes are merged into the existing ones."""
    values = dict(changes)
    if "name" in values:
        values["name_key"] = folded(values["name"])
    if "options" in values:
        values["options"] = merged_options(before.options, values["options"])
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    return values


def remove(conn: Connection, domain_id: str) -> None:
    """With its users, groups, projects and roles. Raises NotFound, Forbidden (enabled, immutable, the default one)."""
    domain = get(conn, domain_id, lock=True)
    check_mutable(domain.options, None, "domain", domain_id)
    if domain_id == DEFAULT:
        raise Forbidden("The default domain cannot be deleted.")
    if domain.enabled:
        raise Forbidden("Cannot delete a domain that is enabled, please disable it first.")
    cascades: tuple[tuple[Table, Callable[[Connection, str], object]], ...] = (
        (User.table, cascade.of_user),
        (Group.table, cascade.of_group),
        (Project.table, cascade.of_project),
        (Role.table, cascade.of_role),
    )
    for table, take_all_of in cascades:
        inside = select(table.c.id).where(table.c.domain_id == domain_id).with_for_update()
        for id in conn.execute(inside).scalars().all():
            take_all_of(conn, id)
    cascade.of_project(conn, domain_id)
    cascade.of_domain(conn, domain_id)
    for table in (User.table, Group.table, Role.table, Project.table):
        conn.execute(delete(table).where(table.c.domain_id == domain_id))
    conn.execute(delete(Project).where(Project.id == domain_id))
    epoch.changed(conn)
