"""Each connected volume is open in a storage daemon of its own; other volumes are not open anywhere.

Each host has an export of its own, `<volume id>/<host>`, so that a host that may no longer use a volume is cut off even
while others use it. Whoever reaches a daemon reaches only one volume: NBD has no passwords. The records are the
requested state. While a daemon is away, a guest's QEMU waits and tries again.

An earlier release had one daemon for all volumes (`shared`). It serves its volumes until nobody uses them any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

from attrs import define, evolve, field
from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.drivers.errors import DriverError, Unreachable, Unusable
from cloudctl.drivers.nbd.daemon import Daemon
from cloudctl.drivers.nbd.fenced import Fenced, turn_file
from cloudctl.drivers.nbd.served import Served, export_name, exports, node_name
from cloudctl.drivers.programs import require
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import GIB, Records, Volume
from cloudctl.drivers.specs import ConnectionInfo

_log = Logger()


@define(eq=False)
class ServedDisks:
    """The `Disks` of storage daemons."""

    records: Records
    images: Images
    daemon: Callable[[Volume | None], Daemon]  # of a volume that has a place; for None: of all that have none
    fenced: Fenced
    clock: IReactorTime
    retry_seconds: float
    by_ports: bool  # a place is a port
    dry_run: bool
    _served: dict[str, Served] = field(factory=dict)  # by the volume's id; "": those that have no place
    _places: dict[str, int] = field(factory=dict)  # assigned by this process; their records may not be written yet

    protocol = "nbd"
    multiattach = True

    async def check(self) -> None:
        require("qemu-img", "prlimit", "setpriv", "setsid", "qemu-storage-daemon")
        if not self.dry_run:
            self.daemon(None).sockets.open()
            self._demand_places()
            # Guests may be waiting for a daemon that died while this process did not run.
            for volume in self.records.readable():
                self.of(volume).soon(0)

    def _demand_places(self) -> None:
        """Raises Unusable if volumes that were connected by UNIX sockets would have to share a port."""
        places = Counter(each.place for each in self.records.readable() if each.hosts and each.place is not None)
        if self.by_ports and any(times > 1 for times in places.values()):
            raise Unusable(
                f"listen is set, and {places.total()} volumes are connected by UNIX sockets; "
                'set listen = "" until no volume is connected'
            )

    async def close(self) -> None:
        for each in self._served.values():
            await each.close()

    def connection(self, volume: Volume, host: str) -> ConnectionInfo:
        if self.fenced.has(host):
            raise Unreachable(f"nothing is offered to {host}, which is fenced")
        data = {"server": dict(self.daemon(placed(volume)).server), "export": export_name(volume.id, host)}
        return {"driver_volume_type": "nbd", "data": data}

    def of(self, volume: Volume) -> Served:
        """Where the volume is served, or was."""
        key = "" if volume.place is None else volume.id
        found = self._served.get(key)
        if found is not None and found.place != volume.place:
            # It has been given another one, perhaps by another process: there is nothing at the old one.
            del self._served[key]
            ensureDeferred(found.close())
        if key not in self._served:
            daemon = self.daemon(placed(volume))
            served = Served(
                daemon,
                lambda: [each for each in self._those(key) if each.place == volume.place],
                self.records.disk,
                self.clock,
                self.retry_seconds,
                turn_file(self.records, placed(volume)),
                self.fenced.has,
                volume.place,
                lambda: any(each.place != volume.place for each in self._those(key)),
            )
            daemon.disks, daemon.on_death = served.disks, partial(self._lost, key)
            self._served[key] = served
        return self._served[key]

    def _lost(self, key: str) -> None:
        """The daemon has died: another process may have given its volume another place before."""
        try:
            those = self._those(key)
        except DriverError:
            those = []
        served = self.of(those[0]) if those else self._served.get(key)
        if served is not None:
            served.lost()

    def _those(self, key: str) -> list[Volume]:
        if not key:
            return [each for each in self.records.volumes() if each.place is None]
        found = self.records.volume(key)
        return [found] if found is not None and found.place is not None else []

    # -- changes of one volume

    def place(self, volume: Volume) -> Volume:
        if not self.by_ports:
            return evolve(volume, place=0)
        if volume.place is None or not self.daemon(volume).is_alive():
            taken = {each.place for each in self.records.readable() if each.hosts} | set(self._places.values())
            # One whose record is damaged is still there.
            taken |= {each.place for each in self._served.values() if each.daemon.is_alive()}
            volume = evolve(volume, place=next(each for each in count() if each not in taken))
        self._places[volume.id] = volume.place or 0
        return volume

    async def serve(self, volume: Volume) -> None:
        if self._only_told(f"serve volume {volume.id} to {', '.join(volume.hosts) or 'nobody'}"):
            return
        served = self.of(volume)
        async with served.exclusive():
            await served.equal([volume])
        if not volume.hosts:
            # Not before its daemon has released it.
            self._places.pop(volume.id, None)
            if volume.place is not None and not served.daemon.is_alive():
                await self._served.pop(volume.id).close()

    async def resize(self, volume: Volume, size_gib: int) -> None:
        if not volume.hosts:
            await self.images.resize(self.records.disk(volume.id), size_gib)
        elif not self._only_told(f"resize the served volume {volume.id} to {size_gib} GiB"):
            served = self.of(volume)
            async with served.exclusive():
                await served.equal([volume])
                # An exported node cannot be resized; the clients reconnect by themselves.
                await served.withdraw(exports(volume))
                try:
                    size = {"node-name": node_name(volume.id), "size": size_gib * GIB}
                    await served.daemon.tell("block_resize", size)
                finally:
                    await served.equal([volume])

    async def take(self, volume: Volume, name: str) -> None:
        if not volume.hosts:
            await self.images.take(self.records.disk(volume.id), name)
        else:
            await self._snapshot("blockdev-snapshot-internal-sync", volume, name)

    async def drop(self, volume: Volume, name: str) -> None:
        if not volume.hosts:
            await self.images.drop(self.records.disk(volume.id), name)
        else:
            await self._snapshot("blockdev-snapshot-delete-internal-sync", volume, name)

    async def _snapshot(self, command: str, volume: Volume, name: str) -> None:
        if self._only_told(f"send the storage daemon {command} {name} of volume {volume.id}"):
            return
        served = self.of(volume)
        async with served.exclusive():
            await served.equal([volume])
            # Begun in our turn. However long it takes, others have theirs.
            arguments = {"device": node_name(volume.id), "name": name}
            telling = ensureDeferred(served.daemon.tell(command, arguments, timeout=self.images.copy_timeout))
        await telling

    def _only_told(self, what: str) -> bool:
        if self.dry_run:
            _log.info("would {what}", what=what)
        return self.dry_run


def placed(volume: Volume) -> Volume | None:
    return None if volume.place is None else volume
