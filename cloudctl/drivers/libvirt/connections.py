"""The connection to the libvirtd of one host: its calls have threads of their own and deadlines, so that a host that
hangs blocks nothing else.

libvirt's library blocks. A call to a stopped daemon ends when keepalives go unanswered; `open` has no keepalive yet, so
a bounded handshake comes first, and each call is in a thread that can be abandoned.

No two threads use one connection at a time: the library before 9.3, which Debian 12 has, would leave a watch of the
socket behind that points into the stack of an ended thread, and the process would die when a lost host comes back.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
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

from cloudctl.drivers import client_certificates
from cloudctl.drivers.errors import HostDown, Unreachable
from cloudctl.drivers.libvirt import waiting
from cloudctl.drivers.libvirt.options import Config
from cloudctl.trouble import Trouble

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")

TLS_PORT = 16514
SERVED = b"\1"  # what libvirtd sends once it has accepted the certificate of a client
KEEPALIVES = 3  # without an answer
CLOSED = {  # why the library closed a connection
    libvirt.VIR_CONNECT_CLOSE_REASON_ERROR: "an error on the line",
    libvirt.VIR_CONNECT_CLOSE_REASON_EOF: "libvirtd closed it",
    libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE: f"{KEEPALIVES} keepalives without an answer",
}
EVENTS = "libvirt events"  # the name of a thread
_starting = Lock()


def ensure_event_loop() -> None:
    """The thread, one per process, in which libvirt's library reports events and keeps its connections alive."""
    with _starting:
        if any(thread.name == EVENTS for thread in enumerate_threads()):
            return
        libvirt.virEventRegisterDefaultImpl()
        # The library would print errors, which are raised as exceptions anyway.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        Thread(target=_run_events, name=EVENTS, daemon=True).start()


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def in_thread(reactor: Any, name: str, fn: Callable[..., T], *args: Any, **kwargs: Any) -> Deferred[T]:
    """The result of a call in a new thread, which is abandoned if nobody waits for it any more. Raises Unreachable."""
    return _in_thread(reactor, name, partial(fn, *args, **kwargs), lambda _late: None)


def _in_thread(reactor: Any, name: str, fn: Callable[[], T], late: Callable[[T], object]) -> Deferred[T]:
    """`late` gets, in the reactor's thread, a result that nobody waits for any more."""
    answer: Deferred[T] = Deferred()
    run = copy_context().run

    def deliver(result: Any) -> None:
        if not answer.called:
            answer.callback(result)
        elif not isinstance(result, Failure):
            late(result)

    def work() -> None:
        try:
            result: Any = run(fn)
        except BaseException:  # passed to the caller that waits
            result = Failure()
        reactor.callFromThread(deliver, result)

    try:
        Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        raise Unreachable(f"{name}: {error}") from error
    return answer


class _Lost(libvirt.libvirtError):  # type: ignore[misc]  # the binding has no types
    """The connection broke, or no further one could be opened."""


