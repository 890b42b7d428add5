"""What a unique constraint refuses is undone alone, and told in the words of who wrote it."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, Record
from cloudctl.db.columns import Field, identifier, text
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict


class Peg(Record, table="test_pegs"):
    id: Field[str] = identifier(primary_key=True)
    coat: Field[str] = text()


def test_what_is_taken_is_refused_and_the_rest_of_the_transaction_stays() -> None:
    db = Database.in_memory(Clock())
    db.transact(False, lambda conn: Peg.table.create(conn.alchemy))

    def hang(conn: Connection) -> list[str]:
        conn.execute(insert(Peg).values(id="1", coat="mine"))
        with pytest.raises(Conflict, match="peg 1 is taken"), unique(conn, Conflict("peg 1 is taken")):
            conn.execute(insert(Peg).values(id="2", coat="yours"))
            conn.execute(insert(Peg).values(id="1", coat="yours"))
        with unique(conn, Conflict("never told")):
            conn.execute(insert(Peg).values(id="3", coat="ours"))
        return list(conn.scalars(select(Peg.coat).order_by(Peg.id)))

    assert db.transact(False, hang) == ["mine", "ours"]
    db.close()
