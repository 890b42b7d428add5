"""Application credentials: a user's roles in one project, without the password. Reference: identity.md, section 7."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen
from sqlalchemy import delete, func, insert, or_, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import cascade, effective, epoch, records
from cloudctl.identity.effective import RoleName, RoleRef
from cloudctl.identity.records import folded, text_filters
from cloudctl.identity.tables import (
    AccessRule,
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    Project,
    Role,
    User,
)
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import AccessRule as Rule
from cloudctl.rest.listing import Condition, Listing, equals

SECRET_BYTES = 64  # 86 characters of URL-safe base64

LISTING = Listing(
    ApplicationCredential.table,
    sort_keys={
        "id": ApplicationCredential.id,
        "name": ApplicationCredential.name,
        "created_at": ApplicationCredential.created_at,
    },
    order=(("created_at", "asc"),),
    filters=text_filters("name", ApplicationCredential.name),
)

RULE_LISTING = Listing(
    AccessRule.table,
    sort_keys={"id": AccessRule.id, "created_at": AccessRule.created_at},
    order=(("created_at", "asc"),),
    filters={
        "service": equals(AccessRule.service),
        "path": equals(AccessRule.path),
        "method": equals(AccessRule.method),
    },
)


@frozen
class NewRule:
    """A rule to make, or, by id, one that the user has."""

    id: str | None = None
    path: str = ""
    method: str = ""
    service: str = ""


@frozen
class NewCredential:
    """For the caller, in the project of the token. `roles` and `rules` None: all that the token has."""

    name: str
    secret_hash: str
    description: str | None
    expires_at: datetime | None
    unrestricted: bool
    roles: Sequence[RoleName] | None
    rules: Sequence[NewRule] | None


@frozen
class Limits:
    """How many of them one user may have; 0: no limit."""

    credentials: int
    rules: int


def new_secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def get(conn: Connection, user_id: str, credential_id: str) -> ApplicationCredential:
    """Raises NotFound, also for another user's credential."""
    query = select(ApplicationCredential).where(
        ApplicationCredential.id == credential_id, ApplicationCredential.user_id == user_id
    )
    row = conn.execute(query).first()
    if row is None:
        raise records.not_found("application credential", credential_id)
    return row


def roles_of(conn: Connection, credential_ids: Sequence[str]) -> dict[str, list[Role]]:
    """Credential id → its roles, by name."""
    found: dict[str, list[Role]] = {id: [] for id in credential_ids}
    query = (
        select(Role, ApplicationCredentialRole.credential_id)
        .join(Role, Role.id == ApplicationCredentialRole.role_id)
        .where(ApplicationCredentialRole.credential_id.in_(credential_ids))
        .order_by(Role.name)
    )
    for role, credential_id in conn.execute(query):
        found[credential_id].append(role)
    return found


def rules_of(conn: Connection, credential_ids: Sequence[str]) -> dict[str, list[AccessRule]]:
    """Credential id → its access rules, oldest first."""
    found: dict[str, list[AccessRule]] = {id: [] for id in credential_ids}
    query = (
        select(AccessRule, ApplicationCredentialRule.credential_id)
        .join(AccessRule, AccessRule.id == ApplicationCredentialRule.rule_id)
        .where(ApplicationCredentialRule.credential_id.in_(credential_ids))
        .order_by(AccessRule.created_at, AccessRule.id)
    )
    for rule, credential_id in conn.execute(query):
        found[credential_id].append(rule)
    return found


def create(conn: Connection, caller: Caller, new: NewCredential, limits: Limits) -> ApplicationCredential:
    """It has no role and no call that the creating token lacks; it may last longer, so that it can replace another one.

    Raises Conflict (name), Invalid (a role that the token lacks, a time in the past), Forbidden (an access rule that it
    lacks, too many, a project that was disabled at this moment).
    """
    if new.expires_at is not None and new.expires_at <= caller.now:
        raise Invalid("The expiration of an application credential must be in the future.")
    # Locked, so that the limits hold for concurrent requests, too.
    records.get(conn, User, caller.user_id, "user", lock=True)
    if not records.get(conn, Project, caller.project_id, "project", stays=True).enabled:
        raise Forbidden("The project is disabled.")
    held = conn.execute(select(func.count()).where(ApplicationCredential.user_id == caller.user_id)).scalar_one()
    if limits.credentials and held >= limits.credentials:
        raise Forbidden(f"A user has at most {limits.credentials} application credentials.")
    chosen = _chosen_roles(conn, new.roles, effective.lendable(conn, caller))
    rule_ids = _rules(conn, caller, new.rules, limits.rules)
    row = {
        "id": new_hex_id(),
        "user_id": caller.user_id,
        "project_id": caller.project_id,
        "name": new.name,
        "name_key": folded(new.name),
        "secret_hash": new.secret_hash,
        "description": new.description,
        "expires_at": new.expires_at,
        "unrestricted": new.unrestricted,
        "has_access_rules": rule_ids is not None,
        "created_at": caller.now,
    }
    taken = Conflict(f"It is not permitted to have two application credentials with the same name: {new.name}.")
    records.insert_unique(conn, ApplicationCredential, row, taken)
    held_roles = [{"credential_id": row["id"], "role_id": role_id} for role_id in chosen]
    conn.execute(insert(ApplicationCredentialRole), held_roles)
    if held_rules := [{"credential_id": row["id"], "rule_id": rule_id} for rule_id in dict.fromkeys(rule_ids or ())]:
        conn.execute(insert(ApplicationCredentialRule), held_rules)
    return get(conn, caller.user_id, str(row["id"]))


