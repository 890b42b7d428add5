"""Where a user has a role: the projects, the domains, the system. Reference: identity.md, section 2."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.identity.effective import SYSTEM_TARGET, is_actor
from cloudctl.identity.tables import Assignment, Project
from cloudctl.rest.listing import Condition


def projects_of(conn: Connection, user_id: str, *where: Condition) -> Sequence[Project]:
    """Enabled projects of enabled domains in which the user has a role, direct, through a group or inherited. Of these,
    the ones that meet `where`.
    """
    direct, above = set[str](), set[str]()
    query = select(Assignment.target_kind, Assignment.target_id, Assignment.inherited).where(is_actor(user_id))
    for kind, id, inherited in conn.execute(query):
        if inherited:
            above.add(id)
        elif kind == "project":
            direct.add(id)
    return _enabled(conn, direct | _below(conn, above), *where)


def _below(conn: Connection, ids: set[str]) -> set[str]:
    found, level = set[str](), ids
    while level:
        level = set(conn.execute(select(Project.id).where(Project.parent_id.in_(level))).scalars()) - found
        found |= level
    return found


def _enabled(conn: Connection, ids: set[str], *where: Condition) -> Sequence[Project]:
    # Domains are the rows without a domain: a condition that uses the index.
    domains = select(Project.id).where(Project.domain_id == "", Project.enabled).scalar_subquery()
    query = select(Project).where(
        Project.id.in_(ids), Project.is_domain.is_(False), Project.enabled, Project.domain_id.in_(domains), *where
    )
    return conn.execute(query.order_by(Project.name, Project.id)).all()


def domains_of(conn: Connection, user_id: str) -> Sequence[Project]:
    """Enabled domains on which the user has a role."""
    mine = select(Assignment.target_id).where(
        is_actor(user_id), Assignment.target_kind == "domain", Assignment.inherited == 0
    )
    query = select(Project).where(Project.id.in_(mine), Project.is_domain, Project.enabled)
    return conn.execute(query.order_by(Project.name, Project.id)).all()


def has_system(conn: Connection, user_id: str) -> bool:
    query = select(Assignment.role_id).where(
        is_actor(user_id), Assignment.target_kind == "system", Assignment.target_id == SYSTEM_TARGET
    )
    return conn.execute(query).first() is not None
