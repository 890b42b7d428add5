"""Where somebody has a role: the projects and domains of a user, the system. Reference: identity.md, section 2."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from cloudctl.identity.effective import SYSTEM_TARGET, is_actor
from cloudctl.identity.tables import assignments, projects


def projects_of(conn: Connection, user_id: str) -> list[Row[Any]]:
    """Enabled projects of enabled domains in which the user has a role, direct, through a group or inherited."""
    direct, above = set[str](), set[str]()
    table = assignments.c
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
        level = set(conn.execute(select(projects.c.id).where(projects.c.parent_id.in_(level))).scalars()) - found
        found |= level
    return found


def _enabled(conn: Connection, ids: set[str]) -> list[Row[Any]]:
    # Domains are those without one: so the index is used.
    domains = select(projects.c.id).where(projects.c.domain_id == "", projects.c.enabled).scalar_subquery()
    query = select(projects).where(
        projects.c.id.in_(ids), projects.c.is_domain.is_(False), projects.c.enabled, projects.c.domain_id.in_(domains)
    )
    return list(conn.execute(query.order_by(projects.c.name, projects.c.id)))


def domains_of(conn: Connection, user_id: str) -> list[Row[Any]]:
    """Enabled domains on which the user has a role."""
    table = assignments.c
    mine = select(table.target_id).where(is_actor(user_id), table.target_kind == "domain", table.inherited == 0)
    query = select(projects).where(projects.c.id.in_(mine), projects.c.is_domain, projects.c.enabled)
    return list(conn.execute(query.order_by(projects.c.name, projects.c.id)))


def has_system(conn: Connection, user_id: str) -> bool:
    table = assignments.c
    query = select(table.role_id).where(
        is_actor(user_id), table.target_kind == "system", table.target_id == SYSTEM_TARGET
    )
    return conn.execute(query).first() is not None
