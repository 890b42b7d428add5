"""What a fake guest writes to its serial console, and the cable to a client that reads it or sees its screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IConsumer, IProtocol, IPushProducer, ITransport
from twisted.python.failure import Failure
from zope.interface import implementer

from cloudctl.drivers.specs import GuestSpec

KEPT = 65536  # characters of a console that are kept

POWER_DOWN = "[ ok ] Stopped all services.\nreboot: Power down\n"
POWER_LOST = "-- power cut --\n"
RESTART = "[ ok ] Stopped all services.\nreboot: Restarting system\n"
RESET = "-- reset --\n"
SUSPENDED = "PM: suspend entry (deep)\n"
RESUMED = "PM: resume devices took 0.021 seconds\n"
DUMPED = "Uhhuh. NMI received for unknown reason 20 on CPU 0.\nkdump: saving vmcore complete\n"
PANIC = "Kernel panic - not syncing: Fatal exception\n"


def boot(spec: GuestSpec) -> str:
    """A whole boot, from the kernel to the login prompt."""
    memory = f"[    0.004000] Memory: {spec.memory_mib * 1024}K available, {spec.vcpus} CPUs"
    disks = [f"[    0.41{n}000] virtio_blk: volume {each.volume_id}" for n, each in enumerate(spec.volumes)]
    nics = [f"[    0.52{n}000] virtio_net eth{n}: {each.mac}" for n, each in enumerate(spec.ports)]
    login = f"{spec.hostname or spec.name} login: "
    kernel = "[    0.000000] Linux version 6.1.0 (cloudctl fake guest)"
    command = "[    0.000000] Command line: root=/dev/vda console=ttyS0"
    ready = "[    1.300000] Reached target Multi-User System."
    return "\n".join(["", kernel, command, memory, *disks, *nics, ready, "", login])


def grown(volume_id: str, size_gib: int) -> str:
    return f"virtio_blk: volume {volume_id}: new size: {size_gib} GiB\n"


def add(log: str, text: str) -> str:
    """The log with a power event added on a line of its own."""
    gap = "" if log.endswith("\n") or not log or text.startswith("\n") else "\n"
    return (log + gap + text)[-KEPT:]


def tail(log: str, lines: int | None) -> str:
    if lines is None:
        return log
    return "".join(log.splitlines(keepends=True)[-lines:]) if lines > 0 else ""


def news(before: str, after: str) -> str:
    """What was added to the log; if its beginning was dropped meanwhile, what follows its old end."""
    if after.startswith(before):
        return after[len(before) :]
    end = before[-256:]
    return after[after.rfind(end) + len(end) :] if end in after else after


def echo(typed: bytes) -> str:
    """What was typed, as a terminal shows it: the guest has a prompt, but nothing reads the input."""
    return typed.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")


@implementer(ITransport, IConsumer, IPushProducer)
@define(eq=False)
class Cable:
    """The transport of a console's client. `typed` is called with what it writes, `pulled` when it has hung up."""

    client: IProtocol
    typed: Callable[[bytes], None]
    pulled: Callable[[], None]
    _kept: bytes = b""  # while the client has paused
    _paused: bool = False
    _is_out: bool = False

    def show(self, text: str) -> None:
        """The guest has written this."""
        self._kept = (self._kept + text.replace("\n", "\r\n").encode("latin-1", "replace"))[-KEPT:]
        self._flush()

    def send(self, data: bytes, most: int) -> None:
        """Nothing of this may be dropped: a client that leaves more than `most` bytes unread is disconnected."""
        self._kept += data
        self._flush()
        if len(self._kept) > most:
            self.loseConnection()

    def _flush(self) -> None:
        if self._kept and not self._paused and not self._is_out:
            data, self._kept = self._kept, b""
            self.client.dataReceived(data)

    def write(self, data: bytes) -> None:
        if not self._is_out:
            self.typed(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        if not self._is_out:
            self._is_out = True
            self.pulled()
            self.client.connectionLost(Failure(ConnectionDone()))

    def getPeer(self) -> Any:
        """None: there is no address."""

    def getHost(self) -> Any:
        """As `getPeer`."""

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self._flush()

    def stopProducing(self) -> None:
        self.loseConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Typed input is never throttled."""

    def unregisterProducer(self) -> None:
        """As `registerProducer`."""
