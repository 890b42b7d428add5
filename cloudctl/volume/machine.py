"""State machines as data: named moves over the status column of one table, each one compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, Table, select, update

from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound


@frozen
class Move:
    """`target` None: something else decides the status. `refusal` may name `{id}` and `{status}`."""

    sources: frozenset[str] | None  # None: any
    target: str | None
    refusal: str = "Invalid volume: Volume {id} is in status {status}."


def sources(*names: str) -> frozenset[str]:
    return frozenset(names)


@frozen
class Machine:
    """The moves of one kind of resource. `unknown` words the refusal of an id that names nothing."""

    table: Table
    moves: Mapping[str, Move]
    unknown: Callable[[str], NotFound]

    def move(
        self, conn: Connection, id: str, name: str, now: datetime, *where: ColumnElement[bool], **values: Any
    ) -> None:
        """Make a move, and set `values` with it, if the status and `where` allow.

        Raises Conflict in the words of the table, NotFound.
        """
        if not self.try_move(conn, id, name, now, *where, **values):
            raise self.refusal(conn, id, name)

    def try_move(
        self, conn: Connection, id: str, name: str, now: datetime, *where: ColumnElement[bool], **values: Any
    ) -> bool:
        """As `move`; False where that raises."""
        wanted, columns = self.moves[name], self.table.c
        changed = update(self.table).where(columns.id == id, *where)
        if wanted.sources is not None:
            changed = changed.where(columns.status.in_(wanted.sources))
        if wanted.target is not None:
            values["status"] = wanted.target
        return conn.execute(changed.values(updated_at=now, **values)).rowcount > 0

    def allows(self, conn: Connection, id: str, name: str, *where: ColumnElement[bool]) -> bool:
        """Whether `try_move` would be done. Only of use while the row is locked."""
        found = select(self.table.c.id).where(self.table.c.id == id, *where)
        wanted = self.moves[name].sources
        return (
            conn.execute(found if wanted is None else found.where(self.table.c.status.in_(wanted))).first() is not None
        )

    def refusal(self, conn: Connection, id: str, name: str) -> Conflict | NotFound:
        status = conn.execute(select(self.table.c.status).where(self.table.c.id == id)).scalar()
        if status is None:
            return self.unknown(id)
        return Conflict(self.moves[name].refusal.format(id=id, status=status))
