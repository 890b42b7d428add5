"""The connection to one of OVN's databases, driven by the reactor.

The IDL must be run whenever its socket is ready or its timer has expired, and reports what it waits for as it would to
a poll loop. It reconnects by itself, to another server of a cluster if there is one, and then fetches what it missed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen
from ovs import jsonrpc, stream, timeval
from ovs.db.idl import Transaction
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, TimeoutError
from twisted.internet.interfaces import IDelayedCall, IReactorTime, IReadDescriptor, IWriteDescriptor
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from cloudctl.drivers import client_certificates
from cloudctl.drivers.errors import Busy, DriverError, Unreachable, Unusable
from cloudctl.drivers.ovn import why
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.replica import Copy, Draft, Replica
from cloudctl.trouble import Trouble

log = Logger()

T = TypeVar("T")
C = TypeVar("C", bound=Copy)

AGAIN = 0.05  # seconds after which a change that another process has just made has surely arrived
BROKEN = 1000  # milliseconds


def check_files(config: Config) -> None:
    """Raises Unusable where an ssl: remote lacks a file: each try to connect would fail, with a traceback."""
    if not config.has_tls:
        return
    for option in ("private_key", "certificate", "ca_certificate"):
        path = getattr(config, option)
        if not os.access(path, os.R_OK):
            raise Unusable(f"an ssl: remote needs {option}, and {path} cannot be read")
    try:
        client_certificates.context(config.ca_certificate, config.certificate, config.private_key)
    except OSError as error:
        raise Unusable(f"an ssl: remote needs private_key, certificate and ca_certificate: {error}") from error


@define
class Interest:
    """What the IDL waits for. Has the methods of `ovs.poller.Poller` with which the IDL reports it."""

    fds: dict[int, int] = field(factory=dict)
    milliseconds: int | None = None

    def fd_wait(self, fd: Any, events: int) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        self.fds[number] = self.fds.get(number, 0) | events

    def timer_wait(self, milliseconds: int) -> None:
        sooner = max(0, milliseconds)
        self.milliseconds = sooner if self.milliseconds is None else min(self.milliseconds, sooner)

    def timer_wait_until(self, milliseconds: int) -> None:
        self.timer_wait(milliseconds - timeval.msec())

    def immediate_wake(self) -> None:
        self.milliseconds = 0


@implementer(IReadDescriptor, IWriteDescriptor)
@define(eq=False)
class Watched:
    """A socket of the IDL, for the reactor."""

    number: int
    ready: Callable[[], None]

    def fileno(self) -> int:
        return self.number

    def logPrefix(self) -> str:
        return "ovsdb"

    def doRead(self) -> None:
        self.ready()

    def doWrite(self) -> None:
        self.ready()

    def connectionLost(self, reason: Failure) -> None:
        self.ready()


@frozen
class Database(Generic[C]):
    """One of OVN's databases: its name for people and in the protocol, its servers, and how to begin a copy."""

    name: str
    protocol_name: str
    remotes: list[str]
    copy: Callable[[str, dict[str, Any], int], C]  # servers, schema, seconds of silence


