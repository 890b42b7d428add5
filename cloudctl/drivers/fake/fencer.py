"""A fencer of hosts that exist only by name: hosts of the fake hypervisor lose their power and get it back."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from zope.interface import implementer

from cloudctl.drivers.errors import UnknownHost, Unusable
from cloudctl.drivers.fake.behaviour import Behaviour, delays_of
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.interfaces import IFencer
from cloudctl.drivers.specs import DriverResources, HostInventory

INTERFACES = (IFencer,)


@frozen
class Config:
    """`[driver.fencer.fake]`"""

    delays: dict[str, float] = field(factory=dict, validator=delays_of(INTERFACES))  # method: seconds


def create(config: Config, resources: DriverResources) -> FakeFencer:
    return FakeFencer(resources.hypervisor, Behaviour(resources.clock, INTERFACES, dict(config.delays)))


@implementer(*INTERFACES)
@define(eq=False)
class FakeFencer:
    hypervisor: object  # whose hosts these are; None: nobody's
    behaviour: Behaviour
    fenced: set[str] = field(factory=set)
    starts: Callable[[str], None] | None = None  # what a host does when it gets power; None: it is up at once

    async def check(self) -> None:
        if self.hypervisor is not None and not isinstance(self.hypervisor, FakeHypervisor):
            raise Unusable("its word is worth nothing where hosts are real")

    async def close(self) -> None:
        """Nothing is open."""

    async def ensure_fenced(self, host: str) -> str:
        async with self.behaviour.around("ensure_fenced", host):
            if isinstance(self.hypervisor, FakeHypervisor) and self._machine(self.hypervisor, host).up:
                self.hypervisor.fail_host(host)
            self.fenced.add(host)
        return f"{host} has no power"

    async def ensure_unfenced(self, host: str) -> None:
        async with self.behaviour.around("ensure_unfenced", host):
            self.fenced.discard(host)
            if isinstance(self.hypervisor, FakeHypervisor) and not self._machine(self.hypervisor, host).up:
                (self.starts or self.hypervisor.recover_host)(host)

    def _machine(self, hypervisor: FakeHypervisor, host: str) -> HostInventory:
        if host not in hypervisor.machines:
            raise UnknownHost(host)
        return hypervisor.machines[host]
