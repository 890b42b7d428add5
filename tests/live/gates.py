"""Gates in a cloud's database, which hold tasks of a kind at the end of a step: its effect is done, and the transaction
that records it has begun and does not end. A process killed then dies in that phase, whatever the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from attrs import define

CLASS = 29_000  # of the advisory locks that are the gates
TRIGGER = """
CREATE OR REPLACE FUNCTION pass_gate() RETURNS trigger AS $$
BEGIN
    IF NEW.step IS DISTINCT FROM OLD.step OR NEW.ended_at IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(%d, hashtext(NEW.kind || coalesce(OLD.step, '')));
    END IF;
    RETURN NEW;
END
$$ LANGUAGE plpgsql;
CREATE OR REPLACE TRIGGER gates BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION pass_gate();
"""
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE d.datname = current_database() AND locktype = 'advisory' AND classid = %s AND NOT granted
    AND objid::bigint = hashtext(%s)::bigint & x'ffffffff'::bigint
"""


def make(database: str) -> None:
    """`database`: its URL, as libpq takes it."""
    with psycopg.connect(database) as connection:
        connection.execute(TRIGGER % CLASS)


@define(eq=False)
class Gate:
    connection: Any
    name: str

    @property
    def holds(self) -> bool:
        """A task has come this far, and waits."""
        return bool(self.connection.execute(WAITING, [CLASS, self.name]).fetchone()[0])


@contextmanager
def closed(database: str, kind: str, step: str | None) -> Iterator[Gate]:
    """In this context no task of this kind gets past this step (None: its first)."""
    name = kind + (step or "")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", [CLASS, name])
        yield Gate(connection, name)
