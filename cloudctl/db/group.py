"""Group commit: calls that wait for SQLite's single writer run in one transaction, each in its own savepoint.

Making a commit durable takes a disk longer than a call takes to make its changes, so calls share the wait. A call that
fails is rolled back alone, unnoticed by its neighbours; if the commit fails, all of them fail. A follower handles what
calls notify before the commit, so that costs no transaction of its own.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from attrs import define, field, frozen
from sqlalchemy.exc import DBAPIError
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.python.failure import Failure

from cloudctl.db.connection import Connection
from cloudctl.db.driver import Connections, Held, is_transient
from cloudctl.db.threads import Threads

ATTEMPTS = 8
# Calls in one transaction, at most: the first of them waits for the last.
MOST = 64


@define(eq=False)
class Call:
    """A function that waits for the writer, and the Deferred of its result."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    context: Context = field(factory=copy_context)  # the request id
    answer: Deferred[Any] = field(factory=Deferred)
    attempts: int = 0
    alone: bool = False  # it shares its transaction with no other call
    result: Any = None  # a Failure if it failed
    channels: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()  # tables


@frozen
class Follower:
    """Handles a channel inside the transaction that notifies it, in place of the channel's listeners."""

    # Called in the writer's thread. Returns None to leave the channel to its listeners.
    fn: Callable[[Connection], Any]
    # Called in the reactor's thread: with what `fn` returned once that is on the disk, with None if it never will be.
    then: Callable[[Any], object]


@define(eq=False)
class Followed:
    """What a follower did in a transaction."""

    channel: str
    then: Callable[[Any], object]
    result: Any  # None if the transaction failed
    channels: frozenset[str]  # those that it notified itself
    written: frozenset[str]  # tables


class Group:
    """The writer's queue. Calls are submitted and answered in the reactor's thread, and run in the writer's."""

    def __init__(
        self,
        connections: Connections,
        threads: Threads,
        reactor: IReactorFromThreads,
        clock: IReactorTime,
        changed: Callable[[Iterable[str]], None],
        tell: Callable[[Iterable[str]], None],
    ) -> None:
        """`changed(tables)` is called in the writer's thread after a transaction, `tell(channels)` in the reactor's."""
        self.connections = connections
        self.threads = threads
        self.reactor = reactor
        self.clock = clock
        self._changed = changed
        self._tell = tell
        self.followers: dict[str, Follower] = {}  # by channel
        self._queue: deque[Call] = deque()
        # One for each call, so that the writer sleeps while there is none; False: it ends.
        self._bell: SimpleQueue[bool] = SimpleQueue()

    def start(self) -> None:
        self.threads.start()
        self.threads.callInThread(self._write)

    def stop(self) -> None:
        """End the writer once it has run what was submitted."""
        self._bell.put(False)
        self.threads.stop()

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Deferred[Any]:
        """Fires with the result of `fn(conn, …)` once that is on the disk."""
        call = Call(fn, args, kwargs)
        self._queue.append(call)
        self._bell.put(True)
        return call.answer

    def _write(self) -> None:
        """The writer's thread runs only this: handing each transaction to a thread costs as much as a small one."""
        while self._bell.get():
            while calls := self._next():
                self.reactor.callFromThread(self._deliver, *self._transaction(calls))

    def _next(self) -> list[Call]:
        calls: list[Call] = []
        while self._queue and len(calls) < MOST and not (calls and (calls[0].alone or self._queue[0].alone)):
            calls.append(self._queue.popleft())
        return calls

    def _transaction(self, calls: list[Call]) -> tuple[list[Call], list[Followed]]:
        """Run calls in one transaction. Returns those that have ended, and what followed; the rest are queued again."""
        following: list[Followed] = []
        try:
            held = self.connections.get()
            held.begin(False)
            try:
                self._each(held, calls)
                self._follow(held, calls, following)
                held.commit()
            except BaseException:
                held.rollback()
                raise
        except BaseException:  # as in a ThreadPool: it is passed to those who wait
            for call in calls:
                call.result = Failure()
            for each in following:
                each.result = None
        finally:
            # Even if COMMIT failed: it may have taken effect all the same.
            self._changed(frozenset().union(*(call.written for call in calls), *(each.written for each in following)))
        return [call for call in calls if not self._tried_again(call)], following

    def _each(self, held: Held, calls: list[Call]) -> None:
        """Run each call in its savepoint. If one has ended the transaction, raises its error, and leaves it alone in
        `calls`.
        """
        for position, call in enumerate(calls):
            conn = Connection(held, self.clock, wishes=self.connections.wishes)
            try:
                with conn.begin_nested() if len(calls) > 1 else nullcontext():
                    call.result = call.context.run(call.fn, conn, *call.args, **call.kwargs)
                call.channels, call.written = frozenset(conn.channels), frozenset(conn.written)
            except BaseException:
                if len(calls) == 1:
                    raise
                call.result = Failure()
                if not held.driver.in_transaction:
                    # SQLite has rolled back the whole transaction, on a full disk for example. Either this call caused
                    # it or none did, so the others are run again, each alone.
                    self._again(calls[:position] + calls[position + 1 :])
                    calls[:] = [call]
                    raise

    def _follow(self, held: Held, calls: list[Call], following: list[Followed]) -> None:
        for channel in {channel for call in calls for channel in call.channels} & self.followers.keys():
            conn = Connection(held, self.clock, wishes=self.connections.wishes)
            follower, result = self.followers[channel], None
            try:
                with conn.begin_nested():
                    result = follower.fn(conn)
                    if result is not None:
                        told, written = frozenset(conn.channels), frozenset(conn.written)
                        following.append(Followed(channel, follower.then, result, told, written))
            except Exception:
                if result is not None or not held.driver.in_transaction:
                    raise
                # It is left to the listeners, and they will report what is wrong.

    def _again(self, calls: list[Call]) -> None:
        for call in reversed(calls):
            call.alone = True
            self._queue.appendleft(call)

    def _tried_again(self, call: Call) -> bool:
        failure = call.result
        if not isinstance(failure, Failure) or not isinstance(failure.value, DBAPIError):
            return False
        call.attempts += 1
        if call.attempts == ATTEMPTS or not is_transient(failure.value):
            return False
        time.sleep(random.uniform(0, 0.005 * 2**call.attempts))
        self._again([call])
        return True

    def _deliver(self, calls: list[Call], following: list[Followed]) -> None:
        told = {channel for call in calls for channel in call.channels} - {each.channel for each in following}
        self._tell(told.union(*(each.channels for each in following)))
        for call in calls:
            if isinstance(call.result, Failure):
                call.answer.errback(call.result)
            else:
                call.answer.callback(call.result)
        for each in following:
            each.then(each.result)
