"""What a new password must be like, and when it expires. Reference: identity.md, «Password rules and lockout»."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, insert, select

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.tables import PasswordHistory, User


def check(password: str, rules: PasswordOptions) -> None:
    """Raises Invalid with the operator's explanation."""
    if len(password) > rules.maximum_length:
        raise Invalid(f"A password has at most {rules.maximum_length} characters.")
    if rules.regex and re.fullmatch(rules.regex, password) is None:
        told = rules.regex_description or "it does not have the form that is required"
        raise Invalid(f"The password does not meet the requirements: {told}")


def expiry(rules: PasswordOptions, options: Mapping[str, Any], now: datetime, *, by_admin: bool) -> datetime | None:
    """When a password that is set now expires. One that an administrator set may have to be changed at first use."""
    if by_admin and rules.change_upon_first_use and not options.get("ignore_change_password_upon_first_use"):
        return now
    if rules.expires_days and not options.get("ignore_password_expiry"):
        return now + timedelta(days=rules.expires_days)
    return None


def check_age(changed_at: datetime | None, expires_at: datetime | None, rules: PasswordOptions, now: datetime) -> None:
    """A recently set password cannot be changed, unless it has expired. Raises Invalid."""
    if not rules.minimum_age_days or changed_at is None or (expires_at is not None and expires_at <= now):
        return
    earliest = changed_at + timedelta(days=rules.minimum_age_days)
    if now < earliest:
        raise Invalid(f"The password cannot be changed before {earliest.isoformat(timespec='seconds')}.")


def earlier(conn: Connection, user_id: str, rules: PasswordOptions) -> list[str]:
    """The hashes of the passwords that may not be used again, including the current one."""
    if not rules.unique_last_count:
        return []
    present = conn.execute(select(User.password_hash).where(User.id == user_id)).scalar()
    query = select(PasswordHistory.password_hash).where(PasswordHistory.user_id == user_id)
    older = conn.execute(query.order_by(PasswordHistory.id.desc()).limit(rules.unique_last_count - 1)).scalars()
    return [present, *older] if present else list(older)


def remember(conn: Connection, user_id: str, replaced: str | None, rules: PasswordOptions) -> None:
    """Keep the hash that is being replaced for as long as the rules need it."""
    if replaced and rules.unique_last_count > 1:
        conn.execute(insert(PasswordHistory).values(user_id=user_id, password_hash=replaced))
    _trim(conn, user_id, max(0, rules.unique_last_count - 1))


def _trim(conn: Connection, user_id: str, kept: int) -> None:
    mine = PasswordHistory.user_id == user_id
    newest = select(PasswordHistory.id).where(mine).order_by(PasswordHistory.id.desc()).limit(kept)
    ids: Sequence[int] = conn.execute(newest).scalars().all()
    conn.execute(delete(PasswordHistory).where(mine, PasswordHistory.id.not_in(ids)))