def _chosen_roles(conn: Connection, wanted: Sequence[RoleName] | None, held: Sequence[RoleRef]) -> set[str]:
    chosen = {role.id for role in held} if wanted is None else set()
    for name in wanted or ():
        matching = {role.id for role in held if name.is_of(role)}
        if not matching:
            raise Invalid(f"The token does not have the role {(name.id or name.name or '')[:64]!r} in this project.")
        chosen |= matching
    if not chosen:
        raise Invalid("An application credential has at least one role.")
    return effective.closure(conn, chosen) & {role.id for role in held}


def _rules(conn: Connection, caller: Caller, wanted: Sequence[NewRule] | None, most: int) -> list[str] | None:
    """The ids of the user's rules. A token that has rules passes on all or some of them. Raises Forbidden."""
    mine = caller.identity.access_rules
    if mine is None:
        return None if wanted is None else _own_rules(conn, caller, wanted, most)
    if wanted is None:
        return [rule.id for rule in mine]
    found = []
    for new in wanted:
        same = [rule.id for rule in mine if _is_same(new, rule)]
        if not same:
            raise Forbidden("The token does not have this access rule, so it cannot pass it on.")
        found += same
    return found


def _is_same(new: NewRule, rule: Rule) -> bool:
    if new.id is not None:
        return new.id == rule.id
    return (new.service, new.method, new.path) == (rule.service, rule.method, rule.path)


def _own_rules(conn: Connection, caller: Caller, wanted: Sequence[NewRule], most: int) -> list[str]:
    """The ids of the user's rules; equal rules are stored once. Raises NotFound, Forbidden (too many)."""
    mine = AccessRule.user_id == caller.user_id
    named = AccessRule.id.in_([rule.id for rule in wanted if rule.id is not None])
    said = AccessRule.path.in_([rule.path for rule in wanted if rule.id is None])
    there = conn.execute(select(AccessRule).where(mine, or_(named, said))).all()
    known = {row.id for row in there}
    same = {(row.service, row.method, row.path): row.id for row in there}
    found: list[str] = []
    new: list[dict[str, Any]] = []
    for place, rule in enumerate(wanted):
        if rule.id is not None and rule.id not in known:
            raise records.not_found("access rule", rule.id)
        key = (rule.service, rule.method, rule.path)
        id = rule.id or same.setdefault(key, new_hex_id())
        if id not in known:
            known.add(id)
            # A microsecond apart: rules are listed by their age, so those of one request keep their order.
            at = caller.now + timedelta(microseconds=place)
            values = {"service": rule.service, "method": rule.method, "path": rule.path}
            new.append({"id": id, "user_id": caller.user_id, "created_at": at, **values})
        found.append(id)
    held = conn.execute(select(func.count()).where(mine)).scalar_one() if new else 0
    if most and held + len(new) > most:
        raise Forbidden(f"A user has at most {most} access rules.")
    if new:
        conn.execute(insert(AccessRule), new)
    return found


def remove(conn: Connection, user_id: str, credential_id: str) -> None:
    """Its tokens end with it. Raises NotFound."""
    row = get(conn, user_id, credential_id)
    cascade.delete_application_credentials(conn, ApplicationCredential.id == row.id)
    epoch.changed(conn)


# -- access rules


def is_rule_of(credential_id: str) -> Condition:
    return AccessRule.id.in_(
        select(ApplicationCredentialRule.rule_id).where(ApplicationCredentialRule.credential_id == credential_id)
    )


def get_rule(conn: Connection, user_id: str, rule_id: str, *where: Condition) -> AccessRule:
    """Raises NotFound, also for another user's rule and for one that does not meet `where`."""
    query = select(AccessRule).where(AccessRule.id == rule_id, AccessRule.user_id == user_id, *where)
    row = conn.execute(query).first()
    if row is None:
        raise records.not_found("access rule", rule_id)
    return row


def remove_rule(conn: Connection, user_id: str, rule_id: str) -> None:
    """Raises NotFound, Forbidden (a credential has it)."""
    # A credential that is being made, and may have it, is waited for.
    records.find(conn, User, user_id, stays=True)
    get_rule(conn, user_id, rule_id)
    used = select(ApplicationCredentialRule.rule_id).where(ApplicationCredentialRule.rule_id == rule_id)
    if conn.execute(used).first() is not None:
        raise Forbidden(f"The access rule {rule_id} is in use by an application credential.")
    conn.execute(delete(AccessRule).where(AccessRule.id == rule_id))
