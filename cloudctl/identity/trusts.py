"""Trusts: a user lets another act with some of the roles in one project. Reference: identity.md, section 11."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import Row, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import cascade, effective, records
from cloudctl.identity.effective import Role
from cloudctl.identity.payload import Scope, ScopeKind
from cloudctl.identity.tables import Project, Trust, TrustRole, User
from cloudctl.identity.tables import Role as RoleRecord
from cloudctl.rest.listing import Listing, equals

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
class RoleName:
    id: str | None = None
    name: str | None = None


@frozen
class NewTrust:
    """`redelegated` is the id of the trust whose token makes this one; empty otherwise."""

    trustor_user_id: str
    trustee_user_id: str
    project_id: str
    impersonation: bool
    roles: Sequence[RoleName]
    expires_at: datetime | None
    remaining_uses: int | None
    redelegation_count: int
    redelegated: str
    extra: dict[str, Any]


def get(conn: Connection, trust_id: str, now: datetime) -> Row[Any]:
    """Raises NotFound; so is one that has expired or was used up."""
    row = records.get(conn, Trust.table, trust_id, "trust")
    if not is_usable(row, now):
        raise records.not_found("trust", trust_id)
    return row


def is_usable(row: Row[Any], now: datetime) -> bool:
    """Whether another token may be made from it."""
    return not has_expired(row, now) and (row.remaining_uses is None or row.remaining_uses > 0)


def has_expired(row: Row[Any], now: datetime) -> bool:
    return row.expires_at is not None and bool(row.expires_at <= now)


def roles_of(conn: Connection, trust_id: str) -> list[Row[Any]]:
    """By name."""
    mine = select(TrustRole.role_id).where(TrustRole.trust_id == trust_id)
    return list(conn.execute(select(RoleRecord).where(RoleRecord.id.in_(mine)).order_by(RoleRecord.name)))


def create(conn: Connection, new: NewTrust, now: datetime, most_redelegations: int) -> Row[Any]:
    """Raises NotFound (trustee), Forbidden (roles that the trustor lacks, redelegation), Invalid."""
    for user_id in {new.trustor_user_id, new.trustee_user_id}:
        records.keep(conn, User.table, user_id, "user")
    records.keep(conn, Project.table, new.project_id, "project")
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("The expiration of a trust must be in the future.")
    if new.redelegation_count > most_redelegations:
        raise Forbidden(f"A trust can be redelegated at most {most_redelegations} times.")
    held = effective.roles_on(conn, new.trustor_user_id, Scope(ScopeKind.PROJECT, new.project_id))
    given = chosen(new.roles, held)
    if new.redelegated:
        _check_redelegation(conn, new, given, now)
    row = {
        "id": new_hex_id(),
        "trustor_user_id": new.trustor_user_id,
        "trustee_user_id": new.trustee_user_id,
        "project_id": new.project_id,
        "impersonation": new.impersonation,
        "expires_at": new.expires_at,
        "remaining_uses": new.remaining_uses,
        "redelegation_count": new.redelegation_count,
        "redelegated_trust_id": new.redelegated or None,
        "extra": records.own_attributes(new.extra),
        "created_at": now,
    }
    conn.execute(insert(Trust).values(row))
    for role_id in given:
        conn.execute(insert(TrustRole).values(trust_id=row["id"], role_id=role_id))
    return get(conn, str(row["id"]), now)


def chosen(wanted: Sequence[RoleName], held: Sequence[Role]) -> set[str]:
    """The ids of the roles that are to be given away. Raises Forbidden for one that is not held, or none at all."""
    if not wanted:
        raise Forbidden("At least one role is required.")
    found = set()
    for name in wanted:
        matching = {role.id for role in held if name.id == role.id or (name.id is None and name.name == role.name)}
        if not matching:
            raise Forbidden(f"You do not have the role {(name.id or name.name or '')[:64]!r} in this project.")
        found |= matching
    return found


def _check_redelegation(conn: Connection, new: NewTrust, given: set[str], now: datetime) -> None:
    """A trust made from a trust gives no more and lasts no longer."""
    origin = get(conn, new.redelegated, now)
    allowed = effective.closure(conn, {role.id for role in roles_of(conn, origin.id)})
    wrong = {
        "The trust does not allow redelegation.": origin.redelegation_count < 1,
        "A redelegated trust is for the same project.": new.project_id != origin.project_id,
        "A redelegated trust gives no role that the first one lacks.": not given <= allowed,
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
    """Take one of its uses; whether there was one left."""
    row = conn.execute(select(Trust.remaining_uses).where(Trust.id == trust_id)).first()
    if row is None:
        return False
    if row.remaining_uses is None:
        return True
    left = update(Trust).where(Trust.id == trust_id, Trust.remaining_uses > 0)
    return conn.execute(left.values(remaining_uses=Trust.remaining_uses - 1)).rowcount == 1


def remove(conn: Connection, trust_id: str) -> None:
    """With those that were made from it; their tokens end. Raises NotFound."""
    records.get(conn, Trust.table, trust_id, "trust")
    cascade.delete_trusts(conn, Trust.id == trust_id)
