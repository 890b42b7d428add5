"""Transactions that take turns where there is no row to lock for it."""

from __future__ import annotations

from sqlalchemy import bindparam, func, select

from cloudctl.db.connection import Connection

_wait = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("name"), 0)))


def take_turn(conn: Connection, name: str) -> None:
    """Nobody else takes a turn of this name before the transaction ends. What was read earlier may be out of date.

    SQLite has one writer at a time anyway.
    """
    if not conn.is_sqlite:
        conn.execute(_wait, {"name": name})
