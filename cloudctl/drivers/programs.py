"""The one way by which drivers run programs: a fixed list, arguments as a list, never a shell.

Drivers of real hosts run as root. What they may start is `PROGRAMS`; each is looked up in `SEARCH_PATH` only, gets a
fixed environment and a time limit, and its arguments are what the driver says: no word is ever split or expanded.
A program that parses users' files runs within `CONFINED`; where it is told of them as `Lent`, it is of a user that can
open these files, and no others.
With `dry_run` what would change something is written to the log and not started; what only reads is run all the same.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from shutil import which
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.drivers.accounts import READER, account, lend
from cloudctl.drivers.errors import DriverError, Unreachable, Unusable

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
    "qemu-storage-daemon": "qemu-system-common",
    "genisoimage": "genisoimage",
    "ipmitool": "ipmitool",
    "ceph": "ceph-common",
    "rbd": "ceph-common",
    "rados": "ceph-common",
}
"""Every program that a driver may run, and the Debian package that has it."""

SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}
TIMEOUT_SECONDS = 60.0
LOOK_SECONDS = 0.01
MIB = 1 << 20
# A VDI of one sector can ask for 2 GiB. glibc reserves 64 MiB of addresses for each thread, unless told not to.
CONFINED: Mapping[str, int] = {"qemu-img": 1536 * MIB}
"""Program that parses users' files → bytes of addresses that it may have (RLIMIT_AS). It may use as many seconds of a
processor as it has time, and leaves no core file."""
CONFINED_ENVIRONMENT = {**ENVIRONMENT, "MALLOC_ARENA_MAX": "4"}
# Files are those of the process that runs it, wherever they are; whose the folders above them are is the operator's.
FILES = "+dac_read_search"
CAPABILITIES: Mapping[str, str] = {
    "qemu-img": FILES,
    "qemu-storage-daemon": FILES,
    # It opens the interface that it is plugged into by its name.
    "qemu-system-x86_64": f"{FILES},+net_admin",
}
"""Program that runs guests or reads what users made → what it keeps of the capabilities of root, for good."""
# For one that becomes another user when it has opened what it needs: with that it loses all that it has kept.
BECOMING = "+setuid,+setgid"
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
class Lent:
    """A file, as an argument: the program is handed it open. One that is `writable` is made if it is not there."""

    path: Path
    writable: bool = False

    def __str__(self) -> str:
        return str(self.path)


Argument = str | Lent


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
        """Run a program that changes nothing; its stdout. In a named network namespace, if one is given.

        Raises ProgramFailed, ProgramTimedOut, and Unusable if the program is not installed.
        """
        with _handed(arguments) as (words, files):
            return await self._run(name, _command(name, words, namespace, files=files), stdin, timeout, files=files)

    async def change(
        self,
        name: str,
        *arguments: Argument,
        stdin: bytes = b"",
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        file_bytes: int | None = None,
    ) -> bytes:
        """Run a program that changes something; its stdout, which a dry run leaves empty. Raises as `read`.

        `file_bytes`: how large a file a program of `CONFINED` may write (RLIMIT_FSIZE).
        """
        if self.dry_run:
            command = _command(name, [str(each) for each in arguments], namespace)
            _log.info("would run {command}{stdin}", command=shlex.join(command), stdin=_indented(stdin))
            return b""
        with _handed(arguments) as (words, files):
            command = _command(name, words, namespace, files=files)
            _log.debug("runs {command}{stdin}", command=shlex.join(command), stdin=_indented(stdin))
            return await self._run(name, command, stdin, timeout, file_bytes, files)

    async def start(
        self,
        name: str,
        *arguments: str,
        ready: Callable[[int], Awaitable[bool]],
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        becomes_another: bool = False,
    ) -> None:
        """Start a program that goes on when this process ends, in a session of its own.

        `becomes_another`: a program of `CAPABILITIES` that becomes another user by itself.

        `ready` is asked with its process id until it says so. After that nobody reads what the program writes. Raises
        ProgramFailed if it ends before, ProgramTimedOut if it is not ready in time, and as `read`.
        """
        command = ["setsid", *_command(name, arguments, namespace, BECOMING if becomes_another else "")]
        if self.dry_run:
            _log.info("would start {command}{stdin}", command=shlex.join(command), stdin="")
            return
        _log.debug("starts {command}", command=shlex.join(command))
        require(name)
        running = _Running(name, b"")
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            process = self._spawn(running, command, ENVIRONMENT, {0: nothing, 1: nothing, 2: "r"})
        finally:
            os.close(nothing)
        limit = self.clock.callLater(timeout, running.kill, process)
        try:
            while not running.ended.called and not await ready(process.pid):
                await deferLater(self.clock, LOOK_SECONDS)
            if running.ended.called:
                await running.ended
                raise ProgramFailed(name, 0, "it has ended")
        finally:
            if limit.active():
                limit.cancel()
            # How it ends later is not the business of who started it.
            running.ended.addErrback(lambda _: None)
            process.loseConnection()

    async def _run(
        self,
        name: str,
        command: Sequence[str],
        stdin: bytes,
        timeout: float,
        file_bytes: int | None = None,
        files: Sequence[int] = (),
    ) -> bytes:
        require(name)
        environment = ENVIRONMENT
        if name in CONFINED:
            command = [*_limits(CONFINED[name], timeout, file_bytes), *command]
            environment = CONFINED_ENVIRONMENT
        running = _Running(name, stdin)
        process = self._spawn(
            running, command, environment, {**PIPES, **dict(enumerate(files, len(PIPES)))} if files else None
        )
        limit = self.clock.callLater(timeout, running.kill, process)
        try:
            return await running.ended
        finally:
            if limit.active():
                limit.cancel()

    def _spawn(
        self,
        running: _Running,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Mapping[int, int | str] | None,
    ) -> Any:
        executable = which(command[0], path=SEARCH_PATH)
        if executable is None:
            require(command[0])
            raise AssertionError("a program cannot be both missing and installed")
        # No working directory is set: with one, Twisted forks, which takes five times as long as posix_spawn.
        try:
            return self.reactor.spawnProcess(
                running, executable, [executable, *command[1:]], environment, childFDs=descriptors
            )
        except OSError as error:
            # No memory, no descriptors or no process numbers are left just now.
            raise Unreachable(f"{running.name} cannot be started: {error.strerror}") from error


def run_blocking(name: str, *arguments: str, stdin: bytes = b"", timeout: float = TIMEOUT_SECONDS) -> bytes:
    """As `Programs.change`, for drivers whose methods block: in a thread. Not of what reads users' files."""
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
        # A child of it may still hold its pipes: nobody waits for those.
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


