"""Bringing events to receivers: at least once, in their order, by one process at a time.

An event that a receiver does not take is sent again after growing pauses, and no later event overtakes it. An event
that a receiver will never take (a webhook answers 400) is skipped. If a process dies between the delivery and the
commit that notes it, the events are delivered again: receivers know by `message_id` what they have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from attrs import frozen
from twisted.internet.defer import Deferred, TimeoutError, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.db.wishes import matches
from cloudctl.drivers.bus_interface import PUBLISH_SECONDS
from cloudctl.events import outbox, receivers
from cloudctl.events.options import EventOptions
from cloudctl.events.tables import Event
from cloudctl.tasks.rounds import Rounds

log = Logger()

PERIOD = 5.0  # seconds: new events go at once, those not taken are retried at this pace
TRIM = 60.0
# Events, and seconds, between two records of how far a receiver has come: long before the lease ends.
AT_ONCE, ENOUGH = 50, 60.0
LEASE = ENOUGH + PUBLISH_SECONDS


class Undelivered(Exception):
    """The receiver did not take the event. It is asked again later."""


@frozen
class Outcome:
    """Of an attempt to deliver some events: how many of them are done with, and how many of these were refused.

    `why`: the reason why the next one could not be delivered.
    """

    done: int
    refused: int = 0
    why: str | None = None


# Whether the receiver took the event; False: it never will. Raises Undelivered.
Send = Callable[[Event], Awaitable[bool]]


class Ordering(Rounds):
    """Orders the events that were written, and forgets old ones."""

    def __init__(self, clock: IReactorTime, db: Database, options: EventOptions) -> None:
        super().__init__(clock, PERIOD, "events could not be put in order")
        self.db = db
        self.options = options
        self._trimmed_at = clock.seconds()
        db.on_commit(outbox.WRITTEN, self.look_now, elsewhere=self.look_now)

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        while await self.db.read(outbox.is_waiting):
            await self.db.run(outbox.order)
        if self.clock.seconds() - self._trimmed_at >= TRIM:
            self._trimmed_at = self.clock.seconds()
            for name, count in await self.db.run(self._trim):
                log.error("{count} events expired before {name} accepted them", name=name, count=count)

    def _trim(self, conn: Connection) -> Sequence[tuple[str, int]]:
        now = utc(self.db.now(conn))
        end = outbox.overdue(conn, now, self.options.keep, self.options.most)
        lost = receivers.pass_over(conn, end, now, self.options.wanted)
        outbox.forget(conn, end)
        return lost


class Following(Rounds):
    """Goes on from a receiver's position whenever there are more events. `types`: those that the receiver wants."""

    def __init__(self, clock: IReactorTime, db: Database, name: str, types: tuple[str, ...]) -> None:
        super().__init__(clock, PERIOD, f"events could not be delivered to {name}")
        self.db = db
        self.receiver = name
        self.types = types
        db.wishes.add(*types)
        db.on_commit(outbox.ORDERED, self.look_now, elsewhere=self.look_now)

    def wanted(self, found: Sequence[Event]) -> list[Event]:
        return [each for each in found if matches(each.type, self.types)]

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        while await self.go_on() and self.running:
            pass

    @abstractmethod
    async def go_on(self) -> bool:
        """Returns whether there was anything to deliver."""


class Delivery(Following):
    """To a receiver outside. `lease`: seconds, longer by `ENOUGH` than one event may take: then it is given up."""

    def __init__(
        self,
        clock: IReactorTime,
        db: Database,
        name: str,
        types: tuple[str, ...],
        owner: str,
        send: Send,
        lease: float = LEASE,
    ) -> None:
        super().__init__(clock, db, name, types)
        self.owner = owner
        self.send = send
        self.lease = lease

    async def go_on(self) -> bool:
        if not await self.db.read(_is_behind, self.receiver):
            return False
        found = await self.db.run(self._take)
        if not found:
            return False
        wanted = self.wanted(found)[:AT_ONCE]
        outcome = await self._send(wanted)
        if outcome.done == len(wanted) < AT_ONCE:
            position = found[-1].position  # past unwanted events after the last wanted one, too
        else:
            position = wanted[outcome.done - 1].position if outcome.done else None
        return await self.db.run(self._note, position, outcome)

    async def _send(self, events: Sequence[Event]) -> Outcome:
        """Send fewer of them to a slow receiver, so that no other process takes it over meanwhile."""
        end, refused = self.clock.seconds() + ENOUGH, 0
        for done, event in enumerate(events):
            if self.clock.seconds() >= end:
                return Outcome(done, refused)
            try:
                refused += not await self._sent(event).addTimeout(self.lease - ENOUGH, self.clock)
            except Undelivered as error:
                return Outcome(done, refused, str(error))
            except TimeoutError:
                return Outcome(done, refused, f"it took no event within {self.lease - ENOUGH:g} seconds")
        return Outcome(len(events), refused)

    def _sent(self, event: Event) -> Deferred[bool]:
        async def sent() -> bool:
            return await self.send(event)

        return ensureDeferred(sent())

    def _take(self, conn: Connection) -> Sequence[Event]:
        """Nothing if another process delivers, or if it is too early for a retry."""
        taken = receivers.take(conn, self.receiver, self.owner, utc(self.db.now(conn)), self.lease)
        if taken is None:
            return ()
        found = outbox.after(conn, taken.position)
        if not found:
            receivers.let_go(conn, self.receiver, self.owner)
        return found

    def _note(self, conn: Connection, position: int | None, outcome: Outcome) -> bool:
        now = utc(self.db.now(conn))
        if position is not None:
            mine = receivers.advance(conn, self.receiver, self.owner, position, outcome.refused, now, self.lease)
            if not mine:
                return False
        if outcome.why is None:
            if not (self.running and _is_behind(conn, self.receiver)):
                # If this process ends now, no other one waits until the lease has run out.
                receivers.let_go(conn, self.receiver, self.owner)
            return True
        pause = receivers.fail(conn, self.receiver, self.owner, outcome.why, now)
        log.warn(
            "{name} accepts no events; retrying in {pause} s: {why}", name=self.receiver, pause=pause, why=outcome.why
        )
        return False


class Taking(Following):
    """To another part of the cloud, in one transaction with what it makes of the events: once, and in their order."""

    def __init__(
        self,
        clock: IReactorTime,
        db: Database,
        name: str,
        types: tuple[str, ...],
        take: Callable[[Connection, Event, datetime], None],
    ) -> None:
        super().__init__(clock, db, name, types)
        self.take = take

    async def go_on(self) -> bool:
        return await self.db.read(_is_behind, self.receiver) and await self.db.run(self._pass)

    def _pass(self, conn: Connection) -> bool:
        receivers.ensure(conn, self.receiver)
        mine = receivers.find(conn, self.receiver, lock=True)
        assert mine is not None, "it was made"
        found = outbox.after(conn, mine.position, AT_ONCE)
        now = utc(self.db.now(conn))
        for each in self.wanted(found):
            self.take(conn, each, now)
        if not found:
            return False
        receivers.move(conn, self.receiver, found[-1].position or mine.position)
        return True


def _is_behind(conn: Connection, name: str) -> bool:
    """Whether there is anything to deliver, or the receiver is new: only a read, which takes no lock."""
    found = receivers.find(conn, name)
    return found is None or found.position < outbox.last(conn)
