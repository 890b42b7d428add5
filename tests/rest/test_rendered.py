"""Records that are kept as JSON."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.rest.rendered import Rendered, _shape_size, _size
from tests.plans import unchecked


class Records:
    """They are shown with their number of the moment."""

    def __init__(self) -> None:
        self.db = Database.in_memory(Clock())
        self.asked: list[str] = []
        self.deleted: set[str] = set()
        self.number = 0

    def render(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        self.asked += ids
        return {id: {"id": id, "number": self.number} for id in ids if id not in self.deleted}

    def shown(self, rendered: Rendered, shape: Any, read_only: bool = True, **editions: Any) -> Any:
        def page(conn: Connection) -> Any:
            return rendered.shown(conn, shape, editions, self.render)

        with unchecked():
            return orjson.loads(orjson.dumps(self.db.transact(read_only, page)))


def test_a_record_is_made_again_only_for_another_edition_or_shape() -> None:
    records, rendered = Records(), Rendered()
    assert [each["id"] for each in records.shown(rendered, "plain", b=1, a=1)] == ["b", "a"]
    records.asked.clear()
    records.shown(rendered, "plain", a=2, b=1, c=1)
    assert records.asked == ["a", "c"]
    records.asked.clear()
    records.shown(rendered, "for administrators", a=2)
    assert records.asked == ["a"]


def test_a_record_that_is_deleted_while_the_page_is_made_is_left_out() -> None:
    """PostgreSQL shows that to the statement after the one that has read its edition."""
    records, rendered = Records(), Rendered()
    records.deleted = {"b"}
    assert [each["id"] for each in records.shown(rendered, "plain", a=1, b=1, c=1)] == ["a", "c"]


def test_nothing_is_kept_of_what_is_not_committed() -> None:
    with pytest.raises(AssertionError, match="not committed"):
        Records().shown(Rendered(), "plain", read_only=False, a=1)


def test_what_is_kept_has_a_bound() -> None:
    records, rendered = Records(), Rendered(most_bytes=30_000)
    for number in range(200):
        editions: dict[str, Any] = {f"id-{number % 70}": ((f"port-{number}", 1),) * (number % 5)}
        records.shown(rendered, number % 3, **editions)
        entries = [entry for kept in rendered._kept.values() for entry in kept.values()]
        shapes = sum(map(_shape_size, rendered._kept))
        assert rendered.size == sum(map(_size, entries)) + shapes <= 30_000
    assert entries


def test_what_is_kept_takes_no_more_memory_than_was_counted() -> None:
    records, rendered = Records(), Rendered()
    editions: dict[str, Any] = {f"id-{number}": number for number in range(500)}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        records.shown(rendered, "plain", **editions)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < rendered.size
