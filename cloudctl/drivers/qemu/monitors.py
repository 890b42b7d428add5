"""One QMP connection to each running guest, kept open: its loss shows a guest's death at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.qemu import qmp
from cloudctl.drivers.qemu.qmp import Monitor
from cloudctl.drivers.qemu.records import Files

TELLING = frozenset({"SHUTDOWN", "GUEST_PANICKED", "BLOCK_IO_ERROR"})
"""Events after which a guest's power may be another."""


@define(eq=False)
class Monitors:
    reactor: Any
    clock: IReactorTime
    timeout: float  # seconds for an answer
    dry_run: bool = False
    changed: Callable[[str], None] | None = None  # called with the id of a guest that may have gone off
    _open: dict[Path, Monitor] = field(factory=dict)  # by their sockets
    _connecting: Locks = field(factory=Locks)

    async def get(self, id: str, files: Files) -> Monitor:
        """The connection to a guest that has a process. Raises Gone, Silent, and DriverError in a dry run."""
        if self.dry_run:
            raise DriverError(f"this is a dry run: guest {id} has no process")
        # QEMU serves one connection at a time: a second one would wait until the first is closed.
        async with self._connecting.hold(str(files.qmp)):
            found = self._open.get(files.qmp)
            return await self._connect(id, files) if found is None or found.is_lost else found

    async def _connect(self, id: str, files: Files) -> Monitor:
        def told(name: str, _data: Mapping[str, Any]) -> None:
            if name in TELLING and self._open.get(files.qmp) is monitor:
                self._tell(id)

        def lost(_: None) -> None:
            if self._open.get(files.qmp) is monitor:
                del self._open[files.qmp]
                self._tell(id)

        monitor = await qmp.connect(self.reactor, self.clock, str(files.qmp), self.timeout, told)
        self._open[files.qmp] = monitor
        monitor.lost.addCallback(lost)
        return monitor

    def _tell(self, id: str) -> None:
        if self.changed is not None:
            self.changed(id)

    def take(self, files: Files) -> Monitor | None:
        """Hand over the connection, if one is open: its end is expected and no longer reported."""
        return self._open.pop(files.qmp, None)

    def close(self) -> None:
        """Close all connections; the guests go on."""
        for socket in list(self._open):
            self._open.pop(socket).close()
