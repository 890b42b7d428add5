"""The dnsmasq of each network: its host files, and the process itself, known by its command line."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.errors import Busy
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.netns import dhcp
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.names import written
from cloudctl.drivers.netns.records import make_readable, write
from cloudctl.drivers.specs import NetworkSpec, PortSpec

POLL_SECONDS = 0.005
END_SECONDS = 2.0  # that a dnsmasq is given to end; it takes a few milliseconds

_log = Logger()


@frozen
class Dnsmasq:
    """Of one cloud. `root` holds a directory for each network."""

    kernel: Kernel
    clock: IReactorTime
    root: Path
    lease_seconds: int
    _locks: Locks = field(factory=Locks)

    def arguments(self, spec: NetworkSpec) -> list[str]:
        """Empty: the network needs none. Raises Unfit."""
        return dhcp.arguments(spec, self._directory(spec.id), self.lease_seconds)

    def runs(self, spec: NetworkSpec) -> bool:
        """There is one just as the network needs it, or none if it needs none."""
        return self._running(spec.id) == self.arguments(spec)

    async def ensure(self, spec: NetworkSpec, namespace: str, ports: Iterable[PortSpec]) -> None:
        """One runs in the network's namespace, knows these ports and no others; or none runs.

        Raises ProgramFailed, and Busy if an earlier one does not end.
        """
        wanted = self.arguments(spec)
        async with self._locks.hold(spec.id):
            taken_away = self._fill(spec, ports)
            if self._running(spec.id) == wanted and not taken_away:
                self._reread(spec.id)
            else:
                await self._end(spec.id)
                await self._start(wanted, namespace)

    async def ensure_absent(self, network_id: str) -> None:
        async with self._locks.hold(network_id):
            await self._end(network_id)
        if not self._dry():
            shutil.rmtree(self._directory(network_id), ignore_errors=True)

    async def ensure_port(self, port: PortSpec, spec: NetworkSpec, namespace: str) -> None:
        """The port gets its addresses when it next asks."""
        content = dhcp.hosts_file(port, spec).encode()
        file = self._hosts(spec.id) / written(port.id)
        there = file.read_bytes() if file.exists() else b""
        if self._dry() or content == there:
            return
        if there:
            await self._without(file, spec.id, namespace, content)
        else:
            write(file, content)

    async def ensure_port_absent(self, port_id: str, network_id: str, namespace: str) -> None:
        file = self._hosts(network_id) / written(port_id)
        if not self._dry() and file.exists():
            await self._without(file, network_id, namespace, b"")

    async def _without(self, file: Path, network_id: str, namespace: str, content: bytes) -> None:
        """Begin anew, without what this host file said; it says `content` then, or goes.

        A new file is seen at once. But whatever becomes of a file, dnsmasq keeps the leases that it has given, and
        refuses the address of one to every other port until it ends: a day later, or with the process. As long as the
        file is as it was, that is still to be done.
        """
        async with self._locks.hold(network_id):
            words = self._running(network_id)
            await self._end(network_id)
            if content:
                write(file, content)
            else:
                file.unlink(missing_ok=True)
            await self._start(words, namespace)

    async def _start(self, arguments: list[str], namespace: str) -> None:
        if arguments:
            await self.kernel.programs.change("dnsmasq", *arguments, namespace=namespace)

    def _directory(self, network_id: str) -> Path:
        return self.root / written(network_id)

    def _hosts(self, network_id: str) -> Path:
        return self._directory(network_id) / "hosts"

    def _fill(self, spec: NetworkSpec, ports: Iterable[PortSpec]) -> bool:
        """Write the files of all ports; whether an address was taken away from one: see `_without`."""
        if self._dry():
            return False
        hosts = self._hosts(spec.id)
        make_readable(hosts)
        wanted = {written(port.id): content for port in ports if (content := dhcp.hosts_file(port, spec))}
        taken_away = False
        for file in hosts.iterdir():
            if file.read_text() != wanted.get(file.name):
                file.unlink()
                taken_away = True
        for name, content in wanted.items():
            write(hosts / name, content.encode())
        return taken_away

    def _pid(self, network_id: str) -> int | None:
        try:
            return int((self._directory(network_id) / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None  # never started, or not yet written

    def _running(self, network_id: str) -> list[str]:
        """The arguments of the dnsmasq that runs for the network; empty if none does."""
        pid = self._pid(network_id)
        return [] if pid is None else self._arguments_of(pid, network_id)

    def _arguments_of(self, pid: int, network_id: str) -> list[str]:
        """Of this process, if it is a dnsmasq of the network: another may have got the number since."""
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return []
        return words[1:-1] if f"--dhcp-hostsdir={self._hosts(network_id)}" in words else []

    def _strays(self, network_id: str) -> list[int]:
        """Ids of those that run for the network, whether or not there is still a file that says so."""
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if self._arguments_of(pid, network_id)]

    def _reread(self, network_id: str) -> None:
        self._signal(network_id, signal.SIGHUP)

    async def _end(self, network_id: str) -> None:
        self._signal(network_id, signal.SIGTERM)
        limit = self.clock.seconds() + END_SECONDS
        while not self._dry() and (strays := self._strays(network_id)):
            if self.clock.seconds() > limit:
                raise Busy(f"the dnsmasq of network {network_id} does not exit")
            for pid in strays:
                _kill(pid, signal.SIGTERM)
            await deferLater(self.clock, POLL_SECONDS)

    def _signal(self, network_id: str, number: signal.Signals) -> None:
        pid = self._pid(network_id)
        if pid is None or not self._running(network_id):
            return
        if self._dry():
            _log.info("would send {signal} to {pid}", signal=number.name, pid=pid)
        else:
            _kill(pid, number)

    def _dry(self) -> bool:
        return self.kernel.programs.dry_run


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended: neither signal has anything left to do
