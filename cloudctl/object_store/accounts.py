"""Accounts: every project has one; a row holds what was set on it. Reference: object-store.md, A3."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection, totals
from cloudctl.identity.tables import Project
from cloudctl.object_store import metadata
from cloudctl.object_store.tables import Account

_account = select(Account).where(Account.project_id == bindparam("project"))
_lock_account = _account.with_for_update()
_project = select(Project.domain_id).where(Project.id == bindparam("project"))
# On an account: its project was seen (empty), or has been gone since then (seconds since the epoch).
SEEN = f"{metadata.PRIVATE}Project"
TOTALS = ("object_store.containers", "object_store.objects", "object_store.bytes")


@frozen
class Usage:
    containers: int
    objects: int
    bytes: int


def find(conn: Connection, project_id: str, *, lock: bool = False) -> Account | None:
    """`lock`: nobody else changes it before the transaction ends."""
    return conn.execute(_lock_account if lock else _account, {"project": project_id}).first()


def headers(conn: Connection, project_id: str) -> Mapping[str, str]:
    """The headers of the account."""
    found = find(conn, project_id)
    return {} if found is None else found.headers


def usage(conn: Connection, project_id: str) -> Usage:
    found = totals.totals(conn, project_id, TOTALS)
    return Usage(*(found[name] for name in TOTALS))


def domain(conn: Connection, project_id: str) -> str | None:
    """The id of the domain of the account's project; None if there is no such project."""
    return conn.scalar(_project, {"project": project_id})


def ensure(conn: Connection, project_id: str, now: datetime) -> Account:
    """The account's row, which is created if there is none."""
    found = find(conn, project_id)
    if found is None:
        try:
            with conn.begin_nested():
                said = {} if domain(conn, project_id) is None else {SEEN: ""}
                conn.execute(insert(Account).values(project_id=project_id, headers=said, created_at=now))
        except IntegrityError:
            """Another transaction was faster."""
        found = conn.execute(_account, {"project": project_id}).one()
    return found


def lock(conn: Connection, project_id: str) -> Account:
    """The account's row, which must exist. Nobody else changes it before the transaction ends."""
    return conn.execute(_lock_account, {"project": project_id}).one()


def change(conn: Connection, project_id: str, changes: Mapping[str, str | None], now: datetime) -> None:
    """Set headers; None removes one. Raises Invalid."""
    ensure(conn, project_id, now)
    account = lock(conn, project_id)
    merged = metadata.merged(account.headers, changes, metadata.ACCOUNT)
    conn.execute(update(Account).where(Account.project_id == project_id).values(headers=merged))
