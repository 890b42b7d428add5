"""Small contents that go to the disk together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from cloudctl.drivers.errors import NoCapacity
from cloudctl.object_store.store import Content, Taken
from cloudctl.object_store.together import MOST, Together


class Disk:
    """Keeps what it is given when it is told so."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answers: list[Deferred[list[Content]]] = []

    def settle_all(self, taken: Sequence[Taken]) -> Deferred[list[Content]]:
        self.asked.append([str(each.file_id) for each in taken])
        self.answers.append(Deferred())
        return self.answers[-1]

    def done(self) -> None:
        self.answers.pop(0).callback([Content(id, 1, "") for id in self.asked[-len(self.answers) - 1]])


def settle(together: Together, name: str, kept: list[str]) -> Deferred[None]:
    return together.settle(Taken(name, b"x")).addCallback(lambda content: kept.append(str(content.file_id)))


def test_those_that_come_while_some_are_synced_are_the_next() -> None:
    disk, kept = Disk(), list[str]()
    together = Together(disk.settle_all)
    for name in "abc":
        settle(together, name, kept)
    assert (disk.asked, kept) == ([["a"]], [])
    disk.done()
    assert (disk.asked, kept) == ([["a"], ["b", "c"]], ["a"])
    disk.done()
    assert kept == ["a", "b", "c"]
    settle(together, "d", kept)
    assert disk.asked[2:] == [["d"]]


def test_those_that_fail_are_told_and_the_next_ones_do_not_notice() -> None:
    disk, kept, failed = Disk(), list[str](), list[BaseException | None]()

    def told(why: Failure) -> None:
        failed.append(why.value)

    together = Together(disk.settle_all)
    for name in "abc":
        settle(together, name, kept).addErrback(told)
    disk.done()
    settle(together, "d", kept)
    disk.answers.pop(0).errback(NoCapacity("full"))
    assert [type(each) for each in failed] == [NoCapacity, NoCapacity]
    disk.done()
    assert kept == ["a", "d"]


@pytest.mark.parametrize("many", [MOST, MOST + 1])
def test_the_first_does_not_wait_for_too_many(many: int) -> None:
    disk, kept = Disk(), list[str]()
    together = Together(disk.settle_all)
    for number in range(many + 1):
        settle(together, str(number), kept)
    while disk.answers:
        disk.done()
    assert [len(each) for each in disk.asked] == [1, MOST, *([1] if many > MOST else [])]
    assert kept == [str(number) for number in range(many + 1)]
