"""Guests that move from one libvirt host to another, running or off, and what is left of them where they were."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote

from attrs import frozen
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.errors import Aborted, Busy, DriverError, InvalidPower, Unfit, Unreachable
from cloudctl.drivers.libvirt import carrying, guests, migration, secrets
from cloudctl.drivers.libvirt.carrying import Part
from cloudctl.drivers.libvirt.fleet import Fleet
from cloudctl.drivers.libvirt.host import Host
from cloudctl.drivers.libvirt.lateness import Seen, attended
from cloudctl.drivers.libvirt.migration import Outcome, Standing
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import IMAGE, Storage
from cloudctl.drivers.libvirt.waiting import POLL_SECONDS
from cloudctl.drivers.rbd.disk import rbd_disks
from cloudctl.drivers.rbd.roots import RootDisks
from cloudctl.drivers.specs import DriverResources, GuestSpec, MigrationProgress, Power

# libvirtd takes moments to end a migration; a libvirtd that was killed meanwhile ends it when it returns.
SETTLING_SECONDS = 10.0

P = ParamSpec("P")
T = TypeVar("T")

log = Logger()


@frozen
class Moves:
    """All that is known about moves is queried from the hosts. For one call per guest at a time, except `called_off`,
    `hurried` and `progress`.
    """

    config: Config
    resources: DriverResources
    fleet: Fleet
    roots: RootDisks | None = None  # None: root disks are files on the hosts

    async def made(self, spec: GuestSpec, disks: bool | None = None) -> None:
        to = self.fleet.named(spec.host)
        async with self.fleet.locks.hold(spec.id):
            # Look at both hosts first: an earlier process may have begun the move, or finished it.
            source = await self._settled(spec.id, to)
            state = await self.fleet.run(source, guests.state, spec.id, source.name)
            if state.power not in (Power.RUNNING, Power.PAUSED):
                raise InvalidPower(f"guest {spec.id} is {state.power.value}; only one that is on can be moved so")
            if source is not to:
                await self._move(source, to, spec, disks)

    async def _settled(self, id: str, to: Host) -> Host:
        """The host of a guest that is not moving: a move under way is awaited, and nothing of the guest is left
        elsewhere. Raises UnknownGuest, HostDown, InvalidPower.
        """
        await self.fleet.run(to, migration.standing, id)
        source = await self.fleet.where(id)
        if source is not to and await self.fleet.run(source, migration.standing, id) is Standing.LEAVING:
            await self._attended(source, id, self.fleet.copy(source, migration.wait, id))
            source = await self.fleet.where(id)
        if source is to:
            # It may have arrived without the other host being told, or reachable.
            for host in await self._left_by(id, to):
                await self.clear(host, id, to)
            return to
        return await self._one_of(source, to, id)

    async def _one_of(self, source: Host, to: Host, id: str) -> Host:
        """Which of these hosts keeps a guest that is no longer being moved. On the other host, which must answer,
        nothing of it is left. Raises HostDown, Busy.
        """
        give_up = self.resources.clock.seconds() + SETTLING_SECONDS
        while True:
            there, here = [await self.fleet.run(host, migration.standing, id) for host in (source, to)]
            found = migration.outcome(there, here)
            if found is not Outcome.OPEN or self.resources.clock.seconds() >= give_up:
                break
            await deferLater(self.resources.clock, POLL_SECONDS)
        if there is Standing.LEAVING:
            raise Busy(f"guest {id} is moved by somebody else")
        if found is Outcome.ARRIVED:
            if there is Standing.LEFT:
                await self.clear(source, id, to)
            to.gained(id)
            return to
        if here is Standing.ARRIVING:
            # Nobody is sending it.
            await self.fleet.run(to, migration.drop, id)
        elif here is not Standing.ABSENT and there is not Standing.ABSENT:
            await self.clear(to, id, source)
        if there is Standing.LEFT:
            await self.fleet.run(source, migration.stay, id)
        return source

    async def _left_by(self, id: str, to: Host) -> list[Host]:
        """Other hosts where a guest that is on this host stands still or may have left its disks."""
        may_have = [each for each in self.fleet.hosts.values() if each is not to and id in (each.guests or ())]
        left = Standing.LEFT, Standing.ABSENT
        return [each for each in may_have if await self.fleet.run(each, migration.standing, id) in left]

    async def _move(self, source: Host, to: Host, spec: GuestSpec, disks: bool | None) -> None:
        shared = await self._share(source, to)
        having = await self.fleet.run(source, lambda found: carrying.parts(Storage(self.config, found), spec.id))
        if disks is not None and disks == shared and any(part.name in carrying.MIRRORED for part in having):
            how = "both hosts see its disks" if shared else f"its disks cannot be seen from {to.name}"
            raise Unfit(f"guest {spec.id} cannot be moved so: {how}")
        roots = [self.roots.disk(spec.id)] if self.roots is not None else []
        await self.fleet.run(to, secrets.ensure, [*rbd_disks(spec.volumes), *roots])
        if not shared:
            await self._based(source, to, spec.id)
            await self._between(source, to, carrying.prepare, spec.id, having)
        try:
            # A late migration is ended before this limit is reached.
            limit, uri = 2 * self.config.migration_timeout, to.peer_uri
            sent = Event()

            def send(found: Any) -> None:
                sent.set()
                migration.migrate(found, self.config, spec, uri, not shared)

            await self._attended(source, spec.id, self.fleet.within(limit, source, send), sent.is_set)
        except (DriverError, Aborted):
            if await self._has_arrived(spec.id, to):
                # Only the answer was lost.
                return
            if not shared:
                await self._take_back(to, spec.id)
            raise
        to.gained(spec.id)
        try:
            await self.clear(source, spec.id, to)
        except DriverError as error:
            raise Unreachable(f"guest {spec.id} has arrived, but {source.name} may have its disks: {error}") from error

    async def _has_arrived(self, id: str, to: Host) -> bool:
        """Whether a guest whose move ended somehow has arrived; if not, it goes on where it was. While one of the hosts
        does not answer this is unknown (False), and the call that settles the guest is repeated later.
        """
        try:
            return await self._settled(id, to) is to
        except DriverError as error:
            log.warn("it is not yet known on which side guest {id} runs: {why}", id=id, why=error)
            return False

    async def _take_back(self, to: Host, id: str) -> None:
        """Remove the disks prepared for a guest that did not arrive; the next move there would also clear them."""
        try:
            if await self.fleet.run(to, migration.standing, id) is Standing.ABSENT:
                await self.fleet.run(to, lambda found: Storage(self.config, found).remove_all(id))
        except DriverError as error:
            log.warn("disks prepared for guest {id} remain on host {host}: {why}", host=to.name, id=id, why=error)

    async def _attended(
        self, source: Host, id: str, going: Coroutine[Any, Any, T], sent: Callable[[], bool] = lambda: True
    ) -> T:
        """A late move is given up, or hurried if allowed; one that ended without notice is no longer awaited."""
        ending = partial(migration.hurry, config=self.config) if self.config.post_copy else migration.abort

        async def end() -> None:
            await self.fleet.copy(source, lambda found: ending(found, id=id))

        seen = Seen(sent)

        async def is_over() -> bool:
            return seen.is_over(await self.fleet.run(source, migration.is_leaving, id))

        return await attended(going, self.resources.clock, self.config, end, is_over)

    async def progress(self, id: str) -> MigrationProgress | None:
        host = await self.fleet.find(id)
        return None if host is None else await self.fleet.run(host, migration.progress, id)

    async def called_off(self, id: str) -> None:
        host = await self.fleet.find(id)
        if host is not None:
            await self.fleet.copy(host, migration.abort, id)
            if await self.fleet.run(host, migration.standing, id) is Standing.LEFT:
                await self._goes_on(host, id)

    async def _goes_on(self, host: Host, id: str) -> None:
        """Resume, wherever it belongs, a guest that stands still here and is not known to run. Raises HostDown."""
        async with self.fleet.locks.hold(id):
            towards = await self.fleet.run(host, migration.towards, id)
            # A guest moved by a release that did not note its destination may be on any of them.
            for other in [self.fleet.hosts[towards]] if towards in self.fleet.hosts else self.fleet.hosts.values():
                if other is not host and await self._one_of(host, other, id) is other:
                    break

    async def hurried(self, id: str) -> None:
        host = await self.fleet.find(id)
        if host is not None:
            await self.fleet.run(host, migration.hurry, self.config, id)

    # -- the disks

    async def carried(self, there: Host, host: Host, id: str) -> None:
        """The disks of a guest that is off are also on this host. Raises InvalidPower."""
        found = await self.fleet.run(there, guests.state, id, there.name)
        if found.power not in guests.OFF:
            raise InvalidPower(f"guest {id} is {found.power.value}; its size and host can only change while it is off")
        if not await self._share(there, host):
            having = await self._based(there, host, id)
            await self._between(there, host, carrying.carry, id, having)

    async def _based(self, there: Host, host: Host, id: str) -> list[Part]:
        """The files of a guest; the images that they are based on are on the other host afterwards."""
        having = await self.fleet.run(there, lambda found: carrying.parts(Storage(self.config, found), id))
        for base in {part.base for part in having if part.base is not None}:
            # The same lock that a guest made from the image takes.
            async with self.fleet.locks.hold(host.name, unquote(base.removeprefix(IMAGE))):
                await self._between(there, host, carrying.carry_base, base)
        return having

    async def _share(self, there: Host, host: Host) -> bool:
        return await self._between(there, host, carrying.shares)

    async def _between(
        self,
        there: Host,
        host: Host,
        fn: Callable[Concatenate[Storage, Storage, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`fn(storage there, storage here, …)`."""
        await host.connection.opened()

        def call(found: Any) -> T:
            def both(other: Any) -> T:
                return fn(Storage(self.config, found), Storage(self.config, other), *args, **kwargs)

            return host.connection.alone(both)

        return await self.fleet.copy(there, call)

    async def clear(self, host: Host, id: str, keeper: Host) -> None:
        """The host has nothing left of a guest that `keeper` has. Disks that both hosts see stay."""
        if await self._share(host, keeper):
            await self.fleet.run(host, migration.drop, id)
        else:
            await self.fleet.run(host, guests.remove, self.config, id)
        host.lost(id)
