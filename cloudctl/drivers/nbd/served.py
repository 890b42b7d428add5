"""What one storage daemon exports: made equal to the records after every change, restart, or death of the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger, LogLevel

from cloudctl.drivers.errors import Busy, DriverError
from cloudctl.drivers.nbd.daemon import LOOK_SECONDS, Daemon, disk
from cloudctl.drivers.nbd.fenced import Turn, turn
from cloudctl.drivers.qcow2.records import Volume
from cloudctl.drivers.qemu.qmp import Refused
from cloudctl.trouble import Trouble

_log = Logger()


def node_name(volume_id: str) -> str:
    """The volume's node; QEMU's node names have 31 characters at most."""
    return f"v{sha256(volume_id.encode()).hexdigest()[:30]}"


def exports(volume: Volume, is_fenced: Callable[[str], bool] = lambda _host: False) -> dict[str, str]:
    """Id of each export that the volume should have → its name, which hosts request. A fenced host has none."""
    hosts = [host for host in volume.hosts if not is_fenced(host)]
    return {_export_id(volume.id, host): export_name(volume.id, host) for host in hosts}


def export_name(volume_id: str, host: str) -> str:
    return f"{volume_id}/{host}"


def _export_id(volume_id: str, host: str) -> str:
    return f"e{sha256(f'{volume_id}/{host}'.encode()).hexdigest()[:30]}"


@define(eq=False)
class Served:
    """`lost` is for the daemon's death."""

    daemon: Daemon
    volumes: Callable[[], Sequence[Volume]]  # the records of the volumes that the daemon is for
    disk: Callable[[str], Path]  # of a volume
    clock: IReactorTime
    retry_seconds: float
    turn_file: Path
    is_fenced: Callable[[str], bool]
    place: int | None = None  # of the volume; None: it is of all that have none
    is_left: Callable[[], bool] = lambda: False  # the volume has been given another place: nothing here is ours
    _lock: DeferredLock = field(factory=DeferredLock)  # for changes of the exports
    _turn: Turn | None = None  # ours, while the lock is held
    _all_due: bool = True  # all exports must be compared with the records
    _retry: IDelayedCall | None = None
    _closed: bool = False
    _unserved: Trouble = field(
        factory=lambda: Trouble(_log, "volumes are not served yet", "volumes are served again", LogLevel.error)
    )

    def disks(self) -> Mapping[str, Path]:
        """What the daemon opens when it starts."""
        return {node_name(each.id): self.disk(each.id) for each in self.volumes() if each.hosts}

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        await self._lock.run(self.daemon.close)

    # -- the daemon

    def lost(self) -> None:
        """It has died: start it again at once, with all exports."""
        self._all_due = True
        self.soon(0)
        try:
            # Another process of the cloud ends it once nobody uses the volume any more.
            is_expected = not self.disks()
        except DriverError:
            is_expected = False
        if not is_expected:
            _log.error("the storage daemon exited unexpectedly")

    def soon(self, seconds: float) -> None:
        if not self._closed and (self._retry is None or not self._retry.active()):
            self._retry = self.clock.callLater(seconds, self._catch_up)

    def _catch_up(self) -> None:
        ensureDeferred(self.serve_all()).addErrback(
            lambda failure: _log.failure("volumes are not served", failure=failure)
        )

    async def serve_all(self) -> None:
        """What is due."""
        try:
            async with self.exclusive():
                if self._all_due and not self._closed and not self.is_left():
                    await self.equal([])
            self._unserved.is_over()
        except DriverError as error:
            self._unserved.is_met(error)

    async def equal(self, volumes: Sequence[Volume]) -> None:
        """The daemon's exports of these volumes, or of all if that is due, match their records. The lock is held.

        The daemon runs only while a volume is connected. Raises Unreachable, Busy.
        """
        everything = self._all_due
        own = {volume.id for volume in volumes}
        if everything:
            # The caller's volumes are among them: a record is written before it is served.
            volumes = self.volumes()
        if not any(volume.hosts for volume in volumes) and not self.daemon.is_alive():
            if not self.disks():
                # The daemon died: users that its socket admitted are not to be admitted by the next one's.
                self.daemon.sockets.remove()
            self._caught_up()
            return
        await self.daemon.running()
        wanted = {id: name for volume in volumes for id, name in exports(volume, self.is_fenced).items()}
        present, going = await self._exports(), await self._going()
        concerned = {node_name(volume.id) for volume in volumes}
        # An export that is already being withdrawn is of no use, and is recreated once it is gone.
        unwanted = {id for id in present if id not in wanted or id in going}
        strays = {id for id in unwanted if everything or present[id] in concerned}
        await self.withdraw(strays)
        missing = wanted.keys() - (present.keys() - strays)
        nodes = await self._nodes()
        for volume in volumes:
            if volume.hosts:
                try:
                    await self._export(volume, missing, nodes)
                except Refused as error:
                    if volume.id in own:
                        raise
                    # One damaged file must not keep the others from being served.
                    _log.error("volume {id} is not served: {error}", id=volume.id, error=error)
        if await self._exports() or self.disks():
            used = {node_name(volume.id) for volume in volumes if volume.hosts}
            for node in nodes - used if everything else (nodes & concerned) - used:
                await self._close_node(node)
        else:
            await self.daemon.stop()
        if everything:
            self._caught_up()

    def _caught_up(self) -> None:
        """The exports match the records, and everything else has been released."""
        self._all_due = False
        if self._turn is not None:
            self._turn.note(False)

    async def _export(self, volume: Volume, missing: Container[str], nodes: frozenset[str]) -> None:
        node = node_name(volume.id)
        if node not in nodes:
            # A daemon of an earlier release can open more than it opened at its start.
            await self.daemon.tell("blockdev-add", disk(node, str(self.disk(volume.id))))
        for id, name in exports(volume).items():
            if id in missing:
                export = {"type": "nbd", "id": id, "node-name": node, "name": name, "writable": True}
                await self.daemon.tell("block-export-add", export)

    async def withdraw(self, ids: Iterable[str]) -> None:
        """These exports are gone, whoever uses them, and none of their requests is still being carried out."""
        left = set(ids)
        if left and self._turn is not None:
            self._turn.note(True)
        for id in left:
            try:
                await self.daemon.tell("block-export-del", {"id": id, "mode": "hard"})
            except Refused as error:
                # Requested before: it is going, or has just gone.
                if not any(words in error.description for words in ("is already shutting down", "is not found")):
                    raise
        limit = self.clock.seconds() + self.daemon.answer_timeout
        while left.intersection(await self._exports()):
            if self.clock.seconds() >= limit:
                raise Busy("the storage daemon has not released a volume yet")
            await deferLater(self.clock, LOOK_SECONDS)
        if not self._all_due and self._turn is not None:
            self._turn.note(False)

    async def _close_node(self, node: str) -> None:
        try:
            await self.daemon.tell("blockdev-del", {"node-name": node})
        except Refused as error:
            raise Busy(f"the storage daemon has not released a volume yet: {error.description}") from error

    async def _exports(self) -> Mapping[str, str]:
        """Id of an export → its node."""
        return {each["id"]: each["node-name"] for each in await self.daemon.ask("query-block-exports")}

    async def _going(self) -> frozenset[str]:
        return frozenset(each["id"] for each in await self.daemon.ask("query-block-exports") if each["shutting-down"])

    async def _nodes(self) -> frozenset[str]:
        """The nodes that are volumes."""
        found: list[Mapping[str, Any]] = await self.daemon.ask("query-named-block-nodes", {"flat": True})
        return frozenset(each["node-name"] for each in found if each["drv"] == "qcow2")

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """One call at a time changes the exports. After a failure all of them are checked again, call or no call."""
        await self._lock.acquire()
        try:
            async with turn(self.turn_file, self.clock, self.daemon.answer_timeout) as self._turn:
                try:
                    yield
                finally:
                    self.daemon.release()
        except BaseException:  # whatever it is, nobody else would check them
            self._all_due = True
            self.soon(self.retry_seconds)
            raise
        finally:
            self._turn = None
            self._lock.release()
