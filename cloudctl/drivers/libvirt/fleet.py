"""The hosts of the driver: which of them has a guest, and calls to their libvirtds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import define, field

from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, UnknownHost, Unreachable
from cloudctl.drivers.libvirt import guests
from cloudctl.drivers.libvirt.guests import Claim, Made
from cloudctl.drivers.libvirt.host import Host, told
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.locks import Locks

P = ParamSpec("P")
T = TypeVar("T")


@define(eq=False)
class Fleet:
    config: Config
    hosts: Mapping[str, Host]  # by their names
    # One call per guest, or per image on a host, at a time.
    locks: Locks = field(factory=Locks, init=False)

    # -- where

    def named(self, name: str) -> Host:
        """Raises UnknownHost."""
        if name not in self.hosts:
            raise UnknownHost(name)
        return self.hosts[name]

    @asynccontextmanager
    async def at(self, id: str) -> AsyncIterator[Host]:
        """The host of a guest, which is locked meanwhile. Raises UnknownGuest, HostDown."""
        async with self.locks.hold(id):
            yield await self.where(id)

    async def where(self, id: str) -> Host:
        """Raises UnknownGuest, HostDown."""
        found = await self.find(id)
        if found is None:
            raise UnknownGuest(id)
        return found

    async def find(self, id: str, *, of_those_up: bool = False) -> Host | None:
        """The guest's host: of those that have it, the one where it was defined last and has not been left.

        Raises HostDown, or Unreachable, if the guest was, or may be, on a host that is down; `of_those_up`: hosts that
        are down are ignored.
        """
        down: list[HostDown | Unreachable] = []
        likely = [host for host in self.hosts.values() if host.guests is None or id in host.guests]
        others = [host for host in self.hosts.values() if host not in likely]
        found: dict[Host, Made] = {}
        for group in (likely, others):
            is_on = False
            for host in group:
                try:
                    made = await self.run(host, guests.made, id)
                    if made is not None:
                        found[host], is_on = made, is_on or made.claim > Claim.LEFT
                except (HostDown, Unreachable) as error:
                    if not of_those_up and (host.guests is None or id in host.guests):
                        down.append(error)
                except DriverError:
                    # What is wrong with a host is nothing to a guest that was never there.
                    if host in likely:
                        raise
            # A copy that is off may be left over on a host that was down, one that stands still may be left over by
            # libvirt: then the guest is elsewhere.
            if is_on:
                break
        if found:
            return max(found, key=lambda host: found[host])
        if down:
            raise down[0]
        return None

    # -- calls

    async def run(self, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.within(0.0, host, fn, *args, **kwargs)

    async def copy(self, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.within(self.config.copy_timeout, host, fn, *args, **kwargs)

    async def within(
        self, seconds: float, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`seconds`: how long the call itself waits. libvirt's errors are passed on in its words."""
        limit = seconds + self.config.answer_timeout
        with told(host.name):
            return await host.connection.run_within(limit, fn, *args, **kwargs)

    async def apart(self, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """With a connection that is not used for anything else and, if all goes well, belongs to the caller."""
        with told(host.name):
            return await host.connection.apart(fn, *args, **kwargs)
