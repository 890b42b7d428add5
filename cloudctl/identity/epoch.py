"""The cloud's count of changes that can affect a token.

It invalidates what processes remember of tokens, and it orders tokens and revocations: a token carries the value at its
issue, a revocation the value that it raised the count to, so the two never tie as times of one second's grain would.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from cloudctl.db import notify
from cloudctl.identity.tables import epochs

# Told at each commit that changed it.
CHANNEL = "identity.epoch"
ONLY = 1


def current(conn: Connection) -> int:
    return conn.execute(select(epochs.c.value).where(epochs.c.id == ONLY)).scalar() or 0


def changed(conn: Connection) -> int:
    """Raise it: every process forgets what it knew of tokens once this transaction has committed. The new value."""
    if conn.execute(update(epochs).where(epochs.c.id == ONLY).values(value=epochs.c.value + 1)).rowcount == 0:
        conn.execute(insert(epochs).values(id=ONLY, value=1))
    notify(conn, CHANNEL)
    return current(conn)