class HostConnection:
    """`run(fn, …)` calls `fn(connection, …)` in a thread. The connection is opened when it is first needed, and again
    after it broke; further ones are opened for concurrent calls and kept as long as the first one.

    `changed(id)` is called in the reactor's thread when a guest's power may have changed.
    """

    def __init__(self, name: str, uri: str, config: Config, reactor: Any, clock: IReactorTime) -> None:
        self.name = name
        self.uri = uri
        self.config = config
        self.reactor = reactor
        self.clock = clock
        self.changed: Callable[[str], object] = lambda _id: None
        # Called with every new connection before anybody else gets it; in a thread.
        self.prepare: Callable[[Any], object] = lambda _connection: None
        self._connection: Any = None
        self._idle: list[Any] = []  # connections that no call is using
        self._opening = DeferredLock()
        self._calls = DeferredSemaphore(config.calls)
        self._not_before = 0.0
        self._away = Trouble(log, f"host {name} does not answer", f"host {name} answers again")
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def _is_of_tests(self) -> bool:
        """Whether the host is libvirt's test driver: inside this process, and a different host for each connection."""
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
        """`fn` gets a connection of its own, to be closed by the caller later unless `fn` fails. Raises as `run`."""
        await self.opened()
        given_up, seconds = Event(), self.config.open_timeout + self.config.answer_timeout
        calling = partial(self._apart, given_up, fn, *args, **kwargs)
        try:
            _connection, found = await self._thrown_away(seconds, calling, lambda late: self._drop(late[0]))
            return found
        except (TimeoutError, CancelledError):
            given_up.set()
            raise Unreachable(f"host {self.name} did not answer within {seconds:g} s") from None
        except OSError as error:
            raise HostDown(f"host {self.name} does not answer") from error

    def _apart(
        self, given_up: Event, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Any, T]:
        connection = self._plain()
        try:
            found = fn(connection, *args, **kwargs)
            if given_up.is_set():
                raise TimeoutError
            return connection, found
        except BaseException:
            connection.close()
            raise

    async def close(self) -> None:
        self._is_closed = True
        connection, self._connection = self._connection, None
        idle, self._idle = self._idle, []
        if connection is not None:
            closing = [connection, *(each for each in idle if each is not connection)]
            await self._thrown_away(self.config.answer_timeout, partial(_close, closing))

    def _drop(self, connection: Any) -> None:
        """Close a connection that came too late: the thread saw nobody give up, and the reactor had done so."""
        ended = in_thread(self.reactor, f"libvirt {self.name}", connection.close)
        ended.addErrback(lambda why: log.debug("a late connection: {why}", why=why.getErrorMessage()))

    # -- threads

    async def _limited(
        self, seconds: float, idle: list[Any], fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A call that hangs occupies its place until it ends."""
        taking = self._calls.acquire()
        taking.addTimeout(seconds, self.clock)
        await taking
        nobody_waits = Event()
        calling = partial(self._in_place, nobody_waits, idle, fn, *args, **kwargs)
        try:
            working: Deferred[T] = in_thread(self.reactor, f"libvirt {self.name}", calling)
        except BaseException:
            # There is no thread that would release the place.
            self._calls.release()
            raise
        working.addTimeout(seconds, self.clock)
        try:
            return await working
        except (TimeoutError, CancelledError):
            nobody_waits.set()
            raise

    def _in_place(
        self,
        nobody_waits: Event,
        idle: list[Any],
        fn: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        # This thread has a context of its own.
        waiting.given_up.set(nobody_waits)
        try:
            return self._alone(idle, fn, *args, **kwargs)
        finally:
            self.reactor.callFromThread(self._calls.release)

    def alone(self, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Called in the thread of another host's call, once this one is `opened`. Raises as `run`."""
        try:
            return self._alone(self._idle, fn, *args, **kwargs)
        except _Lost as error:
            raise HostDown(f"host {self.name} does not answer") from error

    def _alone(self, idle: list[Any], fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `fn` with a connection that no other call uses meanwhile."""
        connection = self._one(idle)
        try:
            return fn(connection, *args, **kwargs)
        except libvirt.libvirtError as error:
            # A broken connection is reported in many ways.
            if not _is_alive(connection):
                raise _Lost(str(error)) from error
            raise
        finally:
            if not self._is_of_tests and _is_alive(connection):
                idle.append(connection)

    def _one(self, idle: list[Any]) -> Any:
        with suppress(IndexError):  # atomic: no two threads take the same one
            return idle[0] if self._is_of_tests else idle.pop()
        try:
            return self._plain()
        except (OSError, libvirt.libvirtError) as error:
            raise _Lost(str(error)) from error

    async def _thrown_away(
        self, seconds: float, fn: Callable[[], T], late: Callable[[T], object] = lambda _late: None
    ) -> T:
        """Call `fn` without occupying a place, and wait no longer than this. Raises TimeoutError."""
        working = _in_thread(self.reactor, f"libvirt {self.name}", fn, late)
        working.addTimeout(seconds, self.clock)
        return await working

    # -- opening

    async def opened(self) -> Any:
        """libvirt's own connection, which blocks: for threads.

        Raises HostDown; for a while after a failed attempt it does so at once.
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
                opened = await self._thrown_away(self.config.open_timeout, partial(self._open, given_up), self._drop)
            except (TimeoutError, OSError, libvirt.libvirtError) as error:
                given_up.set()
                self._not_before = self.clock.seconds() + self.config.retry_seconds
                why = str(error) or f"no answer within {self.config.open_timeout:g} s"
                self._away.is_met(why)
                raise HostDown(f"host {self.name} does not answer") from error
            self._connection, self._idle = opened, [opened]
            self._away.is_over()
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

    # In any thread but the reactor's.

    def tell_of(self, ids: Iterable[str]) -> None:
        """The power of these guests may have changed."""
        for id in ids:
            self.reactor.callFromThread(self._tell, id)

    # In the event thread.

    def _on_event(self, _connection: Any, domain: Any, _event: int, _detail: int, _opaque: None) -> None:
        self.tell_of([domain.name()])

    def _on_close(self, connection: Any, reason: int, opened: Any) -> None:
        self.reactor.callFromThread(self._lose, opened, CLOSED.get(reason, f"reason {reason}"))

    def _tell(self, id: str) -> None:
        self.changed(id)

    def _lose(self, connection: Any, why: str) -> None:
        if connection is self._connection:
            self._connection, self._idle = None, []
            self._away.is_met(f"the connection is lost: {why}")


def _is_alive(connection: Any) -> bool:
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _close(connections: Sequence[Any]) -> None:
    for each in connections:
        each.close()


def is_tls(uri: str) -> bool:
    """Whether it names a host that is reached by TLS."""
    parts = urlsplit(uri)
    return parts.scheme.endswith("+tls") and parts.hostname is not None


def tls_context(uri: str) -> ssl.SSLContext:
    """With our certificate, from where libvirt looks for it. Raises OSError, which names the file at fault."""
    options = {name: values[0] for name, values in parse_qs(urlsplit(uri).query).items()}
    context = client_certificates.context(*_pki(options.get("pkipath")))
    if options.get("no_verify") == "1":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def shake_hands(uri: str, seconds: float) -> None:
    """Check that libvirtd answers and accepts us; does nothing for a URI that is not TLS. Raises OSError.

    The kernel still accepts TCP connections for a stopped daemon, and `libvirt.open` would wait for it.
    """
    parts = urlsplit(uri)
    if not is_tls(uri) or parts.hostname is None:
        return
    context = tls_context(uri)
    address = (parts.hostname, parts.port or TLS_PORT)
    with (
        socket.create_connection(address, seconds) as raw,
        context.wrap_socket(raw, server_hostname=parts.hostname) as tls,
    ):
        if tls.recv(1) != SERVED:
            raise ConnectionRefusedError(f"libvirtd at {parts.hostname} does not accept our certificate")


def _pki(path: str | None) -> tuple[Path, Path, Path]:
    """The paths of CA, certificate and key, where libvirt looks for them."""
    if path is not None:
        given = Path(path)
        return given / "cacert.pem", given / "clientcert.pem", given / "clientkey.pem"
    pki = Path("/etc/pki")
    return pki / "CA/cacert.pem", pki / "libvirt/clientcert.pem", pki / "libvirt/private/clientkey.pem"
