"""The connection to the libvirtd of one host: its calls have threads of their own and deadlines, so that a host which
hangs holds nobody else.

libvirt's library blocks. A call to a daemon that is stopped ends when keepalive has missed it; `open` has no keepalive
yet, so a bounded handshake comes first, and each call is in a thread that can be left behind.

No two threads call on one connection at a time: the library before 9.3, which Debian 12 has, then leaves a watch of the
socket behind that points into the stack of a thread that has ended, and the process dies when a host that was lost
comes back.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from threading import enumerate as enumerate_threads
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qs, urlsplit

import libvirt
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, DeferredSemaphore, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.drivers.errors import HostDown, Unreachable
from cloudctl.drivers.libvirt.options import Config

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")

TLS_PORT = 16514
SERVED = b"\1"  # what libvirtd says once it has accepted the certificate of a client
KEEPALIVES = 3  # without an answer
EVENTS = "libvirt events"  # the name of a thread
_starting = Lock()


def ensure_event_loop() -> None:
    """The thread, one a process, in which libvirt's library tells of events and keeps its connections alive."""
    with _starting:
        if any(thread.name == EVENTS for thread in enumerate_threads()):
            return
        libvirt.virEventRegisterDefaultImpl()
        # It prints errors, which are exceptions, too.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        Thread(target=_run_events, name=EVENTS, daemon=True).start()


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def in_thread(reactor: Any, name: str, fn: Callable[..., T], *args: Any, **kwargs: Any) -> Deferred[T]:
    """The result of a call in a new thread, which is left behind if nobody waits for it any more."""
    answer: Deferred[T] = Deferred()
    run = copy_context().run

    def deliver(result: Any) -> None:
        if not answer.called:
            answer.callback(result)

    def work() -> None:
        try:
            result: Any = run(fn, *args, **kwargs)
        except BaseException:  # whoever waits is told
            result = Failure()
        reactor.callFromThread(deliver, result)

    Thread(target=work, name=name, daemon=True).start()
    return answer


class _Lost(libvirt.libvirtError):  # type: ignore[misc]  # the binding has no types
    """The connection broke, or there is no other one."""


