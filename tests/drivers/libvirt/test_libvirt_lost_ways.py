"""How a guest's way ends that was lost: both sides say which of them has it, and nobody waits for a word that never
comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import Aborted, DriverError
from tests.conftest import LoggedFailures
from tests.needed import HOST, need


@pytest.fixture(autouse=True)
def libvirt() -> Any:
    try:
        import libvirt
    except ImportError as error:
        need(str(error), HOST)
    return libvirt


# -- which side

STAYED = {
    "left": ("absent", "arriving", "off"),
    "home": ("absent", "arriving", "off", "home", "left"),
    "off": ("absent", "off"),
}
ARRIVED = {"left": ("home", "leaving"), "absent": ("home", "leaving")}


@pytest.mark.parametrize(
    ("there", "here", "outcome"),
    [
        *((there, here, "stayed") for there, all_here in STAYED.items() for here in all_here),
        *((there, here, "arrived") for there, all_here in ARRIVED.items() for here in all_here),
        # The memory of it is on both, and runs on neither yet.
        ("left", "left", "open"),
        *(("leaving", here, "open") for here in ("absent", "arriving", "home")),
    ],
)
def test_a_guest_has_arrived_only_if_it_runs_there_and_nowhere_else(there: str, here: str, outcome: str) -> None:
    from cloudctl.drivers.libvirt import migration
    from cloudctl.drivers.libvirt.migration import Outcome, Standing

    assert migration.outcome(Standing(there), Standing(here)) is Outcome(outcome)


def test_of_two_that_run_the_one_that_was_let_go_on_is_the_guest() -> None:
    from cloudctl.drivers.libvirt.guests import Claim, Made, is_superseded

    arrived, here, left = Made(1.0, Claim.ARRIVED), Made(1.0, Claim.HERE), Made(1.0, Claim.LEFT)
    assert is_superseded(arrived, here) and not is_superseded(here, arrived)
    # Where it left and where it arrives it is for a moment at the same time.
    assert not is_superseded(left, arrived) and not is_superseded(arrived, left)
    assert not is_superseded(arrived, arrived) and not is_superseded(here, here)
    # Whatever they are at, one that was made anew since is the guest.
    assert is_superseded(here, Made(2.0, Claim.OFF)) and not is_superseded(Made(2.0, Claim.OFF), here)


class Paused:
    """A domain of libvirt's that stands still for a reason."""

    def __init__(self, reason: int) -> None:
        self.reason = reason

    def state(self) -> tuple[int, int]:
        import libvirt

        return libvirt.VIR_DOMAIN_PAUSED, self.reason

    def isActive(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("reason", "claim"),
    [("MIGRATION", "LEFT"), ("POSTCOPY", "LEFT"), ("UNKNOWN", "LEFT"), ("USER", "HERE"), ("IOERROR", "HERE")],
)
def test_one_that_somebody_paused_was_not_left(libvirt: Any, reason: str, claim: str) -> None:
    from cloudctl.drivers.libvirt import guests

    assert guests.claim(Paused(getattr(libvirt, f"VIR_DOMAIN_PAUSED_{reason}"))).name == claim


# -- the word of it


def attended(
    going: Deferred[Any],
    clock: Clock,
    is_over: Callable[[], Awaitable[bool]],
    end: Callable[[], Awaitable[None]] | None = None,
) -> Deferred[Any]:
    from cloudctl.drivers.libvirt.lateness import attended as attend
    from cloudctl.drivers.libvirt.options import Config

    async def call() -> Any:
        return await going

    async def told_to_end() -> None:
        going.errback(Aborted("it was told to end"))

    return ensureDeferred(attend(call(), clock, Config(migration_timeout=100.0), end or told_to_end, is_over))


def told_by_libvirt(going: Deferred[Any]) -> None:
    """As `HostConnection` does if nobody waits any more."""
    going.errback(DriverError("host east did not answer"))


async def test_one_that_is_over_without_a_word_is_given_up_soon() -> None:
    clock, going = Clock(), Deferred[Any](told_by_libvirt)

    async def is_over() -> bool:
        return clock.seconds() > 7

    found = attended(going, clock, is_over)
    clock.pump([1.0] * 11)
    assert not found.called
    clock.pump([1.0] * 2)
    with pytest.raises(DriverError, match="moves the guest no more"):
        await found
    assert not clock.getDelayedCalls()


async def test_one_that_is_on_its_way_or_cannot_be_seen_is_waited_for() -> None:
    clock, going, answers = Clock(), Deferred[Any](told_by_libvirt), [True, True, False]

    async def is_over() -> bool:
        if int(clock.seconds()) % 4 == 0:
            raise DriverError("host east does not answer")
        return answers[int(clock.seconds()) % 3]

    found = attended(going, clock, is_over)
    clock.pump([1.0] * 90)
    assert not found.called
    going.callback("moved")
    assert await found == "moved" and not clock.getDelayedCalls()


async def test_one_that_is_late_is_still_given_up() -> None:
    clock, going = Clock(), Deferred[Any]()

    async def is_over() -> bool:
        return False

    found = attended(going, clock, is_over)
    clock.pump([1.0] * 101)
    with pytest.raises(DriverError, match="had not arrived after 100 s"):
        await found
    assert not clock.getDelayedCalls()


async def test_a_look_that_fails_in_whatever_way_is_not_the_last_one(logged_failures: LoggedFailures) -> None:
    clock, going = Clock(), Deferred[Any](told_by_libvirt)

    async def is_over() -> bool:
        if clock.seconds() < 2:
            raise LookupError
        return True

    found = attended(going, clock, is_over)
    clock.pump([1.0] * 6)
    assert found.called
    with pytest.raises(DriverError, match="moves the guest no more"):
        await found
    assert logged_failures.flush(LookupError)


async def test_a_late_one_is_told_again_if_the_word_fails_in_whatever_way(logged_failures: LoggedFailures) -> None:
    clock, going, words = Clock(), Deferred[Any](), [LookupError(), Aborted("it was told to end")]

    async def is_over() -> bool:
        return False

    async def end() -> None:
        if isinstance(said := words.pop(0), LookupError):
            raise said
        going.errback(said)

    found = attended(going, clock, is_over, end)
    clock.pump([1.0] * 130)
    assert found.called
    with pytest.raises(DriverError, match="had not arrived after 100 s"):
        await found
    assert logged_failures.flush(LookupError)


def test_what_broke_off_before_anybody_looked_is_over_too_but_nothing_that_waits_for_its_turn() -> None:
    from cloudctl.drivers.libvirt.lateness import BEGINNING, Seen

    sent = False
    seen = Seen(lambda: sent)
    assert not any(seen.is_over(False) for _ in range(3 * BEGINNING))
    sent = True
    assert not any(seen.is_over(False) for _ in range(BEGINNING))
    assert seen.is_over(False)
    once = Seen(lambda: True)
    assert [once.is_over(leaves) for leaves in (False, True, True, False)] == [False, False, False, True]
