"""Locks by key."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, succeed

from cloudctl.drivers.locks import Locks


def holder(locks: Any, key: Any, entered: Any, until: Any) -> Any:
    async def hold() -> None:
        async with locks.hold(*key):
            entered.append(key)
            await until

    return ensureDeferred(hold())


def test_the_same_key_is_held_by_one_at_a_time_in_the_order_of_asking() -> None:
    locks = Locks()
    entered: list[tuple[str, ...]] = []
    turns: Any = [Deferred() for _ in range(3)]
    done = [holder(locks, ("volume", "a"), entered, turn) for turn in turns]
    for number, turn in enumerate(turns, start=1):
        assert len(entered) == number
        turn.callback(None)
    assert all(each.called for each in done)


def test_different_keys_do_not_wait_for_each_other() -> None:
    locks = Locks()
    entered: list[tuple[str, ...]] = []
    until: Deferred[None] = Deferred()
    holder(locks, ("volume", "a"), entered, until)
    holder(locks, ("snapshot", "a"), entered, until)
    assert entered == [("volume", "a"), ("snapshot", "a")]
    until.callback(None)


def test_a_lock_that_nobody_wants_is_forgotten_even_after_a_failure() -> None:
    locks = Locks()
    until: Any = Deferred()
    failing = holder(locks, ("a",), [], until)
    assert locks.held == {("a",)}
    until.errback(ValueError())
    failing.addErrback(lambda failure: failure.trap(ValueError))
    assert locks.held == frozenset()


def test_who_gives_up_waiting_does_not_get_the_lock_and_nobody_is_kept_from_it() -> None:
    locks = Locks()
    entered: list[tuple[str, ...]] = []
    first: Deferred[None] = Deferred()
    last: Deferred[None] = Deferred()
    holder(locks, ("a",), entered, first)
    given_up = holder(locks, ("a",), entered, Deferred())
    holder(locks, ("a",), entered, last)
    given_up.cancel()
    given_up.addErrback(lambda failure: failure.trap(CancelledError))
    first.callback(None)
    assert len(entered) == 2
    last.callback(None)
    assert locks.held == frozenset()


def test_a_holder_does_not_drop_the_lock_that_was_taken_while_it_let_go_of_its_own() -> None:
    locks = Locks()
    entered: list[tuple[str, ...]] = []
    first: Deferred[None] = Deferred()
    last: Deferred[None] = Deferred()
    holder(locks, ("a",), entered, first)
    # It runs to its end while the first lets go, and so does what it calls.
    waiting = holder(locks, ("a",), entered, succeed(None))
    waiting.addCallback(lambda _: holder(locks, ("a",), entered, last))
    first.callback(None)
    assert len(entered) == 3 and locks.held == {("a",)}
    holder(locks, ("a",), entered, succeed(None))
    assert len(entered) == 3
    last.callback(None)
    assert len(entered) == 4 and locks.held == frozenset()


@pytest.mark.parametrize("keys", [[("a", "b"), ("ab",)], [("a",), ("a", "")]])
def test_keys_of_several_words_are_not_run_together(keys: Any) -> None:
    locks = Locks()
    entered: list[tuple[str, ...]] = []
    until: Deferred[None] = Deferred()
    for key in keys:
        holder(locks, key, entered, until)
    assert entered == keys
    until.callback(None)
