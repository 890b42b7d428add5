"""Rounds come one after the other, however long one takes and whoever asks for the next."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import OperationalError
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater
from twisted.logger import capturedLogs, formatEvent

from cloudctl.tasks.rounds import Rounds


class Slow(Rounds):
    """Each round takes `takes` seconds; `began` and `ended` hold when."""

    def __init__(self, clock: Clock, takes: float) -> None:
        super().__init__(clock, 5.0, "a slow round failed")
        self.takes = takes
        self.began: list[float] = []
        self.ended: list[float] = []
        self.fails = False
        self.is_away = False

    async def look(self) -> None:
        assert len(self.began) == len(self.ended), "the round before is still under way"
        self.began.append(self.clock.seconds())
        await deferLater(self.clock, self.takes, lambda: None)
        self.ended.append(self.clock.seconds())
        if self.is_away:
            raise OperationalError(None, None, Exception("connection refused"))
        if self.fails:
            raise ConnectionError("nobody answers")


def run(clock: Clock, seconds: int) -> None:
    clock.pump([1.0] * seconds)


def test_the_timer_waits_for_a_round_that_somebody_asked_for() -> None:
    clock = Clock()
    rounds = Slow(clock, 1.0)
    rounds.startService()
    run(clock, 2)
    rounds.takes = 12.0
    rounds.look_now()
    run(clock, 28)
    assert rounds.began == [0.0, 2.0, 17.0] and rounds.ended == [1.0, 14.0, 29.0]


def test_a_round_that_is_asked_for_during_another_follows_it_once() -> None:
    clock = Clock()
    rounds = Slow(clock, 3.0)
    rounds.startService()
    run(clock, 1)
    for _ in range(5):
        rounds.look_now()
    run(clock, 5)
    assert rounds.began == [0.0, 3.0] and rounds.ended == [3.0, 6.0]


def test_a_round_that_fails_does_not_cost_the_one_that_was_asked_for_meanwhile(logged_failures: Any) -> None:
    clock = Clock()
    rounds = Slow(clock, 1.0)
    rounds.fails = True
    rounds.startService()
    rounds.look_now()
    run(clock, 1)
    rounds.fails = False
    run(clock, 1)
    assert rounds.ended == [1.0, 2.0]
    assert len(logged_failures.flush(ConnectionError)) == 1


def test_a_database_that_is_away_is_told_once_and_so_is_its_return(logged_failures: Any) -> None:
    clock = Clock()
    rounds = Slow(clock, 1.0)
    with capturedLogs() as lines:
        rounds.startService()
        for rounds.is_away in (True, False, True):
            run(clock, 20)
    told = [formatEvent(line) for line in lines if line["log_namespace"] == "cloudctl.db.absence"]
    away = "a slow round failed: the database is unavailable: connection refused"
    assert told == [away, "a slow round failed: no more, the database is available again", away]
    assert logged_failures.flush() == []


def test_none_is_under_way_once_it_has_stopped() -> None:
    clock = Clock()
    rounds = Slow(clock, 8.0)
    rounds.startService()
    run(clock, 8)
    rounds.look_now()
    run(clock, 4)
    rounds.look_now()
    stopped: list[float] = []
    stopping = rounds.stopService()
    assert isinstance(stopping, Deferred)
    stopping.addCallback(lambda _: stopped.append(clock.seconds()))
    run(clock, 30)
    assert stopped == [16.0] and rounds.began == [0.0, 8.0] and rounds.ended == [8.0, 16.0]
