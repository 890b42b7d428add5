"""The line of a process to the others on one PostgreSQL: a dedicated connection that stays open.

Processes announce what happened and hear it on their lines (LISTEN, NOTIFY), so that none has to poll all the time. A
process that holds its name on its line (an advisory lock of the session) is alive: PostgreSQL sees the connection close
and releases the name at once, even if the process was killed. A notice may be lost with the connection, so nothing
depends on notices alone.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from sqlalchemy import Engine
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger

log = Logger()

# PostgreSQL's channel, to which all processes listen. A payload lists our own channels that something happened on.
NOTICES = "cloudctl"
SAY = f"SELECT pg_notify('{NOTICES}', %s)"
# The advisory lock that stands for a name; `tasks.peers` computes it in the same way.
HOLD = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"

# Seconds. Between two attempts to hold a name that an ended connection of ours still holds.
AGAIN = 1.0
# Before connecting again: short at first, since others take a process without a line for dead, and twice as long each
# time that the new connection does not last either.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
LASTING = 10.0
# Notices that come within this time of the last one are sent together, so that many commits do not cost one each.
PAUSE = 0.02

# The server also notices a machine that is gone. Notices of other sessions' commits need not wait for the disk.
SETTINGS = (
    "SET application_name = 'cloudctl line'",
    "SET tcp_keepalives_idle = 3",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 3",
    "SET synchronous_commit = off",
    f"LISTEN {NOTICES}",
)


class Line:
    """Announces commits and hears of others'. Its thread owns the connection; `say` and `stop` set a mark and wake it.

    `heard(channels)`, for notices of other processes, and `changed(up)`, when the line opens or closes, are called in
    the reactor's thread.
    """

    def __init__(
        self,
        engine: Engine,
        reactor: IReactorFromThreads,
        clock: IReactorTime,
        heard: Callable[[Iterable[str]], object],
        changed: Callable[[bool], object],
    ) -> None:
        self._engine = engine
        self._reactor = reactor
        self._clock = clock
        self._heard = heard
        self._changed = changed
        self._names: list[str] = []
        self._lock = threading.Lock()
        self._words: set[str] = set()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def hold(self, name: str) -> None:
        """Hold this name for as long as the line is open. Call it before the start."""
        self._names.append(name)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="database line", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send what is left to send, and close. Blocks until then, but no longer than 5 seconds."""
        self._stopping = True
        self._ring()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self._wake.close()

    def say(self, channels: Iterable[str]) -> None:
        """Notify the other processes, soon. What cannot be sent is dropped: they also look by themselves."""
        with self._lock:
            first = not self._words
            self._words.update(channels)
        if first:
            self._ring()

    def _ring(self) -> None:
        try:
            self._wake.send(b"\0")
        except BlockingIOError:  # the thread has been woken already
            pass

    # -- in the line's thread

    def _run(self) -> None:
        told = False  # whether the log says that the line is down
        pause = FIRST_PAUSE
        while not self._stopping:
            began = self._clock.seconds()
            try:
                with closing(self._connect()) as driver:
                    self._open(driver)
            except Exception as error:  # whatever the driver raises: tried again, and logged once
                if self._clock.seconds() - began > LASTING:
                    told, pause = False, FIRST_PAUSE
                told = self._tell_trouble(told, error)
                self._sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        self._woken.close()

    def _open(self, driver: Any) -> None:
        self._reactor.callFromThread(self._changed, True)
        try:
            self._serve(driver)
        finally:
            self._reactor.callFromThread(self._changed, False)

    def _tell_trouble(self, told: bool, error: Exception) -> bool:
        if not told and not self._stopping:
            why = str(error).strip().partition("\n")[0]
            log.warn("the connection to the other processes is down; polling instead: {why}", why=why)
        return True

    def _sleep(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            end = self._clock.seconds() + seconds
            while not self._stopping and (left := end - self._clock.seconds()) > 0:
                if selector.select(left):
                    self._drain()

    def _connect(self) -> Any:
        """psycopg's connection, in autocommit, that listens and holds the names. Raises what the driver raises."""
        pooled = self._engine.raw_connection()
        driver: Any = pooled.driver_connection
        pooled.detach()
        try:
            driver.autocommit = True
            own = driver.info.backend_pid
            driver.add_notify_handler(lambda notice: self._hear(own, notice.pid, notice.payload))
            for setting in SETTINGS:
                driver.execute(setting)
            for name in self._names:
                while not self._stopping and not driver.execute(HOLD, (name,)).fetchone()[0]:
                    # The connection before this one still has it: the server has not missed that yet.
                    self._sleep(AGAIN)
        except BaseException:
            driver.close()
            raise
        return driver

    def _serve(self, driver: Any) -> None:
        """Receive and send notices until the connection breaks or the line is stopped."""
        with selectors.DefaultSelector() as selector:
            selector.register(driver.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                stopping = self._stopping
                self._say_all(driver)
                if stopping:
                    return
                for key, _events in selector.select():
                    if key.fileobj is self._woken:
                        self._drain()
                        continue
                    driver.pgconn.consume_input()
                    while (notice := driver.pgconn.notifies()) is not None:
                        self._hear(driver.info.backend_pid, notice.be_pid, notice.extra.decode())

    def _say_all(self, driver: Any) -> None:
        with self._lock:
            words, self._words = self._words, set()
        if words:
            driver.execute(SAY, (",".join(sorted(words)),))
            if not self._stopping:
                time.sleep(PAUSE)

    def _hear(self, own: int, sender: int, payload: str) -> None:
        """Pass on a notice, unless it is our own: then `sender` is our session, `own`."""
        if sender != own:
            self._reactor.callFromThread(self._heard, payload.split(","))

    def _drain(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
