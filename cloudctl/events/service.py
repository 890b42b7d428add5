"""Events as a part of a cloud: its configuration decides who gets them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

from twisted.application.service import IService

from cloudctl.composition import Part, Service, Surroundings
from cloudctl.drivers.closing import Closing
from cloudctl.drivers.interfaces import IBusPublishing
from cloudctl.events.buses import ToBus
from cloudctl.events.delivery import LEASE, Delivery, Ordering
from cloudctl.events.options import BUS, EventOptions, of_webhook
from cloudctl.events.webhooks import Poster, Webhook
from cloudctl.rest.app import ApiApp
from cloudctl.rest.outgoing import permits
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    options = cloud.config.section(EventOptions)
    if options.stream:
        cloud.db.wishes.add("*")

    def build(http: Http) -> ApiApp:
        from cloudctl.events import api

        return api.build(http, cloud.db, cloud.clock, options)

    return Part(
        build,
        supports=(Closing(cloud.bus),),
        watches=(Ordering(cloud.clock, cloud.db, options), *_deliveries(cloud, options)),
    )


def _deliveries(cloud: Surroundings, options: EventOptions) -> Iterator[IService]:
    owner = uuid4().hex
    poster = Poster(cloud.reactor, permits(options.webhook_networks), options.webhook_timeout)
    for name, webhook in options.webhooks.items():
        send = Webhook(webhook, cloud.clock, poster.post).send
        lease = LEASE + options.webhook_timeout
        yield Delivery(cloud.clock, cloud.db, of_webhook(name), webhook.types, owner, send, lease)
    if IBusPublishing.providedBy(cloud.bus):
        yield Delivery(cloud.clock, cloud.db, BUS, options.bus_types, owner, ToBus(cloud.bus).send)


SERVICE = Service("cloudctl.events", "Events", compose, mount="events", options=EventOptions)
