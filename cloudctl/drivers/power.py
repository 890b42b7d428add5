"""A fencer that cuts the power of hosts. A driver only adds how to query and command one power controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from cloudctl.drivers.errors import UnknownHost, Unreachable
from cloudctl.drivers.interfaces import IFencer

LOOK_SECONDS = 1.0


class Controller(Protocol):
    """Controls the power of one host. Its methods raise Unreachable and other DriverErrors."""

    @property
    def name(self) -> str:
        """For people, without secrets."""
        ...

    async def is_on(self) -> bool:
        """The power as the controller measures it now. Raises Unreachable also if the controller does not know."""
        ...

    async def switch(self, on: bool) -> None:
        """Send the command; `is_on` shows whether it took effect. Off is immediate: no guest is asked to shut down."""
        ...


@implementer(IFencer)
@frozen(eq=False)
class PowerFencer:
    """`within`: seconds in which a host must be off, or on, after the command. `usable` raises Unusable."""

    controllers: Mapping[str, Controller]
    clock: IReactorTime
    within: float
    usable: Callable[[], None]

    async def check(self) -> None:
        self.usable()

    async def close(self) -> None:
        """Nothing is open between two calls."""

    async def ensure_fenced(self, host: str) -> str:
        found = self._of(host)
        await self._ensure(found, on=False)
        return f"{found.name} measures that {host} has no power"

    async def ensure_unfenced(self, host: str) -> None:
        await self._ensure(self._of(host), on=True)

    def _of(self, host: str) -> Controller:
        if host not in self.controllers:
            raise UnknownHost(host)
        return self.controllers[host]

    async def _ensure(self, controller: Controller, *, on: bool) -> None:
        if await controller.is_on() is on:
            return
        await controller.switch(on)
        end = self.clock.seconds() + self.within
        while await controller.is_on() is not on:
            if self.clock.seconds() >= end:
                raise Unreachable(f"{controller.name} was told, and the host is still {'off' if on else 'on'}")
            pause: Deferred[None] = deferLater(self.clock, LOOK_SECONDS)
            await pause
