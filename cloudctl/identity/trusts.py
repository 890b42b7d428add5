"""Trusts: a user lets another act with some of the roles in one project. Reference: identity.md, section 11."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import false, func, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import cascade, effective, epoch, records, subject
from cloudctl.identity.effective import RoleName, RoleRef
from cloudctl.identity.payload import Scope, ScopeKind
from cloudctl.identity.tables import Project, Role, Trust, TrustRole, User
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.listing import Condition, Listing, equals

LISTING = Listing(
    Trust.table,
    sort_keys={"id": Trust.id, "created_at": Trust.created_at},
    order=(("created_at", "asc"),),
    filters={
        "trustor_user_id": equals(Trust.trustor_user_id),
        "trustee_user_id": equals(Trust.trustee_user_id),
    },
)


@frozen
class NewTrust:
    """Made by the caller, who has the roles in the project, whatever the token's scope."""

    trustee_user_id: str
    project_id: str
    impersonation: bool
    roles: Sequence[RoleName]
    expires_at: datetime | None
    remaining_uses: int | None
    redelegation_count: int
    extra: dict[str, Any]


def get(conn: Connection, trust_id: str, now: datetime, *, stays: bool = False) -> Trust:
    """As `records.get`. Raises NotFound, also for one that has expired or was used up."""
    row = records.get(conn, Trust, trust_id, "trust", stays=stays)
    if not is_usable(row, now):
        raise records.not_found("trust", trust_id)
    return row


def is_party(identity: Identity, row: Trust) -> bool:
    """Whether the caller has made or received it. The token of a trust sees that one and those made from it."""
    if identity.delegated:
        return bool(identity.trust_id) and identity.trust_id in (row.id, row.redelegated_trust_id)
    return identity.user_id in (row.trustor_user_id, row.trustee_user_id)


def are_partys(identity: Identity) -> Condition:
    """The same, for a list."""
    if identity.delegated:
        seen = (Trust.id == identity.trust_id) | (Trust.redelegated_trust_id == identity.trust_id)
        return seen if identity.trust_id else false()
    return (Trust.trustor_user_id == identity.user_id) | (Trust.trustee_user_id == identity.user_id)


def made(identity: Identity, row: Trust) -> bool:
    """Whether the caller has made it, and so may end it."""
    if identity.delegated:
        return bool(identity.trust_id) and identity.trust_id == row.redelegated_trust_id
    return identity.user_id == row.trustor_user_id


def is_usable(row: Trust, now: datetime) -> bool:
    """Whether another token may be made from it."""
    return not has_expired(row, now) and (row.remaining_uses is None or row.remaining_uses > 0)


def are_usable(now: datetime) -> Condition:
    """The same, for a list."""
    alive = Trust.expires_at.is_(None) | (Trust.expires_at > now)
    return alive & (Trust.remaining_uses.is_(None) | (Trust.remaining_uses > 0))


def has_expired(row: Trust, now: datetime) -> bool:
    return row.expires_at is not None and bool(row.expires_at <= now)


def roles_of(conn: Connection, trust_id: str) -> Sequence[Role]:
    """By name."""
    mine = select(TrustRole.role_id).where(TrustRole.trust_id == trust_id)
    return conn.execute(select(Role).where(Role.id.in_(mine)).order_by(Role.name)).all()


@frozen
class Limits:
    """How many times a trust may be passed on; how many one user may have made (0: no limit)."""

    redelegations: int
    trusts: int


