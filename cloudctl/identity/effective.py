"""The roles that somebody has: direct and through groups, inherited down the tree, implied by other roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from sqlalchemy import ColumnElement, and_, or_, select

from cloudctl.db import Connection
from cloudctl.identity.payload import Scope, ScopeKind
from cloudctl.identity.tables import Assignment, ImpliedRole, Membership, Project
from cloudctl.identity.tables import Role as RoleRecord

SYSTEM_TARGET = "system"


@frozen
class Role:
    """`domain_id` is empty for a role of the whole cloud; only those come into tokens."""

    id: str
    name: str
    domain_id: str = ""


def roles_on(conn: Connection, user_id: str, scope: Scope) -> tuple[Role, ...]:
    """The roles of a user in a scope, implied ones included, sorted by name."""
    query = select(Assignment.role_id).where(is_actor(user_id), _reaches(conn, scope))
    return named(conn, closure(conn, conn.execute(query).scalars()))


def implications(conn: Connection) -> dict[str, set[str]]:
    """Role id → the ids that it implies directly."""
    found: dict[str, set[str]] = {}
    for prior, implied in conn.execute(select(ImpliedRole.prior_id, ImpliedRole.implied_id)):
        found.setdefault(prior, set()).add(implied)
    return found


def closure(conn: Connection, role_ids: Iterable[str]) -> set[str]:
    """The roles and all that they imply."""
    held = set(role_ids)
    if not held:
        return held
    return closed(held, implications(conn))


def closed(role_ids: Iterable[str], implied: Mapping[str, set[str]]) -> set[str]:
    held, new = set[str](), set(role_ids)
    while new:
        held |= new
        new = {after for role in new for after in implied.get(role, ())} - held
    return held


def named(conn: Connection, role_ids: Iterable[str]) -> tuple[Role, ...]:
    ids = list(role_ids)
    if not ids:
        return ()
    query = (
        select(RoleRecord.id, RoleRecord.name, RoleRecord.domain_id)
        .where(RoleRecord.id.in_(ids))
        .order_by(RoleRecord.name)
    )
    return tuple(Role(*row) for row in conn.execute(query) if not row.domain_id)


def ancestors(conn: Connection, project_id: str) -> list[str]:
    """The ids of the projects above a project, nearest first, its domain last."""
    found: list[str] = []
    parent = _parent(conn, project_id)
    while parent and parent not in found:
        found.append(parent)
        parent = _parent(conn, parent)
    return found


def _parent(conn: Connection, project_id: str) -> str:
    return conn.execute(select(Project.parent_id).where(Project.id == project_id)).scalar() or ""


def is_actor(user_id: str) -> ColumnElement[bool]:
    """Whether an assignment is the user's or that of a group that the user is in."""
    of_groups = select(Membership.group_id).where(Membership.user_id == user_id).scalar_subquery()
    return or_(
        and_(Assignment.actor_kind == "user", Assignment.actor_id == user_id),
        and_(Assignment.actor_kind == "group", Assignment.actor_id.in_(of_groups)),
    )


def _reaches(conn: Connection, scope: Scope) -> ColumnElement[bool]:
    kind, target, inherited = Assignment.target_kind, Assignment.target_id, Assignment.inherited
    if scope.kind is ScopeKind.SYSTEM:
        return and_(kind == "system", target == SYSTEM_TARGET)
    if scope.kind is ScopeKind.DOMAIN:
        return and_(kind == "domain", target == scope.id, inherited == 0)
    above = ancestors(conn, scope.id)
    return or_(
        and_(kind == "project", target == scope.id, inherited == 0),
        and_(inherited == 1, kind.in_(["project", "domain"]), target.in_(above)),
    )
