"""Every GET x every moment between two of its statements: everything may be deleted then.

PostgreSQL shows each statement of a transaction that only reads what is committed by then; SQLite, whose database the
World has, would show all of them the same. So the rows are deleted in the request's own transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define

from cloudctl.db.columns import metadata
from cloudctl.db.connection import Connection
from cloudctl.db.records import Record
from cloudctl.rest.answers import Answers
from cloudctl.rest.rendered import Rendered
from cloudctl.testing.cloud import connection
from tests.generated.world import World

# API → the package with its tables. Objects are read otherwise: tests/object_store.
SERVICES = {
    "image": "image",
    "networking": "network",
    "volume": "volume",
    "compute": "compute",
    "placement": "placement",
    "instance-ha": "instance_ha",
    "identity": "identity",
}


@define
class Deletion:
    """Deletes all rows of some tables after so many statements of transactions that only read."""

    raw: Any  # the sqlite3.Connection
    tables: tuple[str, ...] = ()
    after: int | None = None
    seen: int = 0

    def count(self) -> None:
        self.seen += 1
        if self.seen == self.after:
            for name in self.tables:
                self.raw.execute(f'DELETE FROM "{name}"')


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture
def deletion(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deletion]:
    made = Deletion(connection(world.cloud.cloud))
    execute = Connection.execute

    def counted(self: Connection, *args: Any) -> Any:
        found = execute(self, *args)
        if self.read_only:
            made.count()
        return found

    monkeypatch.setattr(Connection, "execute", counted)
    # What was read before would not be read again.
    monkeypatch.setattr(Rendered, "_keep", lambda *_: None)
    monkeypatch.setattr(Answers, "keep", lambda *_: None)
    # Rows of other services may name these.
    made.raw.execute("PRAGMA foreign_keys = OFF")
    yield made
    made.raw.execute("PRAGMA foreign_keys = ON")


def tables_of(package: str) -> tuple[str, ...]:
    """The names of those whose records are defined there."""
    mine = {each.table.name for each in records() if each.__module__.startswith(f"cloudctl.{package}.")}
    return tuple(table.name for table in reversed(metadata.sorted_tables) if table.name in mine)


def records() -> Iterator[Any]:
    waiting: list[Any] = [Record]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            if getattr(each, "table", None) is not None:
                yield each


@pytest.mark.slow
@pytest.mark.parametrize("api", SERVICES)
def test_whatever_is_deleted_while_it_is_read_is_no_failure(world: World, deletion: Deletion, api: str) -> None:
    deletion.tables = tables_of(SERVICES[api])
    assert deletion.tables
    wrong, requests = [], 0
    for name, path, operation in world.operations():
        if name != api or operation.method != "GET":
            continue
        deletion.after, deletion.seen = None, 0
        world.admin.get(world.fill(api, path))
        world.restore()
        for after in range(1, deletion.seen + 1):
            deletion.after, deletion.seen = after, 0
            answer = world.admin.get(world.fill(api, path))
            world.restore()
            requests += deletion.seen >= after
            if answer.status == 500:
                wrong.append(f"{operation.key}, after statement {after}: {answer.body[:160]!r}")
    assert not wrong, "\n".join(wrong)
    assert requests > 10