def create(conn: Connection, caller: Caller, new: NewTrust, limits: Limits) -> Trust:
    """Raises NotFound (trustee, role), Forbidden (roles that the token lacks, redelegation, too many), Invalid."""
    # In one order: two may trust each other. The trustor is locked, so that the limit holds for concurrent requests.
    for user_id in sorted({caller.user_id, new.trustee_user_id}):
        records.get(conn, User, user_id, "user", lock=user_id == caller.user_id, stays=True)
    mine = Trust.trustor_user_id == caller.user_id
    # Nobody sees those that ended. Only the expired ones go: one that is used up may still have a token.
    cascade.delete_trusts(conn, mine & (Trust.expires_at <= caller.now))
    held = conn.execute(select(func.count()).where(mine, are_usable(caller.now))).scalar_one()
    if limits.trusts and held >= limits.trusts:
        raise Forbidden(f"A user makes at most {limits.trusts} trusts.")
    if new.expires_at is not None and new.expires_at <= caller.now:
        raise Invalid("The expiration of a trust must be in the future.")
    if new.redelegation_count > limits.redelegations:
        raise Forbidden(f"A trust can be redelegated at most {limits.redelegations} times.")
    if new.redelegation_count and new.remaining_uses is not None:
        raise Invalid("A trust whose uses are counted cannot be redelegated: what is made from it has no count.")
    _check_known(conn, new.roles)
    given = chosen(new.roles, _lendable(conn, caller, new.project_id))
    records.get(conn, Project, new.project_id, "project", stays=True)
    redelegated = caller.identity.trust_id
    if redelegated:
        _check_redelegation(get(conn, redelegated, caller.now, stays=True), new)
    row = {
        "id": new_hex_id(),
        "trustor_user_id": caller.user_id,
        "trustee_user_id": new.trustee_user_id,
        "project_id": new.project_id,
        "impersonation": new.impersonation,
        "expires_at": new.expires_at,
        "remaining_uses": new.remaining_uses,
        "redelegation_count": new.redelegation_count,
        "redelegated_trust_id": redelegated or None,
        "extra": records.own_attributes(new.extra),
        "created_at": caller.now,
    }
    conn.execute(insert(Trust).values(row))
    for role_id in given:
        conn.execute(insert(TrustRole).values(trust_id=row["id"], role_id=role_id))
    return get(conn, str(row["id"]), caller.now)


def _check_known(conn: Connection, wanted: Sequence[RoleName]) -> None:
    """Whoever asks for a role that there is not is told so, not that it is missing. Raises NotFound."""
    ids, names = {name.id for name in wanted}, {name.name for name in wanted}
    known = select(Role.id, Role.name).where(Role.id.in_(ids) | (Role.name.in_(names) & (Role.domain_id == "")))
    found = [RoleRef(*each) for each in conn.execute(known)]
    for name in wanted:
        if not name.of_domain and not any(name.is_of(role) for role in found):
            raise records.not_found("role", name.id or name.name or "")


def _lendable(conn: Connection, caller: Caller, project_id: str) -> Sequence[RoleRef]:
    """In the token's project the token's roles; in another one those that the caller could log in with there."""
    if project_id == caller.project_id:
        return effective.lendable(conn, caller)
    scope = Scope(ScopeKind.PROJECT, project_id)
    return effective.roles_on(conn, caller.user_id, scope) if subject.may_have(conn, caller.user_id, scope) else ()


def chosen(wanted: Sequence[RoleName], held: Sequence[RoleRef]) -> set[str]:
    """The ids of the roles to give away. Raises Forbidden for one that is not held, or none at all."""
    if not wanted:
        raise Forbidden("At least one role is required.")
    found = set()
    for name in wanted:
        matching = {role.id for role in held if name.is_of(role)}
        if not matching:
            raise Forbidden(f"The token does not have the role {(name.id or name.name or '')[:64]!r} in this project.")
        found |= matching
    return found


def _check_redelegation(origin: Trust, new: NewTrust) -> None:
    """A trust made from a trust lasts no longer; its roles are those of the token, and so no more."""
    wrong = {
        "The trust does not allow redelegation.": origin.redelegation_count < 1 or origin.remaining_uses is not None,
        "A redelegated trust impersonates only if the first one does.": new.impersonation and not origin.impersonation,
        "A redelegated trust cannot limit its number of uses.": new.remaining_uses is not None,
        "A redelegated trust is redelegated fewer times.": new.redelegation_count >= origin.redelegation_count,
        "A redelegated trust does not last longer than the first one.": origin.expires_at is not None
        and (new.expires_at is None or new.expires_at > origin.expires_at),
    }
    for message, is_so in wrong.items():
        if is_so:
            raise Forbidden(message)


def use(conn: Connection, trust_id: str) -> bool:
    """Take one of its uses; returns whether there was one left."""
    trust = records.find(conn, Trust, trust_id)
    if trust is None:
        return False
    if trust.remaining_uses is None:
        return True
    left = update(Trust).where(Trust.id == trust_id, Trust.remaining_uses > 0)
    return conn.execute(left.values(remaining_uses=Trust.remaining_uses - 1)).rowcount == 1


def remove(conn: Connection, trust_id: str) -> None:
    """With those made from it; their tokens end. Raises NotFound."""
    records.get(conn, Trust, trust_id, "trust")
    cascade.delete_trusts(conn, Trust.id == trust_id)
    epoch.changed(conn)
