"""State machines as data: named moves between the states of one record, each one compare-and-set.

    MACHINE = Machine(Volume, {"created": Move(sources("creating"), "available")}, not_found, "It is {status}.")
    MACHINE.move(conn, volume.id, "created", now)

A state is what the column `status` holds, or several columns by their names:

    "start": Move({"vm_state": sources("stopped"), "task_state": sources(None)}, {"task_state": "powering-on"})

If two requests try to move one record at once, exactly one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from attrs import field, frozen
from sqlalchemy import ColumnElement, Select, Update, and_, bindparam, or_, select, update

from cloudctl.db.connection import Connection
from cloudctl.db.records import Record
from cloudctl.errors import Conflict, NotFound

R = TypeVar("R", bound=Record)


@frozen
class Sources:
    """The values of a column from which a move may begin; with `but`, those from which it may not. None is NULL."""

    values: frozenset[str | None]
    but: bool = False

    def __contains__(self, value: str | None) -> bool:
        return (value in self.values) is not self.but

    def condition(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        words = sorted(value for value in self.values if value is not None)
        null = None in self.values
        if self.but:
            # In SQL, NULL does not satisfy NOT IN.
            unlike = column.not_in(words) if words else column.is_not(None)
            return unlike if null else or_(column.is_(None), unlike)
        like = column.in_(words)
        return or_(column.is_(None), like) if null and words else column.is_(None) if null else like


def sources(*values: str | None) -> Sources:
    return Sources(frozenset(values))


def all_but(*values: str | None) -> Sources:
    return Sources(frozenset(values), but=True)


def _from(sources: Sources | Mapping[str, Sources] | None) -> Mapping[str, Sources]:
    return {"status": sources} if isinstance(sources, Sources) else sources or {}


def _to(target: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {"status": target} if isinstance(target, str) else target or {}


@frozen
class Move:
    """From these sources to this target, each given for the status or by columns. None: from anywhere; to no state.

    `refusal` may name any column, the `move`, and the first `column` whose `value` does not allow the move.
    """

    sources: Mapping[str, Sources] = field(converter=_from)
    target: Mapping[str, Any] = field(converter=_to)
    refusal: str | None = None

    def wrong(self, record: Record) -> str | None:
        """The first column that does not allow the move."""
        return next((name for name, wanted in self.sources.items() if getattr(record, name) not in wanted), None)


@frozen
class Machine(Generic[R]):
    """The moves of one kind of record, which has an `id` and an `updated_at`.

    `not_found` makes the error for an id that names nothing; `refusal` is the text for moves without one of their own.
    `only`: records that do not meet it are treated as absent.
    """

    record: type[R]
    moves: Mapping[str, Move]
    not_found: Callable[[str], NotFound]
    refusal: str
    only: ColumnElement[bool] | None = None
    # Each built once, when it is first made: other columns that a move sets come with the parameters.
    _updates: dict[str, Update] = field(init=False, factory=dict, eq=False, repr=False)

    def _update(self, name: str) -> Update:
        changed = self._updates.get(name)
        if changed is None:
            move = self.moves[name]
            changed = update(self.record.table).where(self._it, *self._from(move))
            self._updates[name] = changed = changed.values(**move.target) if move.target else changed
        return changed

    @property
    def _it(self) -> ColumnElement[bool]:
        it = self.record.table.c.id == bindparam("of_id")
        return it if self.only is None else and_(it, self.only)

    def _from(self, move: Move) -> list[ColumnElement[bool]]:
        return [wanted.condition(self.record.table.c[name]) for name, wanted in move.sources.items()]

    def move(
        self, conn: Connection, /, id: str, name: str, now: datetime, *where: ColumnElement[bool], **values: Any
    ) -> None:
        """Make a move, and set `values` with it, if the state and `where` allow.

        Raises Conflict, in the words of the table, or NotFound.
        """
        if not self.try_move(conn, id, name, now, *where, **values):
            raise self.refused(conn, id, name)

    def try_move(
        self, conn: Connection, /, id: str, name: str, now: datetime, *where: ColumnElement[bool], **values: Any
    ) -> bool:
        """As `move`, but returns False where that raises."""
        changed = self._update(name)
        if where:
            changed = changed.where(*where)
        return conn.execute(changed, {"of_id": id, "updated_at": now, **values}).rowcount > 0

    def allows(self, conn: Connection, id: str, name: str, *where: ColumnElement[bool]) -> bool:
        """Whether `try_move` would succeed. Only meaningful while the record is locked."""
        found = select(self.record.table.c.id).where(self._it, *self._from(self.moves[name]), *where)
        return conn.execute(found, {"of_id": id}).first() is not None

    def check(self, record: R, name: str) -> None:
        """Raises Conflict if the record is not where the move begins."""
        if self.moves[name].wrong(record) is not None:
            raise self._worded(record, name)

    def refused(self, conn: Connection, id: str, name: str) -> Conflict | NotFound:
        """The error that refuses this move now."""
        found: Select[R] = select(self.record).where(self._it)
        record = conn.execute(found, {"of_id": id}).first()
        return self.not_found(id) if record is None else self._worded(record, name)

    def _worded(self, record: R, name: str) -> Conflict:
        move, columns = self.moves[name], record._asdict()
        column = move.wrong(record)
        told = {"move": name, "column": column, "value": columns.get(column or "")}
        return Conflict((move.refusal or self.refusal).format_map({**columns, **told}))
