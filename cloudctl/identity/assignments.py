"""Grants: a role, to a user or a group, on a project, a domain or the system. Reference: identity.md, section 6."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen
from sqlalchemy import Connection, Row, delete, select

from cloudctl.errors import Forbidden
from cloudctl.identity import cascade, effective, epoch, records, roles
from cloudctl.identity.effective import SYSTEM_TARGET
from cloudctl.identity.payload import Scope, ScopeKind
from cloudctl.identity.tables import (
    application_credential_roles,
    application_credentials,
    assignments,
    groups,
    memberships,
    projects,
    users,
)
from cloudctl.identity.tables import roles as role_table

ActorKind = Literal["user", "group"]
TargetKind = Literal["project", "domain", "system"]


@frozen
class Actor:
    kind: ActorKind
    id: str


@frozen
class Target:
    """`inherited`: the projects below it rather than itself."""

    kind: TargetKind
    id: str
    inherited: bool = False


SYSTEM = Target("system", SYSTEM_TARGET)


# -- queries


def actor_domain(conn: Connection, actor: Actor) -> str:
    """The domain of a user or a group. Raises NotFound."""
    row = records.get(conn, users if actor.kind == "user" else groups, actor.id, actor.kind)
    return str(row.domain_id)


def target_domain(conn: Connection, target: Target) -> str:
    """The domain of a project, or the domain; empty for the system. Raises NotFound."""
    if target.kind == "system":
        return ""
    row = conn.execute(select(projects).where(projects.c.id == target.id)).first()
    if row is None or (target.kind == "domain" and not row.is_domain):
        raise records.not_found(target.kind, target.id)
    return str(row.domain_id or row.id)


def granted(conn: Connection, actor: Actor, target: Target) -> list[Row[Any]]:
    """The roles that were granted directly, by name."""
    ids = select(assignments.c.role_id).where(*_where(actor, target))
    return list(conn.execute(select(role_table).where(role_table.c.id.in_(ids)).order_by(role_table.c.name)))


def is_granted(conn: Connection, actor: Actor, target: Target, role_id: str) -> bool:
    query = select(assignments.c.role_id).where(*_where(actor, target), assignments.c.role_id == role_id)
    return conn.execute(query).first() is not None


def _where(actor: Actor, target: Target) -> list[Any]:
    return [
        assignments.c.actor_kind == actor.kind,
        assignments.c.actor_id == actor.id,
        assignments.c.target_kind == target.kind,
        assignments.c.target_id == target.id,
        assignments.c.inherited == int(target.inherited),
    ]


# -- actions


def grant(conn: Connection, actor: Actor, target: Target, role_id: str) -> None:
    """Repeating it does nothing. Raises NotFound, Forbidden (a role of another domain)."""
    actor_domain(conn, actor)
    domain_id = target_domain(conn, target)
    role = roles.get(conn, role_id)
    if role.domain_id and role.domain_id != domain_id:
        raise Forbidden("A role of a domain can only be granted in that domain.")
    records.keep(conn, users if actor.kind == "user" else groups, actor.id, actor.kind)
    records.keep(conn, role_table, role_id, "role")
    if target.kind != "system":
        records.keep(conn, projects, target.id, target.kind)
    key = {
        "actor_kind": actor.kind,
        "actor_id": actor.id,
        "target_kind": target.kind,
        "target_id": target.id,
        "inherited": int(target.inherited),
        "role_id": role_id,
    }
    records.put(conn, assignments, **key)
    epoch.changed(conn)


def revoke(conn: Connection, actor: Actor, target: Target, role_id: str) -> None:
    """Raises NotFound if it was not granted."""
    roles.get(conn, role_id)
    removed = delete(assignments).where(*_where(actor, target), assignments.c.role_id == role_id)
    if conn.execute(removed).rowcount == 0:
        raise records.not_found("role assignment", role_id)
    for user_id in _users(conn, actor):
        drop_what_lost_its_roles(conn, user_id)
    epoch.changed(conn)


def _users(conn: Connection, actor: Actor) -> list[str]:
    if actor.kind == "user":
        return [actor.id]
    return list(conn.execute(select(memberships.c.user_id).where(memberships.c.group_id == actor.id)).scalars())


def drop_what_lost_its_roles(conn: Connection, user_id: str) -> None:
    """Delete the user's application credentials that hold a role which the user no longer has there."""
    table = application_credentials.c
    for credential in conn.execute(select(table.id, table.project_id).where(table.user_id == user_id)).all():
        held = effective.roles_on(conn, user_id, Scope(ScopeKind.PROJECT, credential.project_id))
        given = select(application_credential_roles.c.role_id).where(
            application_credential_roles.c.credential_id == credential.id
        )
        if not set(conn.execute(given).scalars()) <= {role.id for role in held}:
            cascade.delete_application_credentials(conn, table.id == credential.id)
