"""Message buses, over which services tell one another what happened. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from zope.interface import Interface

from cloudctl.drivers.driver_interface import IDriver

PUBLISH_SECONDS = 60.0


@frozen
class BusMessage:
    """A notification. `priority`: info, error. `body`: what the transport's own envelope contains."""

    id: str
    priority: str
    body: Mapping[str, Any]


Hear = Callable[[BusMessage], Awaitable[None]]


class IBus(IDriver):
    """A bus. A bus that leads nowhere provides only this: what the cloud notices by itself needs no bus."""


class IBusListening(Interface):
    """Messages can be received from it."""

    async def listen(hear: Hear) -> None:
        """From now on call `hear(message)` for each message, one at a time, however long each call takes.

        A message is done with once the result of `hear` has arrived; if that fails, or the process dies first, the
        message comes again. Returns as soon as it has begun: the broker may be away, and is tried until `close`.
        """


class IBusPublishing(Interface):
    """Messages can be sent to it."""

    async def publish(message: BusMessage) -> None:
        """Return once the bus has the message. A repeat is a second message with the same id. Raises Unreachable.

        It is cancelled after `PUBLISH_SECONDS`, and repeated later: another process might take the message over.
        """
