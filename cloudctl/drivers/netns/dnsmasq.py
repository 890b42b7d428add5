"""The dnsmasq of each network, which serves addresses, and of each router, which advertises it to guests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.netns import advertisements, dhcp
from cloudctl.drivers.netns.daemons import Daemons
from cloudctl.drivers.netns.names import written
from cloudctl.drivers.netns.records import make_readable, write
from cloudctl.drivers.netns.routing import Leg
from cloudctl.drivers.specs import NetworkSpec, PortSpec

FILES = {"hosts": dhcp.hosts_file, "options": dhcp.options_file}  # of a port, by the directory that they are in


@frozen
class Dnsmasq:
    """The dnsmasqs of the networks of one cloud."""

    daemons: Daemons
    lease_seconds: int
    _locks: Locks = field(factory=Locks)
    # Arguments of those that ended for a change of a port and could not be started again, by network.
    _due: dict[str, list[str]] = field(factory=dict)

    def arguments(self, spec: NetworkSpec) -> list[str]:
        """Empty if the network needs none. Raises Unfit."""
        return dhcp.arguments(spec, self.daemons.directory(spec.id), self.lease_seconds)

    def runs(self, spec: NetworkSpec) -> bool:
        """Whether one runs exactly as the network needs it, or none if it needs none."""
        return self.daemons.running(spec.id) == self.arguments(spec)

    async def ensure(self, spec: NetworkSpec, namespace: str, ports: Callable[[], Iterable[PortSpec]]) -> None:
        """One runs in the network's namespace and knows exactly these ports; or none runs, if none is needed.

        `ports` is called when its turn has come, since one may be added while it waits. Raises ProgramFailed, and Busy
        if an earlier one does not end.
        """
        wanted = self.arguments(spec)
        async with self._locks.hold(spec.id):
            taken_away = self._fill(spec, list(ports()))
            if self.daemons.running(spec.id) == wanted and not taken_away:
                self.daemons.signal(spec.id, signal.SIGHUP)
            else:
                await self.daemons.end(spec.id)
                await self.daemons.start(wanted, namespace)
            self._due.pop(spec.id, None)

    async def ensure_absent(self, network_id: str) -> None:
        async with self._locks.hold(network_id):
            self._due.pop(network_id, None)
            await self.daemons.end(network_id)
        self.daemons.forget(network_id)

    async def ensure_port(self, port: PortSpec, spec: NetworkSpec, namespace: str) -> None:
        """The port gets its addresses and options with its next request. Raises Unfit."""
        await self._say(port.id, spec.id, namespace, {name: content(port, spec) for name, content in FILES.items()})

    async def ensure_port_absent(self, port_id: str, network_id: str, namespace: str) -> None:
        await self._say(port_id, network_id, namespace, dict.fromkeys(FILES, ""))

    async def _say(self, port_id: str, network_id: str, namespace: str, contents: Mapping[str, str]) -> None:
        """These files of a port have these contents, or do not exist.

        dnsmasq sees a new file at once. But even if a file changes or goes, it keeps the leases that it has given, and
        refuses their addresses to every other port until they end: a day later, or with the process. So it is
        restarted. While a file is unchanged, that is still to be done; and as long as the new one has not started.
        """
        if self.daemons.dry:
            return
        files = {self._file(network_id, name, port_id): content for name, content in contents.items()}
        present = {file: file.read_text() if file.exists() else "" for file in files}
        if network_id not in self._due:
            if all(present[file] == content for file, content in files.items()):
                return
            if not any(present[file] and present[file] != content for file, content in files.items()):
                _put(files)
                return
        async with self._locks.hold(network_id):
            words = self.daemons.running(network_id) or self._due.get(network_id, [])
            try:
                await self.daemons.end(network_id)
                _put(files)
                await self.daemons.start(words, namespace)
            except DriverError:
                self._due[network_id] = words
                raise
            self._due.pop(network_id, None)

    def _file(self, network_id: str, name: str, port_id: str) -> Path:
        return self.daemons.directory(network_id) / name / written(port_id)

    def _fill(self, spec: NetworkSpec, ports: Iterable[PortSpec]) -> bool:
        """Write the files of all ports; returns whether something was taken away from one: see `_say`."""
        if self.daemons.dry:
            return False
        taken_away = False
        for name, content in FILES.items():
            directory = self.daemons.directory(spec.id) / name
            make_readable(directory)
            wanted = {directory / written(port.id): said for port in ports if (said := content(port, spec))}
            for file in directory.iterdir():
                if file.read_text() != wanted.get(file):
                    file.unlink()
                    taken_away = True
            _put(wanted)
        return taken_away


def _put(files: Mapping[Path, str]) -> None:
    for file, content in files.items():
        if content:
            write(file, content.encode())
        else:
            file.unlink(missing_ok=True)


@frozen
class Advertisers:
    """The dnsmasqs of the routers of one cloud."""

    daemons: Daemons
    _locks: Locks = field(factory=Locks)

    async def ensure(self, router_id: str, namespace: str, legs: Mapping[str, Leg]) -> None:
        """The router is advertised to guests on the networks of these interfaces, if their subnets want that.

        Raises Unfit, ProgramFailed, Busy.
        """
        directory = self.daemons.directory(router_id)
        wanted = advertisements.arguments(legs, directory)
        async with self._locks.hold(router_id):
            if self.daemons.running(router_id) == wanted:
                return
            await self.daemons.end(router_id)
            if wanted and not self.daemons.dry:
                make_readable(directory)
            await self.daemons.start(wanted, namespace)

    async def ensure_absent(self, router_id: str) -> None:
        async with self._locks.hold(router_id):
            await self.daemons.end(router_id)
        self.daemons.forget(router_id)
