"""Events to a message bus, where services of other clouds hear them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from cloudctl.drivers.boundary import call
from cloudctl.drivers.bus_interface import BusMessage
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IBusPublishing
from cloudctl.events.delivery import Outcome
from cloudctl.events.envelope import envelope
from cloudctl.events.tables import Event


@frozen
class ToBus:
    bus: IBusPublishing

    async def send(self, events: Sequence[Event]) -> Outcome:
        for number, event in enumerate(events):
            try:
                await call(self.bus.publish, BusMessage(event.id, event.priority.lower(), envelope(event)))
            except DriverError as error:
                return Outcome(number, why=str(error))
        return Outcome(len(events))
