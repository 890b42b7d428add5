"""Counting failed logins, and users who stay away too long. Reference: identity.md, «Password rules and lockout»."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.tables import User


def is_locked(user: Any, rules: PasswordOptions, now: datetime) -> bool:
    """Whether too many logins failed lately. `user` has `failures`, `failed_at` and `options`."""
    if not rules.lockout_failure_attempts or user.options.get("ignore_lockout_failure_attempts"):
        return False
    if user.failures < rules.lockout_failure_attempts or user.failed_at is None:
        return False
    return bool(now < user.failed_at + timedelta(seconds=rules.lockout_duration))


def failed(conn: Connection, user_id: str, rules: PasswordOptions, now: datetime) -> None:
    """Count one more; failures before the last lockout ended do not count any longer."""
    forgotten = now - timedelta(seconds=rules.lockout_duration)
    mine = User.id == user_id
    conn.execute(update(User).where(mine, User.failed_at < forgotten).values(failures=0))
    conn.execute(update(User).where(mine).values(failures=User.failures + 1, failed_at=now))


def forgiven(conn: Connection, user_id: str) -> None:
    """The user has logged in: failures before that do not count."""
    conn.execute(update(User).where(User.id == user_id).values(failures=0, failed_at=None))


def is_inactive(user: User, rules: PasswordOptions, now: datetime) -> bool:
    """Whether the user has not logged in for so long that the account counts as disabled."""
    if not rules.disable_days_inactive or user.options.get("ignore_user_inactivity"):
        return False
    seen = user.active_at or user.created_at
    return bool(now - seen > timedelta(days=rules.disable_days_inactive))
