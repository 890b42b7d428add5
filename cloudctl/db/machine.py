"""State machines as data: named moves over the status column of one table, each one compare-and-set.

    MACHINE = Machine(Volume, {"created": Move(sources("creating"), "available")}, not_found)
    MACHINE.move(conn, volume.id, "created", now)

Of two requests that want to move one record at once exactly one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from attrs import field, frozen
from sqlalchemy import ColumnElement, Table, Update, bindparam, select, update

from cloudctl.db.connection import Connection
from cloudctl.db.records import Record
from cloudctl.errors import Conflict, NotFound

R = TypeVar("R", bound=Record)


@frozen
class Move:
    """`target` None: something else decides the status. `refusal` may name `{id}` and `{status}`."""

    sources: frozenset[str] | None  # None: any
    target: str | None
    refusal: str = "Invalid volume: Volume {id} is in status {status}."


def sources(*names: str) -> frozenset[str]:
    return frozenset(names)


@frozen
class Machine(Generic[R]):
    """The moves of one kind of record, which has an `id`, a `status` and an `updated_at`.

    `not_found` words the refusal of an id that names nothing.
    """

    record: type[R]
    moves: Mapping[str, Move]
    not_found: Callable[[str], NotFound]
    # Built once: what else a move sets comes with the parameters.
    _updates: Mapping[str, Update] = field(init=False, eq=False, repr=False)

    @_updates.default
    def _built(self) -> Mapping[str, Update]:
        return {name: _update(self.record.table, move) for name, move in self.moves.items()}

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
        changed = self._updates[name]
        if where:
            changed = changed.where(*where)
        return conn.execute(changed, {"of_id": id, "updated_at": now, **values}).rowcount > 0

    def allows(self, conn: Connection, id: str, name: str, *where: ColumnElement[bool]) -> bool:
        """Whether `try_move` would be done. Only of use while the record is locked."""
        columns, wanted = self.record.table.c, self.moves[name].sources
        found = select(columns.id).where(columns.id == id, *where)
        return conn.execute(found if wanted is None else found.where(columns.status.in_(wanted))).first() is not None

    def refusal(self, conn: Connection, id: str, name: str) -> Conflict | NotFound:
        """What a move is refused with now."""
        columns = self.record.table.c
        status = conn.execute(select(columns.status).where(columns.id == id)).scalar()
        if status is None:
            return self.not_found(id)
        return Conflict(self.moves[name].refusal.format(id=id, status=status))


def _update(table: Table, move: Move) -> Update:
    changed = update(table).where(table.c.id == bindparam("of_id"))
    if move.sources is not None:
        changed = changed.where(table.c.status.in_(sorted(move.sources)))
    return changed if move.target is None else changed.values(status=move.target)
