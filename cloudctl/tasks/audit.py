"""The audit: every few minutes, what a backend has is compared with what the database says.

A check asks a driver for its inventory once, compares, submits tasks for what can be mended, and reports the rest; it
never acts on a backend itself. What a backend has and the database does not know is reported, never deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.absence import Absence

log = Logger()

BATCH = 100  # tasks in one transaction


@frozen
class Finding:
    """One difference between a backend and the database."""

    kind: str  # a few words with dashes: "guest-missing"
    resource_type: str
    resource_id: str
    message: str
    submitted: bool  # a task that mends it was submitted


Check = Callable[[], Awaitable[Sequence[Finding]]]
Mend = Callable[[Connection, Sequence[tuple[str, str]]], set[str]]
"""Submits tasks for resources, each said by type and id. Ids of those that now have one."""


async def mended(database: Database, mend: Mend, findings: Sequence[Finding]) -> list[Finding]:
    """Submit tasks for the findings marked `submitted`. Returns the findings, without those that then got no task.

    The tasks are submitted in small batches: like the comparison of everything, they keep nobody from writing.
    """
    wanted = list(dict.fromkeys((each.resource_type, each.resource_id) for each in findings if each.submitted))
    done: set[str] = set()
    for start in range(0, len(wanted), BATCH):
        done |= await database.run(mend, wanted[start : start + BATCH])
    return [each for each in findings if not each.submitted or each.resource_id in done]


@define
class Well:
    """The state in which a check last found all to be well: while it is the same, the check need not read it all again.

    Tables are represented by the counters of `Database.changes`, taken before they were read. If these are None, other
    processes write, too, and every round reads.
    """

    _by: tuple[Any, ...] | None = None

    def is_still(self, *by: Any) -> bool:
        return self._by is not None and by[0] is not None and by == self._by

    def note(self, well: bool, *by: Any) -> None:
        self._by = by if well else None


@define
class AuditCounts:
    """By the name of the check; `findings` by (check, kind of finding)."""

    ended: Counter[str] = field(factory=Counter)
    failed: Counter[str] = field(factory=Counter)
    findings: Counter[tuple[str, str]] = field(factory=Counter)


class Audit(Service):
    """Runs the checks one after the other every `period` seconds, first after one period. Rounds never overlap."""

    def __init__(self, clock: IReactorTime, period: float, checks: Mapping[str, Check]) -> None:
        self.clock = clock
        self.period = period
        self.checks = dict(checks)
        self.counts = AuditCounts()
        self.latest: dict[str, tuple[Finding, ...]] = {}  # of the last round in which the check worked
        self._round: Deferred[None] | None = None
        self._calls: LoopingCall | None = None
        self._absence = Absence("the audit failed")

    def startService(self) -> None:
        super().startService()
        self._calls = LoopingCall(self.run)
        self._calls.clock = self.clock
        self._calls.start(self.period, now=False)

    def stopService(self) -> Deferred[None]:
        """Let the check that is under way end; begin no other."""
        super().stopService()
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        stopped: Deferred[None] = Deferred()
        if self._round is None:
            stopped.callback(None)
        else:
            self._round.chainDeferred(stopped)
        return stopped

    def run(self) -> Deferred[None]:
        """Begin a round now, or wait for the end of the one that is under way."""
        done: Deferred[None] = Deferred()
        if self._round is None:
            self._round = Deferred()
            self._round.chainDeferred(done)
            ensureDeferred(self._run_all()).addBoth(self._ended)
        else:
            self._round.chainDeferred(done)
        return done

    def _ended(self, result: None) -> None:
        ended, self._round = self._round, None
        assert ended is not None
        ended.callback(result)

    async def _run_all(self) -> None:
        for name, check in self.checks.items():
            if self._calls is not None and not self.running:
                return
            try:
                found = tuple(await check())
            except Exception as error:
                # A backend that is down must not keep the others from being looked at.
                self.counts.failed[name] += 1
                if not self._absence.explains(error):
                    log.failure("audit {name} failed", name=name)
                continue
            self._absence.is_over()
            self._report(name, found)

    def _report(self, name: str, found: tuple[Finding, ...]) -> None:
        self.counts.ended[name] += 1
        self.latest[name] = found
        for finding in found:
            self.counts.findings[name, finding.kind] += 1
            log.warn(
                "audit {name}: {finding.kind}: {finding.resource_type} {finding.resource_id}: {finding.message}",
                name=name,
                finding=finding,
            )
