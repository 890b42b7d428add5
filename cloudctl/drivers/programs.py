"""The only way drivers run programs: from a fixed list, with arguments as a list, never through a shell.

Drivers of real hosts run as root. They may start only `PROGRAMS`; each is looked up in `SEARCH_PATH` only, gets a
fixed environment and a time limit, and exactly the arguments that the driver gives: no word is ever split or expanded.
A program whose call is cancelled is killed.
A program that parses or runs users' files is confined (`confinement`), and opens only what it is `handed`.
With `dry_run` a program that would change something is logged and not started; one that only reads is still run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from shutil import which
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.drivers import confinement
from cloudctl.drivers.confinement import confined, is_of_another_user
from cloudctl.drivers.errors import DriverError, Unreachable, Unusable
from cloudctl.drivers.handed import FIRST, Argument, described, handed

PROGRAMS: Mapping[str, str] = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "conntrack": "conntrack",
    "sysctl": "procps",
    "prlimit": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
    "dnsmasq": "dnsmasq-base",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "qemu-nbd": "qemu-utils",
    "qemu-storage-daemon": "qemu-system-common",
    "genisoimage": "genisoimage",
    "ipmitool": "ipmitool",
    "ceph": "ceph-common",
    "rbd": "ceph-common",
    "rados": "ceph-common",
    "ovs-vsctl": "openvswitch-switch",
}
"""Every program that a driver may run, and the Debian package that has it."""

SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}
TIMEOUT_SECONDS = 60.0
LOOK_SECONDS = 0.01
MESSAGE_LIMIT = 500  # bytes of a program's complaint that go into an error

PIPES: Mapping[int, int | str] = {0: "w", 1: "r", 2: "r"}

_log = Logger()


class ProgramFailed(DriverError):
    """A program ended with a code other than 0. The message holds the end of what it wrote to stderr."""

    def __init__(self, name: str, code: int | None, complaint: str) -> None:
        super().__init__(f"{name} failed ({'killed' if code is None else code}): {complaint}")
        self.name = name
        self.code = code
        self.complaint = complaint


class ProgramTimedOut(Unreachable):
    """A program did not end in time and was killed. What it did is unknown; ensure-steps run it again."""


def require(*names: str) -> None:
    """Raise Unusable, with the Debian packages to install, unless all of these programs are there."""
    missing = {PROGRAMS[name] for name in names if which(name, path=SEARCH_PATH) is None}
    if missing:
        raise Unusable(f"programs are missing; install the Debian packages {', '.join(sorted(missing))}")


@frozen
class Programs:
    """Runs the programs of `PROGRAMS` on a reactor."""

    reactor: IReactorProcess
    clock: IReactorTime
    dry_run: bool = False

    async def read(
        self,
        name: str,
        *arguments: Argument,
        stdin: bytes = b"",
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> bytes:
        """Run a program that changes nothing and return its stdout. In a named network namespace, if one is given.

        Raises ProgramFailed, ProgramTimedOut, and Unusable if the program is not installed.
        """
        with handed(arguments, as_others=is_of_another_user(name)) as (words, files):
            command = _command(name, words, namespace, confined(name, timeout))
            return await self._run(name, command, stdin, timeout, files)

    async def change(
        self,
        name: str,
        *arguments: Argument,
        stdin: bytes = b"",
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        file_bytes: int | None = None,
    ) -> bytes:
        """Run a program that changes something and return its stdout, empty in a dry run. Raises as `read`.

        `file_bytes`: how large a file a confined program may write (RLIMIT_FSIZE).
        """
        if self.dry_run:
            command = _command(name, described(arguments), namespace)
            _log.info("would run {command}{stdin}", command=shlex.join(command), stdin=_indented(stdin))
            return b""
        with handed(arguments, as_others=is_of_another_user(name)) as (words, files):
            command = _command(name, words, namespace, confined(name, timeout, file_bytes))
            _log.debug("runs {command}{stdin}", command=shlex.join(command), stdin=_indented(stdin))
            return await self._run(name, command, stdin, timeout, files)

    async def start(
        self,
        name: str,
        *arguments: Argument,
        ready: Callable[[int], Awaitable[bool]],
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        becomes_another: bool = False,
        held: Sequence[int] = (),
    ) -> None:
        """Start a program that outlives this process, in a session of its own.

        `becomes_another`: it becomes another user by itself. `held`: descriptors that it keeps open as long as it runs.

        `ready` is called with its process id until it returns true. After that nobody reads what the program writes.
        Raises ProgramFailed if it ends before that, ProgramTimedOut if it is not ready in time, and as `read`.
        """
        if self.dry_run:
            told = _command(name, described(arguments), namespace)
            _log.info("would start {command}{stdin}", command=shlex.join(told), stdin="")
            return
        require(name)
        running = _Running(name, b"")
        before = confined(name, timeout, becomes=becomes_another)
        with handed(arguments, as_others=is_of_another_user(name)) as (words, files):
            command = ["setsid", *_command(name, words, namespace, before)]
            _log.debug("starts {command}", command=shlex.join(command))
            nothing = os.open(os.devnull, os.O_RDWR)
            try:
                behind = dict(enumerate((*files, *held), FIRST))
                process = self._spawn(running, command, name, {0: nothing, 1: nothing, 2: "r", **behind})
            finally:
                os.close(nothing)
        limit = self.clock.callLater(timeout, running.kill, process)
        try:
            while not running.ended.called and not await ready(process.pid):
                await deferLater(self.clock, LOOK_SECONDS)
            if running.ended.called:
                await running.ended
                raise ProgramFailed(name, 0, "it has ended")
        except CancelledError:
            running.kill(process)
            raise
        finally:
            if limit.active():
                limit.cancel()
            # How it ends later does not concern the caller that started it.
            running.ended.addErrback(lambda _: None)
            process.loseConnection()

    async def _run(
        self, name: str, command: Sequence[str], stdin: bytes, timeout: float, files: Sequence[int]
    ) -> bytes:
        require(name)
        running = _Running(name, stdin)
        process = self._spawn(running, command, name, {**PIPES, **dict(enumerate(files, FIRST))} if files else None)
        limit = self.clock.callLater(timeout, running.kill, process)
        try:
            return await running.ended
        except CancelledError:
            # Its time limit ends here, and whoever undoes its work must not meet it.
            running.kill(process)
            raise
        finally:
            if limit.active():
                limit.cancel()

    def _spawn(
        self,
        running: _Running,
        command: Sequence[str],
        name: str,
        descriptors: Mapping[int, int | str] | None,
    ) -> Any:
        environment = {**ENVIRONMENT, **confinement.environment(name)}
        executable = which(command[0], path=SEARCH_PATH)
        if executable is None:
            require(command[0])
            raise AssertionError("a program cannot be both missing and installed")
        # No working directory is set: with one, Twisted would fork, which takes five times as long as posix_spawn.
        try:
            return self.reactor.spawnProcess(
                running, executable, [executable, *command[1:]], environment, childFDs=descriptors
            )
        except OSError as error:
            # Memory, descriptors or process numbers have just run out.
            raise Unreachable(f"{running.name} cannot be started: {error.strerror}") from error


def run_blocking(name: str, *arguments: str, stdin: bytes = b"", timeout: float = TIMEOUT_SECONDS) -> bytes:
    """As `Programs.change`, for drivers whose methods block: in a thread. Not for programs that read users' files."""
    require(name)
    executable = which(name, path=SEARCH_PATH)
    command = [executable or name, *_command(name, arguments, None)[1:]]
    _log.debug("runs {command}{stdin}", command=shlex.join(command), stdin="")
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, env=dict(ENVIRONMENT), timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise ProgramTimedOut(f"{name} did not finish in time") from error
    except OSError as error:
        raise Unreachable(f"{name} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        complaint = done.stderr[-MESSAGE_LIMIT:].decode("utf-8", "replace").strip()
        raise ProgramFailed(name, done.returncode, complaint)
    return done.stdout


class _Running(ProcessProtocol):
    """One program, from its start until it has ended and its output is read."""

    def __init__(self, name: str, stdin: bytes) -> None:
        self.name = name
        self.stdin = stdin
        self.ended: Deferred[bytes] = Deferred()
        self._stdout: list[bytes] = []
        self._stderr = b""
        self._timed_out = False

    def connectionMade(self) -> None:
        if self.stdin:
            self.transport.write(self.stdin)  # type: ignore[union-attr]  # set by spawnProcess before this call
        self.transport.closeStdin()  # type: ignore[union-attr]  # as above

    def outReceived(self, data: bytes) -> None:
        self._stdout.append(data)

    def errReceived(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MESSAGE_LIMIT:]

    def kill(self, process: Any) -> None:
        self._timed_out = True
        with suppress(ProcessExitedAlready):
            process.signalProcess("KILL")
        # A child of the program may still hold its pipes; do not wait for that.
        process.loseConnection()

    def processEnded(self, reason: Failure) -> None:
        complaint = self._stderr.decode("utf-8", "replace").strip()
        if self._timed_out:
            self.ended.errback(Failure(ProgramTimedOut(f"{self.name} did not finish in time: {complaint}")))
        elif reason.check(ProcessDone):
            self.ended.callback(b"".join(self._stdout))
        else:
            code = getattr(reason.value, "exitCode", None)
            self.ended.errback(Failure(ProgramFailed(self.name, code, complaint)))


def _command(name: str, arguments: Sequence[str], namespace: str | None, before: Sequence[str] = ()) -> list[str]:
    if name not in PROGRAMS:
        raise ValueError(f"drivers are not allowed to run {name!r}")
    command = [*before, name, *arguments]
    return command if namespace is None else ["ip", "netns", "exec", namespace, *command]


def _indented(stdin: bytes) -> str:
    return "".join(f"\n    {line}" for line in stdin.decode("utf-8", "replace").splitlines())
