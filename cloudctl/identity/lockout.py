"""Counting failed logins, and users who stay away too long. Reference: identity.md, «Password rules and lockout»."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import and_, case, false, func, not_, select, update

from cloudctl.db import Connection
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.tables import Credential, User
from cloudctl.rest.listing import Condition


def most_failures(user: User, method: str, rules: PasswordOptions) -> int:
    """How many failed logins lock a method out; 0: it is never locked out."""
    if method == "totp":
        # There are only a million passcodes, so nobody may try them for ever.
        return rules.passcode_failure_attempts
    if method != "password" or user.options.get("ignore_lockout_failure_attempts"):
        return 0
    return rules.lockout_failure_attempts


def is_locked(user: User, method: str, rules: PasswordOptions, now: datetime, *, underway: int = 0) -> bool:
    """Whether too many logins failed recently. `underway`: attempts without a result yet; they count as failed."""
    most = most_failures(user, method, rules)
    return 0 < most <= failures(user, rules, now) + underway


def failures(user: User, rules: PasswordOptions, now: datetime) -> int:
    """The failures that still count: none after a pause as long as a lockout."""
    if user.failed_at is None or now >= user.failed_at + timedelta(seconds=rules.lockout_duration):
        return 0
    return user.failures


def failed(conn: Connection, user_id: str, rules: PasswordOptions, now: datetime) -> None:
    """Count one more."""
    forgotten = User.failed_at <= now - timedelta(seconds=rules.lockout_duration)
    values = {"failures": case((forgotten, 1), else_=User.failures + 1), "failed_at": now}
    conn.execute(update(User).where(User.id == user_id).values(values))


def forgiven(conn: Connection, user_id: str, methods: Collection[str]) -> None:
    """The user has proved these methods: earlier failures no longer count.

    For a user with a device a passcode must be among them, or who knows the password could guess passcodes for ever.
    """
    devices = select(Credential.id).where(Credential.user_id == user_id, Credential.type == "totp")
    if "totp" in methods or conn.execute(devices).first() is None:
        conn.execute(update(User).where(User.id == user_id).values(failures=0, failed_at=None))


def is_inactive(user: User, rules: PasswordOptions, now: datetime) -> bool:
    """Whether the user has not logged in for so long that the account counts as disabled."""
    if not rules.disable_days_inactive or user.options.get("ignore_user_inactivity"):
        return False
    seen = user.active_at or user.created_at
    return bool(now - seen > timedelta(days=rules.disable_days_inactive))


def are_inactive(rules: PasswordOptions, now: datetime) -> Condition:
    """The same, for a list."""
    if not rules.disable_days_inactive:
        return false()
    exempt = func.coalesce(User.options["ignore_user_inactivity"].as_boolean(), false())
    since = now - timedelta(days=rules.disable_days_inactive)
    return and_(func.coalesce(User.active_at, User.created_at) < since, not_(exempt))
