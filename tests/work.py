"""Counts what a piece of work asks of the database. SQLite's driver tells, so it holds whatever is above the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from cloudctl.testing.cloud import MemoryCloud, connection
from tests.plans import unchecked

# What begins and ends a transaction or a part of one, and switches.
AROUND = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA")


@define
class Work:
    """Statements as they ran, with their values; transactions that only read, and those that may write."""

    statements: list[str] = field(factory=list)
    reads: int = 0
    writes: int = 0

    def see(self, statement: str) -> None:
        if statement.startswith("BEGIN IMMEDIATE"):
            self.writes += 1
        elif statement.startswith("BEGIN"):
            self.reads += 1
        elif not statement.startswith((*AROUND, "--")) and not self._is_of_trigger(statement):
            self.statements.append(statement)

    def _is_of_trigger(self, statement: str) -> bool:
        """Where a trigger begins, the driver tells the statement that set it off once more."""
        return not statement.startswith("SELECT") and self.statements[-1:] == [statement]

    @property
    def counts(self) -> tuple[int, int, int]:
        """(statements, reading transactions, writing transactions)."""
        return len(self.statements), self.reads, self.writes


@contextmanager
def counted(cloud: MemoryCloud) -> Iterator[Work]:
    """All that is asked of the cloud's database meanwhile."""
    with watched(connection(cloud.cloud)) as work:
        yield work


@contextmanager
def watched(driver: Any) -> Iterator[Work]:
    """All that is asked of one connection of SQLite's driver meanwhile."""
    work = Work()
    driver.set_trace_callback(work.see)
    try:
        with unchecked():
            yield work
    finally:
        driver.set_trace_callback(None)
