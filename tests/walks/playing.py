"""One walk from its first step to the last check."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from hashlib import sha256

from attrs import frozen
from twisted.logger import formatEvent, globalLogPublisher

from tests.conftest import LoggedFailures
from tests.walks import clearing, networks, servers, trouble, volumes
from tests.walks.end import End
from tests.walks.invariants import INVARIANTS, no_answer_was_an_error_of_the_server
from tests.walks.walk import HA, ID, Event, Mix, Walk, seeded, steps

STEPS = 250  # of the walks that are made unless said otherwise
LAST = 12  # requests that are shown of each resource
SHOWN = 8  # resources


@frozen
class Walked:
    """`end`: all that was asked and answered, in one word: another one if anything differs."""

    seed: int
    mix: Mix
    count: int
    events: tuple[Event, ...]
    wrong: tuple[str, ...]
    end: str
    statuses: str

    def __str__(self) -> str:
        name = ",".join(sorted(self.mix)) or "calm"
        said = f"seed {self.seed}, {self.count} steps, {name}: end {self.end}; {self.statuses}"
        return "\n".join((said, *self._told())) if self.wrong else said

    def _told(self) -> Iterator[str]:
        yield from (f"  {each}" for each in self.wrong)
        concerned = dict.fromkeys(id for each in self.wrong for id in ID.findall(each))
        for id in list(concerned)[:SHOWN]:
            yield f"  the last requests about {id}:"
            about = [each for each in self.events if each.status and (id in each.what or id in each.answer)][-LAST:]
            since = about[0].at if about else 0.0
            shown = [each for each in self.events if each in about or (not each.status and each.at >= since)]
            yield from (f"    {event}" for event in shown)


def play(seed: int, mix: Mix, count: int) -> Walked:
    logged = LoggedFailures()
    globalLogPublisher.addObserver(logged)
    try:
        # The cloud is the same for all seeds, and made once.
        with seeded("the cloud"):
            walk = Walk(seed, mix)
        with seeded(f"{seed}"):
            wrong = list(_played(walk, count))
            walk.cloud.close()
        # Errors of Deferreds that nobody has seen are logged once these are collected.
        gc.collect()
    finally:
        globalLogPublisher.removeObserver(logged)
    wrong += [f"{formatEvent(each)}\n{each['log_failure'].getTraceback()}" for each in logged.events]
    word = sha256("\n".join(map(str, walk.events)).encode()).hexdigest()[:12]
    statuses = ", ".join(f"{count} of {status}" for status, count in sorted(walk.statuses.items()))
    return Walked(seed, mix, count, tuple(walk.events), tuple(wrong), word, statuses)


def _played(walk: Walk, count: int) -> Iterator[str]:
    """Sentences of what is wrong."""
    walk.prepare()
    if HA in walk.mix:
        trouble.make_segment(walk)
    before = clearing.there(walk)
    end = End(walk)
    try:
        trouble.be_slow(walk)
        steps(walk, count, (*servers.ACTIONS, *volumes.ACTIONS, *networks.ACTIONS, *trouble.actions(walk)))
        trouble.rest(walk)
        for invariant in INVARIANTS:
            yield from invariant(end)
        clearing.clear(walk)
        yield from clearing.left(walk, before)
    except AssertionError as error:
        # A task that never ends, or a list that is refused.
        yield f"{error}"
    yield from no_answer_was_an_error_of_the_server(end)
