"""The line of a process to the others on one PostgreSQL: a connection of its own that stays open.

What happened is said and heard on it (LISTEN, NOTIFY), so that nobody has to look all the time. Whoever holds a name on
it (an advisory lock of the session) is there: PostgreSQL sees a connection close, and lets go of the name at once, also
if the process was killed. A word may be lost with the connection, so it is never all that leads to something.
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

# Of PostgreSQL: where all processes listen. A payload is the channels that something happened on.
NOTICES = "cloudctl"
SAY = f"SELECT pg_notify('{NOTICES}', %s)"
# The name's place among PostgreSQL's advisory locks; `tasks.peers` asks for it in the same way.
HOLD = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"

# Seconds. Between two attempts to hold a name that an ended connection of ours still holds.
AGAIN = 1.0
# Before a connection follows one that failed: short at first, since others take a process without a line for dead, and
# twice as long each time that the next one does not last either.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
LASTING = 10.0
# What is said within this time of the last word is said together, so that many commits do not cost a word each.
PAUSE = 0.02

# The server hears of a machine that is gone, too. Another session's words need not wait for the disk.
SETTINGS = (
    "SET application_name = 'cloudctl line'",
    "SET tcp_keepalives_idle = 3",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 3",
    "SET synchronous_commit = off",
    f"LISTEN {NOTICES}",
)


class Line:
    """`heard(channels)` and `changed(up)` are called in the reactor's thread: words of others, and whether it is open.

    Its thread owns the connection; `say` and `stop` leave a mark and wake it.
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
        """Hold this name for as long as the line is open. Before the start."""
        self._names.append(name)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="database line", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say what is left to say, and close. Blocks for that long, while the server answers."""
        self._stopping = True
        self._ring()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self._wake.close()

    def say(self, channels: Iterable[str]) -> None:
        """Tell the other processes, soon. What cannot be said is dropped: they look by themselves, too."""
        with self._lock:
            first = not self._words
            self._words.update(channels)
        if first:
            self._ring()

    def _ring(self) -> None:
        try:
            self._wake.send(b"\0")
        except BlockingIOError:  # it is rung already
            pass

    # -- in the line's thread

    def _run(self) -> None:
        told = False  # in the log, that it is not open
        pause = FIRST_PAUSE
        while not self._stopping:
            began = self._clock.seconds()
            try:
                with closing(self._connect()) as driver:
                    self._open(driver)
            except Exception as error:  # whatever the driver raises: it is tried again, and said once
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
                    # The connection before this one: the server has not missed it yet.
                    self._sleep(AGAIN)
        except BaseException:
            driver.close()
            raise
        return driver

    def _serve(self, driver: Any) -> None:
        """Hear and say until the connection breaks or the line is stopped."""
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
        """A word, which is our own if `sender` is the session that is ours."""
        if sender != own:
            self._reactor.callFromThread(self._heard, payload.split(","))

    def _drain(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
