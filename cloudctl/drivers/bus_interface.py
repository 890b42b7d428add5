"""Buses of messages, by which services tell one another what happened. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from zope.interface import Interface

from cloudctl.drivers.driver_interface import IDriver


@frozen
class BusMessage:
    """A notification. `priority`: info, error. `body`: what is inside of the transport's own envelope."""

    id: str
    priority: str
    body: Mapping[str, Any]


Hear = Callable[[BusMessage], Awaitable[None]]


class IBus(IDriver):
    """A bus. One that leads nowhere is this much: what is noticed inside of the cloud needs none."""


class IBusListening(Interface):
    """Messages come from it."""

    async def listen(hear: Hear) -> None:
        """Have `hear(message)` called for each message from now on, one after the other, for as long as it takes.

        A message is done with once what `hear` returns has come; if it fails, or the process dies before, the message
        comes again. Returns when it has begun: the broker may be away, and is looked for until `close`.
        """


class IBusPublishing(Interface):
    """Messages go to it."""

    async def publish(message: BusMessage) -> None:
        """Returns when the bus has it. A repeat is a second message with the same id. Raises Unreachable."""
