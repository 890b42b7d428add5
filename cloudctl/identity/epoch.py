"""The cloud's count of changes that can affect a token.

It invalidates what processes remember of tokens, and it orders tokens and revocations: a token carries the value at its
issue, a revocation the value that it raised the count to, so the two never tie, as times in whole seconds would.
"""

from __future__ import annotations

from sqlalchemy import insert, select, update

from cloudctl.db import Connection, notify
from cloudctl.identity.tables import Epoch

# Notified at each commit that changed it.
CHANNEL = "identity.epoch"
ONLY = 1

_current = select(Epoch.value).where(Epoch.id == ONLY)
_raise = update(Epoch).where(Epoch.id == ONLY).values(value=Epoch.value + 1)
# A column for other queries, which costs no round trip of its own. NULL before the first change.
CURRENT = _current.scalar_subquery()


def current(conn: Connection) -> int:
    return conn.scalar(_current) or 0


def changed(conn: Connection) -> int:
    """Raise it: once this transaction commits, every process forgets what it knew of tokens. Returns the new value."""
    if conn.execute(_raise).rowcount == 0:
        conn.execute(insert(Epoch).values(id=ONLY, value=1))
    notify(conn, CHANNEL)
    return current(conn)