@contextmanager
def _handed(arguments: Sequence[Argument]) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """The words that a program gets, and descriptors of the files that it is handed, behind its pipes.

    A process that is not root's can only name them.

    Raises DriverError.
    """
    words: list[str] = []
    files: list[int] = []
    with ExitStack() as stack:
        for each in arguments:
            if isinstance(each, str) or os.geteuid() != 0:
                words.append(str(each))
                continue
            try:
                descriptor = os.open(each.path, os.O_RDWR | os.O_CREAT if each.writable else os.O_RDONLY, 0o600)
                stack.callback(os.close, descriptor)
                lend(descriptor, account(READER), writable=each.writable)
            except OSError as error:
                raise DriverError(f"{each.path} cannot be opened: {error.strerror}") from error
            words.append(f"/proc/self/fd/{len(PIPES) + len(files)}")
            files.append(descriptor)
        yield words, files


def _command(
    name: str,
    arguments: Sequence[str],
    namespace: str | None,
    also: str = "",
    files: Sequence[int] = (),
) -> list[str]:
    if name not in PROGRAMS:
        raise ValueError(f"drivers are not allowed to run {name!r}")
    command = [*(_no_rights() if files else _rights(name, also)), name, *arguments]
    return command if namespace is None else ["ip", "netns", "exec", namespace, *command]


def _rights(name: str, also: str) -> list[str]:
    """It keeps no right that it does not need, and gets none by what it runs."""
    if name not in CAPABILITIES or os.geteuid() != 0:
        return []
    kept = ",".join(filter(None, ("--bounding-set=-all", CAPABILITIES[name], also)))
    return ["setpriv", "--no-new-privs", "--clear-groups", "--inh-caps=-all", kept]


def _no_rights() -> list[str]:
    """Of a user that has nothing but the files that it is handed."""
    reader = account(READER)
    becoming = (f"--reuid={reader.uid}", f"--regid={reader.gid}", "--clear-groups")
    return ["setpriv", "--no-new-privs", *becoming, "--inh-caps=-all", "--bounding-set=-all"]


def _limits(addresses: int, seconds: float, file_bytes: int | None) -> list[str]:
    words = ["prlimit", f"--as={addresses}", f"--cpu={ceil(seconds)}", "--core=0"]
    return words if file_bytes is None else [*words, f"--fsize={file_bytes}"]


def _indented(stdin: bytes) -> str:
    return "".join(f"\n    {line}" for line in stdin.decode("utf-8", "replace").splitlines())
