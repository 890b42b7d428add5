"""The audit: each check every period, none at once, none that spoils the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, globalLogPublisher

from cloudctl.tasks.audit import Audit, Check, Finding
from tests.conftest import LoggedFailures

LOST = Finding("guest-missing", "server", "s1", "the host has no such guest", submitted=True)
UNKNOWN = Finding("guest-unknown", "guest", "g9", "nobody knows this guest", submitted=False)


class Script:
    """A check that returns what the test lets it."""

    def __init__(self) -> None:
        self.calls: list[Deferred[list[Finding]]] = []

    async def __call__(self) -> list[Finding]:
        self.calls.append(Deferred())
        return await self.calls[-1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audits(clock: Clock) -> Iterator[list[Audit]]:
    started: list[Audit] = []
    yield started
    for audit in started:
        if audit.running:
            audit.stopService()


def start(clock: Clock, audits: list[Audit], checks: dict[str, Check]) -> Audit:
    audit = Audit(clock, 60.0, checks)
    audit.startService()
    audits.append(audit)
    return audit


def test_checks_run_each_period_and_what_they_find_is_counted_and_logged(clock: Clock, audits: list[Audit]) -> None:
    events: list[str] = []
    observe = cast(ILogObserver, lambda event: events.append(str(event.get("log_format"))))
    globalLogPublisher.addObserver(observe)

    async def hypervisor() -> list[Finding]:
        return [LOST, UNKNOWN]

    async def volumes() -> tuple[Finding, ...]:
        return ()

    audit = start(clock, audits, {"hypervisor": hypervisor, "volumes": volumes})
    clock.advance(59.0)
    assert audit.counts.ended == {}
    clock.advance(1.0)
    clock.advance(60.0)
    globalLogPublisher.removeObserver(observe)
    assert audit.counts.ended == {"hypervisor": 2, "volumes": 2}
    assert audit.counts.findings == {("hypervisor", "guest-missing"): 2, ("hypervisor", "guest-unknown"): 2}
    assert audit.latest == {"hypervisor": (LOST, UNKNOWN), "volumes": ()}
    assert len([event for event in events if "finding.message" in event]) == 4


def test_rounds_never_overlap(clock: Clock, audits: list[Audit]) -> None:
    check = Script()
    audit = start(clock, audits, {"slow": check})
    clock.pump([60.0] * 5)
    assert len(check.calls) == 1
    by_hand = audit.run()
    assert len(check.calls) == 1
    assert not by_hand.called
    check.calls[0].callback([LOST])
    assert by_hand.called
    assert audit.latest == {"slow": (LOST,)}
    clock.advance(60.0)
    assert len(check.calls) == 2
    check.calls[1].callback([])


def test_a_failing_check_is_logged_and_spoils_nothing(
    clock: Clock, audits: list[Audit], logged_failures: LoggedFailures
) -> None:
    async def broken() -> list[Finding]:
        raise ConnectionError("backend is down")

    async def fine() -> list[Finding]:
        return [LOST]

    audit = start(clock, audits, {"broken": broken, "fine": fine})
    clock.advance(60.0)
    clock.advance(60.0)
    assert (audit.counts.failed, audit.counts.ended) == ({"broken": 2}, {"fine": 2})
    assert len(logged_failures.flush(ConnectionError)) == 2


def test_a_stop_waits_for_the_check_under_way_and_begins_no_other(clock: Clock, audits: list[Audit]) -> None:
    first, second = Script(), Script()
    audit = start(clock, audits, {"first": first, "second": second})
    clock.advance(60.0)
    stopped = audit.stopService()
    assert not stopped.called
    first.calls[0].callback([])
    assert stopped.called
    assert second.calls == []
    clock.advance(600.0)
    assert len(first.calls) == 1


def test_a_stopped_or_idle_audit_stops_at_once_and_a_round_can_be_asked_for_without_a_start(clock: Clock) -> None:
    async def fine() -> list[Finding]:
        return [LOST]

    audit = Audit(clock, 60.0, {"fine": fine})
    assert audit.run().called
    assert audit.counts.ended == {"fine": 1}
    audit.startService()
    assert audit.stopService().called