class HostConnection:
    """`run(fn, …)` calls `fn(connection, …)` in a thread. It is opened when it is first wanted, and when it broke, and
    others beside it for calls that come meanwhile; these are kept as long as it is.

    `changed(id)` is called in the reactor's thread when a guest's power may have changed.
    """

    def __init__(self, name: str, uri: str, config: Config, reactor: Any, clock: IReactorTime) -> None:
        self.name = name
        self.uri = uri
        self.config = config
        self.reactor = reactor
        self.clock = clock
        self.changed: Callable[[str], object] = lambda _id: None
        # What every new connection is given to do before anybody else has it; in a thread.
        self.prepare: Callable[[Any], object] = lambda _connection: None
        self._connection: Any = None
        self._idle: list[Any] = []  # those that no call is using
        self._opening = DeferredLock()
        self._calls = DeferredSemaphore(config.calls)
        self._not_before = 0.0
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def _is_of_tests(self) -> bool:
        """Whether the host is in this process, and another one for each connection."""
        return self.uri.startswith("test:")

    async def run(
        self,
        fn: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Raises HostDown; Unreachable for an answer that did not come in time; libvirtError, and what `fn` raises."""
        return await self.run_within(self.config.answer_timeout, fn, *args, **kwargs)

    async def run_within(
        self, seconds: float, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        connection, idle = await self.opened(), self._idle
        try:
            return await self._limited(seconds, idle, fn, *args, **kwargs)
        except (TimeoutError, CancelledError):
            raise Unreachable(f"host {self.name} did not answer within {seconds:g} s") from None
        except _Lost as error:
            self._lose(connection, str(error))
            raise HostDown(f"host {self.name} does not answer") from error

    async def apart(self, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`fn` has a connection that nobody else gets, and closes it some day, unless it fails. Raises as `run`."""
        await self.opened()
        given_up, seconds = Event(), self.config.open_timeout + self.config.answer_timeout
        calling = partial(self._apart, given_up, fn, *args, **kwargs)
        try:
            found: T = await self._thrown_away(seconds, calling)
            return found
        except (TimeoutError, CancelledError):
            given_up.set()
            raise Unreachable(f"host {self.name} did not answer within {seconds:g} s") from None
        except OSError as error:
            raise HostDown(f"host {self.name} does not answer") from error

    def _apart(self, given_up: Event, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        connection = self._plain()
        try:
            found = fn(connection, *args, **kwargs)
            if given_up.is_set():
                raise TimeoutError
            return found
        except BaseException:
            connection.close()
            raise

    async def close(self) -> None:
        self._is_closed = True
        connection, self._connection = self._connection, None
        idle, self._idle = self._idle, []
        if connection is not None:
            closing = [connection, *(each for each in idle if each is not connection)]
            await self._thrown_away(self.config.answer_timeout, _close, closing)

    # -- threads

    async def _limited(
        self, seconds: float, idle: list[Any], fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A call that hangs keeps its place until it ends."""
        taking = self._calls.acquire()
        taking.addTimeout(seconds, self.clock)
        await taking
        calling = partial(self._in_place, idle, fn, *args, **kwargs)
        working: Deferred[T] = in_thread(self.reactor, f"libvirt {self.name}", calling)
        working.addTimeout(seconds, self.clock)
        return await working

    def _in_place(self, idle: list[Any], fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._alone(idle, fn, *args, **kwargs)
        finally:
            self.reactor.callFromThread(self._calls.release)

    def alone(self, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread of another host's call, once it is `opened`. Raises as `run`."""
        try:
            return self._alone(self._idle, fn, *args, **kwargs)
        except _Lost as error:
            raise HostDown(f"host {self.name} does not answer") from error

    def _alone(self, idle: list[Any], fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`fn` has a connection for itself."""
        connection = self._one(idle)
        try:
            return fn(connection, *args, **kwargs)
        except libvirt.libvirtError as error:
            # What broke the connection is told in many ways.
            if not _is_alive(connection):
                raise _Lost(str(error)) from error
            raise
        finally:
            if not self._is_of_tests and _is_alive(connection):
                idle.append(connection)

    def _one(self, idle: list[Any]) -> Any:
        with suppress(IndexError):  # no two threads take the same
            return idle[0] if self._is_of_tests else idle.pop()
        try:
            return self._plain()
        except (OSError, libvirt.libvirtError) as error:
            raise _Lost(str(error)) from error

    async def _thrown_away(self, seconds: float, fn: Callable[..., Any], *args: Any) -> Any:
        """Whatever it does, it takes no place, and nobody waits longer. Raises TimeoutError."""
        working = in_thread(self.reactor, f"libvirt {self.name}", fn, *args)
        working.addTimeout(seconds, self.clock)
        return await working

    # -- opening

    async def opened(self) -> Any:
        """libvirt's own, which blocks: for threads.

        Raises HostDown, at once for a while after it could not be opened.
        """
        if self._connection is not None:
            return self._connection
        async with self._opening:
            if self.is_open:
                return self._connection
            if self._is_closed or self.clock.seconds() < self._not_before:
                raise HostDown(f"host {self.name} does not answer")
            given_up = Event()
            try:
                opened = await self._thrown_away(self.config.open_timeout, self._open, given_up)
            except (TimeoutError, OSError, libvirt.libvirtError) as error:
                given_up.set()
                self._not_before = self.clock.seconds() + self.config.retry_seconds
                why = str(error) or f"no answer within {self.config.open_timeout:g} s"
                log.warn("host {name} cannot be reached: {why}", name=self.name, why=why)
                raise HostDown(f"host {self.name} does not answer") from error
            self._connection, self._idle = opened, [opened]
            return opened

    def _open(self, given_up: Event) -> Any:
        """In a thread. Raises OSError, libvirtError."""
        connection = self._plain()
        try:
            connection.registerCloseCallback(self._on_close, connection)
            connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_event, None)
            self.prepare(connection)
            if given_up.is_set():
                raise TimeoutError
        except BaseException:
            connection.close()
            raise
        return connection

    def _plain(self) -> Any:
        """In a thread. Raises as `_open`."""
        ensure_event_loop()
        shake_hands(self.uri, self.config.open_timeout / 2)
        connection = libvirt.open(self.uri)
        try:
            if not self._is_of_tests:
                connection.setKeepAlive(self.config.keepalive_seconds, KEEPALIVES)
        except BaseException:
            connection.close()
            raise
        return connection

    # In the thread of events.

    def _on_event(self, _connection: Any, domain: Any, _event: int, _detail: int, _opaque: None) -> None:
        self.reactor.callFromThread(self._tell, domain.name())

    def _on_close(self, connection: Any, reason: int, opened: Any) -> None:
        self.reactor.callFromThread(self._lose, opened, f"reason {reason}")

    def _tell(self, id: str) -> None:
        self.changed(id)

    def _lose(self, connection: Any, why: str) -> None:
        if connection is self._connection:
            self._connection, self._idle = None, []
            log.warn("the connection to host {name} is lost: {why}", name=self.name, why=why)


def _is_alive(connection: Any) -> bool:
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _close(connections: Sequence[Any]) -> None:
    for each in connections:
        each.close()


def shake_hands(uri: str, seconds: float) -> None:
    """libvirtd is there and takes us; nothing is known of a URI that is not TLS. Raises OSError.

    A daemon that is stopped still has its TCP connections accepted by the kernel, and `libvirt.open` waits for it.
    """
    parts = urlsplit(uri)
    if not parts.scheme.endswith("+tls") or parts.hostname is None:
        return
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    authority, certificate, key = _pki(options.get("pkipath"))
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    if options.get("no_verify") == "1":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = (parts.hostname, parts.port or TLS_PORT)
    with (
        socket.create_connection(address, seconds) as raw,
        context.wrap_socket(raw, server_hostname=parts.hostname) as tls,
    ):
        if tls.recv(1) != SERVED:
            raise ConnectionRefusedError(f"libvirtd at {parts.hostname} does not accept our certificate")


def _pki(path: str | None) -> tuple[Path, Path, Path]:
    """CA, certificate and key, where libvirt looks for them."""
    if path is not None:
        given = Path(path)
        return given / "cacert.pem", given / "clientcert.pem", given / "clientkey.pem"
    pki = Path("/etc/pki")
    return pki / "CA/cacert.pem", pki / "libvirt/clientcert.pem", pki / "libvirt/private/clientkey.pem"
