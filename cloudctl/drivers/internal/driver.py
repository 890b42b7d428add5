"""A bus that leads nowhere: parts of the cloud tell each other things in the database, in the same transaction."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from cloudctl.drivers.interfaces import IBus
from cloudctl.drivers.specs import DriverResources


@frozen
class Config:
    """`[driver.bus.internal]`"""


def create(config: Config, resources: DriverResources) -> InternalBus:
    return InternalBus()


@implementer(IBus)
@frozen
class InternalBus:
    async def check(self) -> None:
        """There is nothing to check."""

    async def close(self) -> None:
        """Nothing is open."""
