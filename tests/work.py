"""Counts a piece of work's database use. SQLite's driver reports it, so it holds whatever is above the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from cloudctl.testing.cloud import MemoryCloud, connection
from cloudctl.testing.databases import READS, WRITES
from tests.plans import unchecked

# What begins and ends a transaction or a savepoint, and PRAGMA.
AROUND = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA")


@define
class Work:
    """Statements as they ran, with their values; transactions that only read, and those that may write."""

    statements: list[str] = field(factory=list)
    reads: int = 0
    writes: int = 0

    def see(self, statement: str) -> None:
        if statement.startswith(("BEGIN IMMEDIATE", WRITES)):
            self.writes += 1
        elif statement.startswith(("BEGIN", READS)):
            self.reads += 1
        elif not statement.startswith((*AROUND, "--")) and not self._is_of_trigger(statement):
            self.statements.append(statement)

    def _is_of_trigger(self, statement: str) -> bool:
        """When a trigger begins, the driver reports the statement that fired it once more."""
        return not statement.startswith("SELECT") and self.statements[-1:] == [statement]

    @property
    def counts(self) -> tuple[int, int, int]:
        """(statements, reading transactions, writing transactions)."""
        return len(self.statements), self.reads, self.writes


@contextmanager
def counted(cloud: MemoryCloud) -> Iterator[Work]:
    """Everything asked of the cloud's database in this context."""
    with watched(connection(cloud.cloud)) as work:
        yield work


@contextmanager
def watched(driver: Any) -> Iterator[Work]:
    """Everything asked of one connection of SQLite's driver in this context."""
    work = Work()
    driver.set_trace_callback(work.see)
    try:
        with unchecked():
            yield work
    finally:
        driver.set_trace_callback(None)
