"""Users and their passwords. Reference: identity.md, section 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve
from sqlalchemy import and_, delete, not_, or_, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Invalid
from cloudctl.identity import cascade, domains, epoch, federated_users, lockout, password_rules, records, revocation
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.records import flag, folded, merged_options, own_attributes, text_filters
from cloudctl.identity.tables import Membership, Project, User
from cloudctl.rest.body import truth
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Condition, Filter, Listing, equals

COMPARE: Mapping[str, Any] = {
    "lt": lambda column, when: column < when,
    "lte": lambda column, when: column <= when,
    "gt": lambda column, when: column > when,
    "gte": lambda column, when: column >= when,
    "eq": lambda column, when: column == when,
    # A password that never expires does not expire at that time either.
    "neq": lambda column, when: or_(column != when, column.is_(None)),
}


def expires(values: Any) -> Condition:
    """`lt:2026-01-01T00:00:00Z`. Raises Invalid."""
    operator, _, text = values[-1].partition(":")
    if operator not in COMPARE:
        operator, text = "eq", values[-1]
    try:
        when = parse_time(text)
    except (ValueError, OverflowError):
        raise Invalid(f"{text[:64]!r} in the filter 'password_expires_at' is not a time.") from None
    found: Condition = COMPARE[operator](User.password_expires_at, when)
    return found


FILTERS: dict[str, Filter] = {
    **text_filters("name", User.name),
    "domain_id": equals(User.domain_id),
    "enabled": flag(User.enabled),
    "default_project_id": equals(User.default_project_id),
    "password_expires_at": expires,
}

LISTING = Listing(
    User.table,
    sort_keys={"id": User.id, "name": User.name, "created_at": User.created_at},
    order=(("created_at", "asc"),),
    filters=FILTERS,
)


def listing(rules: PasswordOptions, now: datetime) -> Listing:
    """Who has been away for too long is shown as disabled, and so listed as such."""
    if not rules.disable_days_inactive:
        return LISTING
    is_set, inactive = flag(User.enabled), lockout.are_inactive(rules, now)

    def enabled(values: Sequence[str]) -> Condition:
        return and_(is_set(values), not_(inactive)) if truth(values[-1]) else or_(is_set(values), inactive)

    return evolve(LISTING, filters={**FILTERS, "enabled": enabled})


def get(conn: Connection, user_id: str, *, lock: bool = False, stays: bool = False) -> User:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, User, user_id, "user", lock=lock, stays=stays)


def in_group(group_id: str) -> Condition:
    return User.id.in_(select(Membership.user_id).where(Membership.group_id == group_id))


def create(conn: Connection, values: dict[str, Any], rules: PasswordOptions, now: datetime) -> User:
    """`values`: name, domain_id, enabled, default_project_id, description, options, extra, password_hash (or None),
    and as `federated` what identity providers call the user.

    Raises NotFound (domain), Conflict (name, or what another user is called), Invalid.
    """
    domains.get(conn, values["domain_id"], stays=True)
    _check_default_project(conn, values.get("default_project_id"))
    options = merged_options({}, values.get("options", {}))
    own = {name: value for name, value in values.items() if name != "federated"}
    row = {
        "id": new_hex_id(),
        **own,
        "name_key": folded(values["name"]),
        "options": options,
        "extra": own_attributes(values.get("extra", {})),
        "created_at": now,
    }
    if values.get("password_hash"):
        row |= {
            "password_changed_at": now,
            "password_expires_at": password_rules.expiry(rules, options, now, by_admin=True),
        }
    taken = Conflict(f"It is not permitted to have two users with the same name in a domain: {values['name']}.")
    records.insert_unique(conn, User, row, taken)
    if values.get("federated"):
        federated_users.put(conn, row["id"], values["federated"])
    return get(conn, row["id"])


def change(conn: Connection, user_id: str, changes: dict[str, Any], rules: PasswordOptions, now: datetime) -> User:
    """A change by an administrator. Raises NotFound, Conflict, Invalid."""
    before = get(conn, user_id, lock=True)
    values = dict(changes)
    called = values.pop("federated", None)
    if "domain_id" in values and values.pop("domain_id") != before.domain_id:
        raise Invalid("The domain of a user cannot be changed.")
    _check_default_project(conn, values.get("default_project_id"))
    if "name" in values:
        values["name_key"] = folded(values["name"])
    if "options" in values:
        values["options"] = merged_options(before.options, values["options"])
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    if "password_hash" in values:
        password_rules.remember(conn, user_id, before.password_hash, rules)
        expires_at = password_rules.expiry(rules, values.get("options", before.options), now, by_admin=True)
        has_password = values["password_hash"] is not None
        values |= {"password_changed_at": now, "password_expires_at": expires_at if has_password else None}
    if "password_hash" in values or values.get("enabled"):
        values |= {"failures": 0, "failed_at": None}
    if values.get("enabled"):
        values["active_at"] = now
    taken = Conflict(f"It is not permitted to have two users with the same name in a domain: {values.get('name')}.")
    records.update_unique(conn, User, user_id, values, taken)
    if called is not None:
        federated_users.put(conn, user_id, called)
    if "password_hash" in values or (before.enabled and values.get("enabled") is False):
        revocation.revoke_user(conn, user_id, now)
    epoch.changed(conn)
    return get(conn, user_id)


def change_own_password(
    conn: Connection, user_id: str, proved_hash: str, new_hash: str, rules: PasswordOptions, now: datetime
) -> bool:
    """Returns whether the password was still the one that was proved, and nobody was guessing meanwhile.

    Raises Invalid (locked, changed too recently).
    """
    before = get(conn, user_id, lock=True)
    if before.password_hash != proved_hash or not before.enabled:
        return False
    if lockout.is_locked(before, "password", rules, now):
        return False
    if before.options.get("lock_password"):
        raise Invalid("The password is locked: only an administrator can change it.")
    password_rules.check_age(before.password_changed_at, before.password_expires_at, rules, now)
    password_rules.remember(conn, user_id, proved_hash, rules)
    values = {
        "password_hash": new_hash,
        "password_changed_at": now,
        "password_expires_at": password_rules.expiry(rules, before.options, now, by_admin=False),
    }
    records.update_unique(conn, User, user_id, values, Conflict("The password cannot be changed now."))
    lockout.forgiven(conn, user_id, ["password"])
    revocation.revoke_user(conn, user_id, now)
    return True


def remove(conn: Connection, user_id: str) -> None:
    """With everything that belongs to this user only. Raises NotFound."""
    get(conn, user_id, lock=True)
    cascade.of_user(conn, user_id)
    conn.execute(delete(User).where(User.id == user_id))
    epoch.changed(conn)


def _check_default_project(conn: Connection, project_id: str | None) -> None:
    if project_id is None:
        return
    query = select(Project.is_domain).where(Project.id == project_id)
    if conn.execute(query).scalar():
        raise Invalid("A user's default project cannot be a domain.")
