"""What one storage daemon exports: made equal to the records after every change, after a restart, after its death."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.errors import Busy, DriverError
from cloudctl.drivers.nbd.daemon import LOOK_SECONDS, Daemon, disk
from cloudctl.drivers.qcow2.records import Volume
from cloudctl.drivers.qemu.qmp import Refused

_log = Logger()


def node_name(volume_id: str) -> str:
    """QEMU's names of nodes have 31 characters at most."""
    return f"v{sha256(volume_id.encode()).hexdigest()[:30]}"


def exports(volume: Volume) -> dict[str, str]:
    """Id of each export that the volume should have → its name, which hosts ask for."""
    return {_export_id(volume.id, host): export_name(volume.id, host) for host in volume.hosts}


def export_name(volume_id: str, host: str) -> str:
    return f"{volume_id}/{host}"


def _export_id(volume_id: str, host: str) -> str:
    return f"e{sha256(f'{volume_id}/{host}'.encode()).hexdigest()[:30]}"


@define(eq=False)
class Served:
    """`lost` is for the daemon's `on_death`."""

    daemon: Daemon
    volumes: Callable[[], Sequence[Volume]]  # that the daemon is for, by their records
    disk: Callable[[str], Path]  # of a volume
    clock: IReactorTime
    retry_seconds: float
    _lock: DeferredLock = field(factory=DeferredLock)  # of what is exported
    _all_due: bool = True  # what is exported may have nothing to do with the records
    _retry: IDelayedCall | None = None
    _closed: bool = False

    def disks(self) -> Mapping[str, Path]:
        """What the daemon opens when it starts."""
        return {node_name(each.id): self.disk(each.id) for each in self.volumes() if each.hosts}

    async def close(self) -> None:
        self._closed = True
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        async with self.exclusive():
            self.daemon.close()

    # -- the daemon

    def lost(self) -> None:
        """It has died: start it again at once, with all exports."""
        _log.error("the storage daemon exited unexpectedly")
        self._all_due = True
        self.soon(0)

    def soon(self, seconds: float) -> None:
        if not self._closed and (self._retry is None or not self._retry.active()):
            self._retry = self.clock.callLater(seconds, self._catch_up)

    def _catch_up(self) -> None:
        ensureDeferred(self._serve_all()).addErrback(
            lambda failure: _log.failure("volumes are not served", failure=failure)
        )

    async def _serve_all(self) -> None:
        try:
            async with self.exclusive():
                if self._all_due and not self._closed:
                    await self.equal([])
        except DriverError as error:
            _log.error("volumes are not served yet: {error}", error=error)

    async def equal(self, volumes: Sequence[Volume]) -> None:
        """What the daemon exports of these volumes is what they say; of all, if that is due. The lock is held.

        It runs only while a volume is connected. Raises Unreachable, Busy.
        """
        everything = self._all_due
        own = {volume.id for volume in volumes}
        if everything:
            # The caller's own are among them: a record is written before it is served.
            volumes = self.volumes()
        wanted = {export: volume for volume in volumes for export in exports(volume)}
        if not wanted and not self.daemon.is_alive():
            if not self.disks():
                # Of one that died: whom its socket let in the next one's does not.
                self.daemon.sockets.remove()
            self._all_due = False
            return
        await self.daemon.running()
        present = await self._exports()
        concerned = {node_name(volume.id) for volume in volumes}
        strays = {id for id, node in present.items() if id not in wanted and (everything or node in concerned)}
        await self.withdraw(strays)
        nodes = await self._nodes()
        for volume in volumes:
            if volume.hosts:
                try:
                    await self._export(volume, present.keys(), nodes)
                except Refused as error:
                    if volume.id in own:
                        raise
                    # One damaged file must not keep the others from being served.
                    _log.error("volume {id} is not served: {error}", id=volume.id, error=error)
        if await self._exports():
            used = {node_name(volume.id) for volume in volumes if volume.hosts}
            for node in nodes - used if everything else (nodes & concerned) - used:
                await self._close_node(node)
        else:
            await self.daemon.stop()
        self._all_due = False

    async def _export(self, volume: Volume, present: Iterable[str], nodes: frozenset[str]) -> None:
        node = node_name(volume.id)
        if node not in nodes:
            # One of a release before this one can open more than it has opened at its start.
            await self.daemon.tell("blockdev-add", disk(node, str(self.disk(volume.id))))
        for id, name in exports(volume).items():
            if id not in present:
                export = {"type": "nbd", "id": id, "node-name": node, "name": name, "writable": True}
                await self.daemon.tell("block-export-add", export)

    async def withdraw(self, ids: Iterable[str]) -> None:
        """These exports are gone, whoever uses them."""
        left = set(ids)
        for id in left:
            try:
                await self.daemon.tell("block-export-del", {"id": id, "mode": "hard"})
            except Refused as error:
                # Asked before: it goes, or has just gone.
                if not any(words in error.description for words in ("is already shutting down", "is not found")):
                    raise
        limit = self.clock.seconds() + self.daemon.answer_timeout
        while left.intersection(await self._exports()):
            if self.clock.seconds() >= limit:
                raise Busy("the storage daemon has not released a volume yet")
            await deferLater(self.clock, LOOK_SECONDS)

    async def _close_node(self, node: str) -> None:
        try:
            await self.daemon.tell("blockdev-del", {"node-name": node})
        except Refused as error:
            raise Busy(f"the storage daemon has not released a volume yet: {error.description}") from error

    async def _exports(self) -> Mapping[str, str]:
        """Id → node."""
        return {each["id"]: each["node-name"] for each in await self.daemon.ask("query-block-exports")}

    async def _nodes(self) -> frozenset[str]:
        """Those that are volumes."""
        found: list[Mapping[str, Any]] = await self.daemon.ask("query-named-block-nodes", {"flat": True})
        return frozenset(each["node-name"] for each in found if each["drv"] == "qcow2")

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """One at a time changes what is exported. After a failure that is looked at again, whoever repeats the call."""
        await self._lock.acquire()
        try:
            yield
        except DriverError:
            self._all_due = True
            self.soon(self.retry_seconds)
            raise
        finally:
            self._lock.release()
