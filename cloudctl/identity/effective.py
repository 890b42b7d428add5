"""The roles that a user has: direct and through groups, inherited down the tree, implied by other roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from sqlalchemy import BindParameter, ColumnElement, Select, and_, bindparam, or_, select

from cloudctl.db import Connection
from cloudctl.identity.payload import Scope, ScopeKind
from cloudctl.identity.tables import Assignment, ImpliedRole, Membership, Project, Role
from cloudctl.rest.caller import Caller

SYSTEM_TARGET = "system"


@frozen
class RoleRef:
    """A role of the whole cloud; those of domains do not appear in tokens."""

    id: str
    name: str


@frozen
class RoleName:
    """What a client calls a role to give: by id, or by name. `of_domain`: one of some domain, which no token has."""

    id: str | None = None
    name: str | None = None
    of_domain: bool = False

    def is_of(self, role: RoleRef) -> bool:
        if self.id is not None:
            return role.id == self.id
        return role.name == self.name and not self.of_domain


def is_actor(user: str | BindParameter[str]) -> ColumnElement[bool]:
    """Whether an assignment belongs to the user or to a group that the user is in."""
    of_groups = select(Membership.group_id).where(Membership.user_id == user).scalar_subquery()
    return or_(
        and_(Assignment.actor_kind == "user", Assignment.actor_id == user),
        and_(Assignment.actor_kind == "group", Assignment.actor_id.in_(of_groups)),
    )


def _above() -> ColumnElement[str]:
    """The ids of the projects above the target, and of its domain."""
    above = select(Project.parent_id.label("id")).where(Project.id == bindparam("target")).cte("above", recursive=True)
    above = above.union(select(Project.parent_id).where(Project.id == above.c.id))
    return select(above.c.id).where(above.c.id != "").scalar_subquery()


def _roles(reaches: ColumnElement[bool]) -> Select[str, str]:
    """The ids and names of the roles that a user has by assignments that reach the target, implied ones included."""
    held = select(Assignment.role_id.label("id")).where(is_actor(bindparam("user")), reaches)
    closed = held.cte("held", recursive=True)
    closed = closed.union(select(ImpliedRole.implied_id).where(ImpliedRole.prior_id == closed.c.id))
    return select(Role.id, Role.name).where(Role.id.in_(select(closed.c.id)), Role.domain_id == "").order_by(Role.name)


_kind = Assignment.target_kind
_target: BindParameter[str] = bindparam("target")
_reading = {
    ScopeKind.SYSTEM: _roles(and_(_kind == "system", Assignment.target_id == SYSTEM_TARGET)),
    ScopeKind.DOMAIN: _roles(and_(_kind == "domain", Assignment.target_id == _target, Assignment.inherited == 0)),
    ScopeKind.PROJECT: _roles(
        or_(
            and_(_kind == "project", Assignment.target_id == _target, Assignment.inherited == 0),
            and_(Assignment.inherited == 1, _kind.in_(["project", "domain"]), Assignment.target_id.in_(_above())),
        )
    ),
}


def roles_on(conn: Connection, user_id: str, scope: Scope) -> tuple[RoleRef, ...]:
    """The roles of a user in a scope, implied ones included, sorted by name. Those of domains are left out."""
    found = conn.execute(_reading[scope.kind], {"user": user_id, "target": scope.id})
    return tuple(RoleRef(id, name) for id, name in found)


def lendable(conn: Connection, caller: Caller) -> tuple[RoleRef, ...]:
    """What the caller may give to others in the project of the token: the roles that the token has, if still held."""
    held = roles_on(conn, caller.user_id, Scope(ScopeKind.PROJECT, caller.project_id))
    return tuple(role for role in held if role.name in caller.identity.roles)


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


def implying(conn: Connection, role_id: str) -> set[str]:
    """The roles that imply this one, itself included."""
    priors: dict[str, set[str]] = {}
    for prior, implied in implications(conn).items():
        for each in implied:
            priors.setdefault(each, set()).add(prior)
    return closed([role_id], priors)


def closed(role_ids: Iterable[str], implied: Mapping[str, set[str]]) -> set[str]:
    held, new = set[str](), set(role_ids)
    while new:
        held |= new
        new = {after for role in new for after in implied.get(role, ())} - held
    return held


def ancestors(conn: Connection, project_id: str) -> list[str]:
    """The ids of the projects above a project, nearest first, its domain last."""
    found: list[str] = []
    parent = _parent(conn, project_id)
    while parent and parent not in found:
        found.append(parent)
        parent = _parent(conn, parent)
    return found


def _parent(conn: Connection, project_id: str) -> str:
    return conn.scalar(_parent_by_id, {"id": project_id}) or ""


_parent_by_id = select(Project.parent_id).where(Project.id == bindparam("id"))
