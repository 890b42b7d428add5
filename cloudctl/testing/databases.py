"""Databases in memory that go back to an earlier moment, at the cost of what has changed since.

db = MemoryDatabase(Clock(), image)
moment = db.moment()
...                                   # whatever changes the database
db.go_back(moment)

Opening one is expensive: SQLite takes the schema apart, and prepares each statement anew. So one that is closed goes
back to where it began, and is used again for the next that begins with the same image. Only transactions of many
thousands of rows take longer than in a `Database.in_memory`: what can be undone is kept in a list.
"""

from __future__ import annotations

from typing import Any, cast
from weakref import finalize

from sqlalchemy import Engine
from twisted.internet.interfaces import IReactorTime

from cloudctl.db import Database
from cloudctl.db.columns import metadata
from cloudctl.db.driver import Connections, Held, create
from cloudctl.db.threads import Inline

# How transactions begin here, for those who look at what is sent to the database.
READS, WRITES = "SAVEPOINT reads", "SAVEPOINT writes"


class Undoable(Held):
    """A connection whose transactions are savepoints within one that is never committed, so that they can be undone.

    Nothing is put off until a COMMIT, as no constraint is DEFERRABLE: the end of such a savepoint is as good as one.
    """

    def __init__(self, engine: Engine, image: bytes) -> None:
        super().__init__(engine)
        self.engine = engine
        self.image = image
        self._open = ""  # the present transaction: the name of its savepoint
        self._moments = 0
        # As the first transaction does it with others: within one it is too late.
        self.command("PRAGMA temp_store = MEMORY")
        self.driver.deserialize(image)
        self.moment()

    def begin(self, read_only: bool) -> None:
        if self._open:
            # A connection has one transaction at a time, as with a BEGIN.
            error = self.plans.dialect.loaded_dbapi.OperationalError("a transaction within a transaction")
            raise self.translated("BEGIN", error)
        assert self.driver.in_transaction, "somebody has ended the transaction around all others"
        text = READS if read_only else WRITES
        self.command(text)
        self._open = text.split()[-1]

    def commit(self) -> None:
        self.command(f"RELEASE {self._ended()}")

    def rollback(self) -> None:
        if self._open:
            name = self._ended()
            self.command(f"ROLLBACK TO {name}")
            self.command(f"RELEASE {name}")

    def _ended(self) -> str:
        name, self._open = self._open, ""
        return name

    def moment(self) -> int:
        self._moments += 1
        self.command(f"SAVEPOINT moment{self._moments}")
        return self._moments

    def go_back(self, moment: int) -> None:
        self._open = ""
        self.command(f"ROLLBACK TO moment{moment}")
        self._moments = moment

    def begin_here(self) -> None:
        """Begin with the present state from now on."""
        self.command("RELEASE moment1")
        self.image = bytes(self.driver.serialize())
        self._moments = 0
        self.moment()


class Free:
    """Connections that wait to be used again. Each holds a database, and the statements that it has prepared."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: list[Undoable] = []

    def give_back(self, held: Undoable) -> None:
        """May be called whenever garbage is collected."""
        if not held.driver.in_transaction:
            # There is no way back.
            held.close()
            return
        held.go_back(1)
        held.driver.set_trace_callback(None)
        held.driver.set_progress_handler(None, 0)
        self._held.append(held)

    def take(self, image: bytes) -> Undoable:
        """One that begins with this very image: one that is free, or a new one."""
        while len(self._held) > self.most:
            self._held.pop(0).close()
        for held in reversed(self._held):
            if held.image is image:
                self._held.remove(held)
                return held
        return Undoable(create("sqlite://"), image)


# Of this process. Tests take turns with few images, and seldom have more than two clouds at once.
FREE = Free(4)


class OneConnection(Connections):
    """An `Undoable`, until they are closed or nothing refers to them any more."""

    def __init__(self, held: Undoable) -> None:
        super().__init__(held.engine)
        self._held = held
        self._end = finalize(self, FREE.give_back, held)
        self._end.atexit = False

    def get(self) -> Undoable:
        if not self._end.alive:
            raise RuntimeError("this database is closed: its connection is another's by now")
        return self._held

    def close(self) -> None:
        self._end()


class MemoryDatabase(Database):
    """A database in memory that begins with an image, as `serialize` of an SQLite connection makes one."""

    connections: OneConnection

    def __init__(self, clock: IReactorTime, image: bytes) -> None:
        held, inline = FREE.take(image), Inline()
        super().__init__(held.engine, inline, cast(Any, inline), clock)
        self.connections = OneConnection(held)
        self.wishes = self.connections.wishes

    def close(self) -> None:
        self.connections.close()

    def image(self) -> bytes:
        """The present state, for others to begin with. Earlier moments are forgotten."""
        held = self.connections.get()
        held.begin_here()
        return held.image

    def moment(self) -> int:
        """A number by which `go_back` finds the present state again."""
        return self.connections.get().moment()

    def go_back(self, moment: int) -> None:
        """Undo everything since then. Later moments are forgotten."""
        self.connections.get().go_back(moment)
        # What was remembered of any table is of another time.
        self.count_changes(metadata.tables)
