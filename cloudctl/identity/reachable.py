"""Where somebody has a role: the projects and domains of a user, the system. Reference: identity.md, section 2."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select

from cloudctl.db import Connection
from cloudctl.identity.effective import SYSTEM_TARGET, is_actor
from cloudctl.identity.tables import Assignment, Project


def projects_of(conn: Connection, user_id: str) -> list[Row[Any]]:
    """Enabled projects of enabled domains in which the user has a role, direct, through a group or inherited."""
    direct, above = set[str](), set[str]()
    table = Assignment.table.c
    query = select(table.target_kind, table.target_id, table.inherited).where(is_actor(user_id))
    for row in conn.execute(query):
        if row.inherited:
            above.add(row.target_id)
        elif row.target_kind == "project":
            direct.add(row.target_id)
    return list(_enabled(conn, direct | _below(conn, above)))


def _below(conn: Connection, ids: set[str]) -> set[str]:
    found, level = set[str](), ids
    while level:
        level = set(conn.execute(select(Project.id).where(Project.parent_id.in_(level))).scalars()) - found
        found |= level
    return found


def _enabled(conn: Connection, ids: set[str]) -> list[Row[Any]]:
    # Domains are those without one: so the index is used.
    domains = select(Project.id).where(Project.domain_id == "", Project.enabled).scalar_subquery()
    query = select(Project).where(
        Project.id.in_(ids), Project.is_domain.is_(False), Project.enabled, Project.domain_id.in_(domains)
    )
    return list(conn.execute(query.order_by(Project.name, Project.id)))


def domains_of(conn: Connection, user_id: str) -> list[Row[Any]]:
    """Enabled domains on which the user has a role."""
    table = Assignment.table.c
    mine = select(table.target_id).where(is_actor(user_id), table.target_kind == "domain", table.inherited == 0)
    query = select(Project).where(Project.id.in_(mine), Project.is_domain, Project.enabled)
    return list(conn.execute(query.order_by(Project.name, Project.id)))


def has_system(conn: Connection, user_id: str) -> bool:
    table = Assignment.table.c
    query = select(table.role_id).where(
        is_actor(user_id), table.target_kind == "system", table.target_id == SYSTEM_TARGET
    )
    return conn.execute(query).first() is not None