@define(eq=False)
class Connection(Generic[C]):
    database: Database[C]
    config: Config
    reactor: Any
    clock: IReactorTime
    replica: C | None = None  # None until the database has sent its schema
    _session: Any = None  # in which the schema is requested
    _asked: int = 0  # the connection of the session in which it was requested
    _watched: list[Watched] = field(factory=list)
    _timer: IDelayedCall | None = None
    _transactions: dict[Transaction, Deferred[str]] = field(factory=dict)
    _waiting: list[Deferred[None]] = field(factory=list)
    _turn: DeferredLock = field(factory=DeferredLock)
    _is_closed: bool = False
    _away: dict[str, Trouble] = field(factory=dict)  # by the names of servers
    _why: str = ""  # the last connection failed; empty: there is one
    _is_odd: bool = False  # it sends what no such server sends

    async def transact(self: Connection[Replica], fn: Callable[[Draft], T]) -> T:
        """What `fn` returns, once all that it wrote is in the database; it is called again if the database has changed.

        One at a time: each sees what the previous ones did. Raises Unreachable, Busy, and what `fn` raises.
        """
        working = Deferred.fromCoroutine(self._transact(fn))
        return await self._in_time(working)

    async def read(self, fn: Callable[[C], T]) -> T:
        """Raises Unreachable, and what `fn` raises."""
        return fn(await self._in_time(Deferred.fromCoroutine(self._current())))

    async def read_until(self, fn: Callable[[C], T | None]) -> T:
        """What `fn` returns, called again until that is not None. Raises Unreachable, and what `fn` raises."""

        async def look() -> T:
            while (found := fn(await self._current())) is None:
                await deferLater(self.clock, AGAIN)
            return found

        return await self._in_time(Deferred.fromCoroutine(look()))

    async def would_change(self: Connection[Replica], fn: Callable[[Draft], object]) -> bool:
        """Whether `fn` would change anything. Nothing is written. Raises Unreachable, and what `fn` raises."""
        replica = await self._in_time(Deferred.fromCoroutine(self._current()))
        transaction = Transaction(replica)
        try:
            draft = Draft(replica, transaction)
            fn(draft)
            return draft.changes > 0
        finally:
            transaction.abort()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._unwatch()
        self._let_go()
        left: list[Deferred[Any]] = [*self._waiting, *self._transactions.values()]
        self._waiting.clear()
        self._transactions.clear()
        for each in left:
            each.errback(Unreachable(f"the connection to the {self.database.name} was closed"))

    async def _in_time(self, working: Deferred[T]) -> T:
        working.addTimeout(self.config.answer_timeout, self.clock)
        try:
            return await working
        except (TimeoutError, CancelledError):
            because = f": {self._why}" if self._why else ""
            raise Unreachable(
                f"the {self.database.name} did not answer within {self.config.answer_timeout:g} s{because}"
            ) from None

    async def _transact(self: Connection[Replica], fn: Callable[[Draft], T]) -> T:
        async with self._turn:
            while True:
                replica = await self._current()
                transaction = Transaction(replica)
                try:
                    result = fn(Draft(replica, transaction))
                except BaseException:
                    transaction.abort()
                    raise
                # Commit before the IDL runs again: it must not run while a transaction is being written.
                status = transaction.commit()
                if status == Transaction.INCOMPLETE:
                    status = await self._end_of(transaction)
                if status in (Transaction.SUCCESS, Transaction.UNCHANGED):
                    return result
                if status != Transaction.TRY_AGAIN:
                    raise _refusal(transaction.get_error())
                await deferLater(self.clock, AGAIN)

    def _end_of(self, transaction: Transaction) -> Deferred[str]:
        def give_up(_: Deferred[str]) -> None:
            del self._transactions[transaction]

        ended: Deferred[str] = Deferred(give_up)
        self._transactions[transaction] = ended
        self._soon()
        return ended

    async def _current(self) -> C:
        if self._is_closed:
            raise Unreachable(f"the connection to the {self.database.name} is closed")
        while self.replica is None or not self.replica.is_current:
            waiting: Deferred[None] = Deferred(lambda found: self._waiting.remove(found))
            self._waiting.append(waiting)
            self._soon()
            await waiting
        return self.replica

    # -- run by the reactor

    def _soon(self) -> None:
        """Run the IDL from the reactor, not in the middle of something else."""
        self._wake_in(0)

    def _wake_in(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= self.clock.seconds() + seconds:
                return
            self._timer.cancel()
        self._timer = self.clock.callLater(seconds, self._run)

    def _unwatch(self) -> None:
        """To be called before the IDL runs: it may close its socket and open another one with the same number."""
        for each in self._watched:
            self.reactor.removeReader(each)
            self.reactor.removeWriter(each)
        self._watched.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _run(self) -> None:
        if self._is_closed:
            return
        self._unwatch()
        if self.config.has_tls:
            # These are global to the process and read when a connection is opened: only here.
            stream.Stream.ssl_set_private_key_file(str(self.config.private_key))
            stream.Stream.ssl_set_certificate_file(str(self.config.certificate))
            stream.Stream.ssl_set_ca_cert_file(str(self.config.ca_certificate))
            stream.Stream.register_method("ssl", why.Tls)
        interest = Interest()
        try:
            self._run_once(interest)
        except Exception as error:  # whatever something that is not such a server may send: start again from scratch
            if not self._is_odd:
                log.failure("reconnecting to the {name}", name=self.database.name)
            self._is_odd, self._why = True, str(error) or type(error).__name__
            self._let_go()
            interest = Interest(milliseconds=BROKEN)
        if not self._is_closed:
            self._watch(interest)

    def _run_once(self, interest: Interest) -> None:
        if self.replica is None:
            self._ask_schema()
        if self.replica is not None:
            self._run_replica(self.replica, interest)
        elif self._session is not None:
            self._session.wait(interest)
            self._session.recv_wait(interest)

    def _let_go(self) -> None:
        for end in (self.replica, self._session):
            if end is not None:
                end.close()
        self.replica = self._session = None
        self._asked = 0

    def _watch(self, interest: Interest) -> None:
        for number, events in interest.fds.items():
            watched = Watched(number, self._run)
            self._watched.append(watched)
            if events & select.POLLIN:
                self.reactor.addReader(watched)
            if events & select.POLLOUT:
                self.reactor.addWriter(watched)
        if interest.milliseconds is not None:
            self._wake_in(interest.milliseconds / 1000)

    def _ask_schema(self) -> None:
        if self._session is None:
            probe = self.config.probe_seconds * 1000
            self._session = jsonrpc.Session.open_multiple(list(self.database.remotes), probe_interval=probe)
            why.noted(self._session, self._failed)
        session = self._session
        session.run()
        if session.is_connected() and session.get_seqno() != self._asked:
            self._asked = session.get_seqno()
            session.send(jsonrpc.Message.create_request("get_schema", [self.database.protocol_name]))
        while (answer := session.recv()) is not None:
            if answer.type == jsonrpc.Message.T_REPLY:
                session.close()
                self._session = None
                remotes = ",".join(self.database.remotes)
                self.replica = self.database.copy(remotes, answer.result, self.config.probe_seconds)
                self.replica.note(self._failed)
                return
            if answer.type == jsonrpc.Message.T_ERROR:
                log.error("the {name} has no schema: {error}", name=self.database.name, error=answer.error)

    def _run_replica(self, replica: C, interest: Interest) -> None:
        if replica.run():
            # There may be more to read: what the socket's TLS layer has already read does not make it ready.
            interest.immediate_wake()
        for transaction, ended in list(self._transactions.items()):
            status = transaction.commit()
            if status != Transaction.INCOMPLETE:
                del self._transactions[transaction]
                ended.callback(status)
        if replica.is_current:
            self._reached(replica.server)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)
        if not self._is_closed:
            replica.wait(interest)

    def _failed(self, server: str, told: str) -> None:
        """A connection to one of its servers failed, or has broken."""
        self._why = told
        where = f"the {self.database.name} at {server}"
        trouble = self._away.setdefault(server, Trouble(log, f"{where} does not answer", f"{where} answers again"))
        trouble.is_met(told)

    def _reached(self, server: str) -> None:
        self._why, self._is_odd = "", False
        if server in self._away:
            self._away[server].is_over()


def _refusal(details: str) -> DriverError:
    """The error for a transaction that the database refused."""
    if "duplicate uuid" in details or "constraint violation" in details:
        # Another process was faster with the same change; the next attempt sees it.
        return Busy(f"the northbound database did not take it: {details}")
    return DriverError(f"the northbound database refused: {details}")
