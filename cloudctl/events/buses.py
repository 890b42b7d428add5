"""Events to a message bus, where services of other clouds hear them."""

from __future__ import annotations

from attrs import frozen

from cloudctl.drivers.boundary import call
from cloudctl.drivers.bus_interface import BusMessage
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IBusPublishing
from cloudctl.events.delivery import Undelivered
from cloudctl.events.envelope import envelope
from cloudctl.events.tables import Event


@frozen
class ToBus:
    bus: IBusPublishing

    async def send(self, event: Event) -> bool:
        """Raises Undelivered."""
        try:
            await call(self.bus.publish, BusMessage(event.id, event.priority.lower(), envelope(event)))
        except DriverError as error:
            raise Undelivered(str(error)) from error
        return True
