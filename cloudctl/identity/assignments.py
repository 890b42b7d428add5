"""Grants: a role, to a user or a group, on a project, a domain or the system. Reference: identity.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen
from sqlalchemy import ColumnElement, delete, select

from cloudctl.db import Connection
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import cascade, epoch, records, roles
from cloudctl.identity.effective import SYSTEM_TARGET
from cloudctl.identity.tables import Assignment, Group, Membership, Project, Role, User

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


def actor_domain(conn: Connection, actor: Actor, *, stays: bool = False) -> str:
    """The domain of a user or a group. Raises NotFound."""
    if actor.kind == "user":
        return records.get(conn, User, actor.id, actor.kind, stays=stays).domain_id
    return records.get(conn, Group, actor.id, actor.kind, stays=stays).domain_id


def target_domain(conn: Connection, target: Target, *, stays: bool = False) -> str:
    """The domain of a project, or the domain; empty for the system. Raises NotFound."""
    if target.kind == "system":
        return ""
    found = records.get(conn, Project, target.id, target.kind, stays=stays)
    if target.kind == "domain" and not found.is_domain:
        raise records.not_found(target.kind, target.id)
    return found.domain_id or found.id


def granted(conn: Connection, actor: Actor, target: Target) -> Sequence[Role]:
    """The roles that were granted directly, by name."""
    ids = select(Assignment.role_id).where(*_where(actor, target))
    return conn.execute(select(Role).where(Role.id.in_(ids)).order_by(Role.name)).all()


def is_granted(conn: Connection, actor: Actor, target: Target, role_id: str) -> bool:
    query = select(Assignment.role_id).where(*_where(actor, target), Assignment.role_id == role_id)
    return conn.execute(query).first() is not None


def _where(actor: Actor, target: Target) -> list[ColumnElement[bool]]:
    return [
        Assignment.actor_kind == actor.kind,
        Assignment.actor_id == actor.id,
        Assignment.target_kind == target.kind,
        Assignment.target_id == target.id,
        Assignment.inherited == int(target.inherited),
    ]


# -- actions


def grant(conn: Connection, actor: Actor, target: Target, role_id: str) -> None:
    """Repeating it does nothing. Raises NotFound; for a domain's role Forbidden on a project of another domain, and
    Invalid on the system. On another domain it is granted, as in Keystone.
    """
    actor_domain(conn, actor, stays=True)
    domain_id = target_domain(conn, target, stays=True)
    role = roles.get(conn, role_id, stays=True)
    if role.domain_id and target.kind == "system":
        raise Invalid("A role of a domain cannot be granted on the system.")
    if role.domain_id and target.kind == "project" and role.domain_id != domain_id:
        raise Forbidden("A role of a domain can be granted on the projects of that domain only.")
    key = {
        "actor_kind": actor.kind,
        "actor_id": actor.id,
        "target_kind": target.kind,
        "target_id": target.id,
        "inherited": int(target.inherited),
        "role_id": role_id,
    }
    records.put(conn, Assignment, **key)
    epoch.changed(conn)


def revoke(conn: Connection, actor: Actor, target: Target, role_id: str) -> None:
    """Raises NotFound if it was not granted."""
    roles.get(conn, role_id)
    removed = delete(Assignment).where(*_where(actor, target), Assignment.role_id == role_id)
    if conn.execute(removed).rowcount == 0:
        raise records.not_found("role assignment", role_id)
    cascade.drop_what_lost_its_roles(conn, _users(conn, actor))
    epoch.changed(conn)


def _users(conn: Connection, actor: Actor) -> list[str]:
    if actor.kind == "user":
        return [actor.id]
    return list(conn.execute(select(Membership.user_id).where(Membership.group_id == actor.id)).scalars())
