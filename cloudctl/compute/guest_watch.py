"""Guests that go off by themselves: the driver reports them, and they are compared at once, not at the next audit.

While a task is working on the server its state means nothing; such a server is checked again once the task has ended.
Reference: compute-states.md, section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.compute import audit
from cloudctl.db import Connection, Database
from cloudctl.db.absence import Absence
from cloudctl.drivers.errors import DriverError, UnknownGuest
from cloudctl.drivers.specs import GuestState
from cloudctl.trouble import Trouble

log = Logger()

SOON = 0.2  # seconds: guests that go off together are compared together
AGAIN = 2.0
BATCH = 100  # guests in one transaction
TROUBLE = "comparing the guests failed"


class GuestWatch(Service):
    """`hypervisor` provides IHypervisor and IGuestEvents."""

    def __init__(self, clock: IReactorTime, db: Database, hypervisor: Any) -> None:
        self.clock = clock
        self.db = db
        self.hypervisor = hypervisor
        self._suspects: set[str] = set()
        self._next: IDelayedCall | None = None
        self._round: Deferred[None] | None = None
        self._is_watching = False
        self._unwatched = Trouble(
            log,
            "guests that go off by themselves may be noticed by the audit only",
            "all guests that go off by themselves are noticed at once again",
        )
        self._unknown: dict[str, Trouble] = {}  # by the ids of guests whose state is
        self._absence = Absence(TROUBLE)

    def startService(self) -> None:
        super().startService()
        self._begin(self._watch())

    def stopService(self) -> Deferred[None] | None:
        """Fires when the round under way has ended."""
        super().stopService()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        return self._round

    def changed(self, id: str) -> None:
        """Compare this guest soon."""
        self._suspects.add(id)
        self._look_in(SOON)

    async def _watch(self) -> None:
        try:
            await self.hypervisor.watch_guests(self.changed)
            # Some may have gone off while nobody watched.
            self._suspects |= {guest.id for guest in await self.hypervisor.inventory()}
        except DriverError as error:
            self._unwatched.is_met(error)
        else:
            self._is_watching = True
            self._unwatched.is_over()

    def _look_in(self, seconds: float) -> None:
        is_due = self._suspects or not self._is_watching
        if self.running and is_due and self._next is None and self._round is None:
            self._next = self.clock.callLater(seconds, self._look)

    def _look(self) -> None:
        self._next = None
        self._begin(self._turn())

    async def _turn(self) -> None:
        await self.look()
        if not self._is_watching:
            await self._watch()

    def _begin(self, work: Any) -> None:
        self._round = ensureDeferred(work)
        self._round.addCallbacks(lambda _: self._absence.is_over(), self._failed)
        if self._round.called:
            self._ended(None)
        else:
            self._round.addCallback(self._ended)

    def _failed(self, failure: Failure) -> None:
        if not self._absence.explains(failure.value):
            log.failure(TROUBLE, failure)

    def _ended(self, _: None) -> None:
        self._round = None
        self._look_in(AGAIN)

    async def look(self) -> None:
        """One round. Raises what the database raises; the guests are then checked again."""
        suspects, self._suspects, decided = self._suspects, set(), set[str]()
        try:
            found = []
            for id in sorted(suspects):
                try:
                    found.append(await self.hypervisor.observe(id))
                except UnknownGuest:
                    decided.add(id)
                except DriverError as error:
                    what = f"the state of guest {id} is"
                    trouble = self._unknown.setdefault(id, Trouble(log, f"{what} unknown", f"{what} known again"))
                    trouble.is_met(error)
                    continue
                if id in self._unknown:
                    self._unknown.pop(id).is_over()
            for start in range(0, len(found), BATCH):
                some = found[start : start + BATCH]
                undecided = await self.db.run(_compare, some)
                decided |= {guest.id for guest in some} - undecided
        finally:
            # In addition to those reported in the meantime.
            self._suspects |= suspects - decided


def _compare(conn: Connection, guests: Sequence[GuestState]) -> frozenset[str]:
    findings, undecided = audit.compare_these(conn, guests)
    for finding in findings:
        log.warn("{finding.kind}: server {finding.resource_id}: {finding.message}", finding=finding)
    return undecided
