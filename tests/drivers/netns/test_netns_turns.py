"""Work that many ask for is done as seldom as possible, and never for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.netns.hosts import Host, Turns
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.netns.records import INDEX_LIMIT, Network, free_index, records
from cloudctl.drivers.programs import ProgramFailed
from cloudctl.drivers.specs import NetworkSpec


class Work:
    """Each turn ends when the test says so."""

    def __init__(self) -> None:
        self.turns: list[Deferred[None]] = []

    def __call__(self) -> Deferred[None]:
        self.turns.append(Deferred())
        return self.turns[-1]


@pytest.fixture
def work() -> Work:
    return Work()


def ended(*waiting: Deferred[None]) -> list[bool]:
    return [each.called for each in waiting]


def test_calls_during_a_turn_share_the_next(work: Any) -> None:
    turns = Turns(work)
    first = turns.next()
    later = [turns.next() for _ in range(3)]
    assert len(work.turns) == 1
    work.turns[0].callback(None)
    assert ended(first, *later) == [True, False, False, False]
    assert len(work.turns) == 2
    work.turns[1].callback(None)
    assert ended(*later) == [True, True, True]
    assert len(work.turns) == 2


def test_a_call_after_the_last_turn_begins_another(work: Any) -> None:
    turns = Turns(work)
    turns.next()
    work.turns[0].callback(None)
    again = turns.next()
    assert len(work.turns) == 2
    work.turns[1].callback(None)
    assert again.called


def test_a_failure_is_told_to_those_who_waited_for_that_turn(work: Any) -> None:
    turns = Turns(work)
    first: Any = turns.next()
    second = turns.next()
    failed: list[type[Exception]] = []
    first.addErrback(lambda failure: failed.append(failure.type))
    work.turns[0].errback(DriverError("no"))
    assert failed == [DriverError]
    work.turns[1].callback(None)
    assert second.called


def test_whoever_is_answered_may_ask_again_at_once(work: Any) -> None:
    turns = Turns(work)
    again: list[Deferred[None]] = []
    turns.next().addCallback(lambda _: again.append(turns.next()))
    work.turns[0].callback(None)
    other = turns.next()
    assert len(work.turns) == 2
    work.turns[1].callback(None)
    assert ended(*again, other) == [True, False]
    work.turns[2].callback(None)
    assert other.called


# -- a host


class Kernel:
    """It takes no rules."""

    async def links(self, _namespace: Any) -> Any:
        return {}

    async def batch(self, _namespace: Any, lines: Any) -> None:
        assert not lines

    async def rules(self, _namespace: Any, _text: Any) -> None:
        raise ProgramFailed("nft", 1, "ip saddr 192.0.2.7 of another project")


async def nothing() -> None:
    pass


async def test_rules_that_are_not_taken_are_told_to_nobody() -> None:
    kernel: Any = Kernel()
    host = Host("one", "", kernel, Names("cc"), records(None), {"one": None}, {}, nothing)
    with pytest.raises(DriverError, match="host one") as caught:
        await host.ensure()
    assert "192.0.2.7" not in str(caught.value)


# -- records


def test_records_outlive_the_process(tmp_path: Path) -> None:
    first, second = records(tmp_path), records(tmp_path)
    first.networks.put("n/1", Network(NetworkSpec("n/1", name="網"), 3))
    first.networks.put("n2", Network(NetworkSpec("n2"), 4))
    first.networks.delete("n2")
    second.load()
    assert second.networks.rows == first.networks.rows


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "ports").mkdir()
    (tmp_path / "ports" / "p1.json").write_text("[")
    with pytest.raises(DriverError, match=r"p1\.json is damaged"):
        records(tmp_path).load()


def test_numbers_are_taken_anew_when_they_are_free() -> None:
    assert free_index([]) == 1
    assert free_index([1, 3]) == 2
    with pytest.raises(NoCapacity):
        free_index(range(1, INDEX_LIMIT + 1))
