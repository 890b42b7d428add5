"""Compute as a part of a cloud: how it learns of hosts and guests, and what it offers to guests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted.application.service import IService

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.compute import audit, guests, lifecycle
from cloudctl.compute.bootstrap import bootstrap
from cloudctl.compute.consoles import Rights
from cloudctl.compute.ended import ENDED
from cloudctl.compute.guest_watch import GuestWatch
from cloudctl.compute.host_watch import HostWatch
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.overdue import Overdue
from cloudctl.db import Connection
from cloudctl.drivers.guest_site import GuestSite, Limited
from cloudctl.drivers.interfaces import IGuestEvents, IGuestMetadata
from cloudctl.image.store import ImageStore
from cloudctl.network.options import chosen as network_options
from cloudctl.rest.app import ApiApp
from cloudctl.rest.connections import Listener
from cloudctl.rest.pipeline import Http
from cloudctl.volume.options import chosen as volume_options

if TYPE_CHECKING:
    from cloudctl.compute.console_server import ConsoleServer

# Of the proxies that forward what guests ask for: connections of one host, and of all, and seconds that one may idle.
PROXY_CONNECTIONS = 64
ALL_PROXY_CONNECTIONS = 1024
PROXY_IDLE_SECONDS = 60.0


def compose(cloud: Surroundings) -> Part:
    options = cloud.config.section(ComputeOptions)
    of_volumes, of_networks = volume_options(cloud.config), network_options(cloud.config, cloud.network)
    host_watch = HostWatch(cloud.clock, cloud.db, cloud.hypervisor, options)
    consoles = tuple(_consoles(cloud, options))

    def first_rows(conn: Connection, first: FirstStart) -> None:
        bootstrap(conn, first.now)

    def build(http: Http) -> ApiApp:
        from cloudctl.compute import api

        return api.build(http, cloud.db, cloud.hypervisor, options, of_volumes, of_networks)

    return Part(
        build,
        lifecycle.workflows(options),
        checks={"hypervisor": audit.check(cloud.db, cloud.hypervisor)},
        bootstrap=first_rows,
        watches=(
            host_watch,
            Overdue(cloud.clock, cloud.db, options),
            *_for_guests(cloud, options),
            *(each for server in consoles for each in _listening(cloud, options, server)),
        ),
        shown=(host_watch, *consoles),
        places=guests.places,
    )


def _for_guests(cloud: Surroundings, options: ComputeOptions) -> Iterator[IService]:
    if IGuestMetadata.providedBy(cloud.network):
        from cloudctl.compute.api import guest_metadata

        site_of = guest_metadata.build(cloud.db, cloud.made(ImageStore).path)
        yield guest_metadata.MetadataService(cloud.network, site_of)
    if options.metadata_listen and not cloud.in_memory:
        from cloudctl.compute.api.guest_metadata import ForwardedMetadata

        answering = ForwardedMetadata(cloud.db, cloud.made(ImageStore).path, options.metadata_secret)
        site = GuestSite(answering, cloud.clock, PROXY_IDLE_SECONDS)
        proxies = Limited(site, PROXY_CONNECTIONS, ALL_PROXY_CONNECTIONS)
        yield Listener("compute.metadata_listen", options.metadata_listen, proxies, cloud.reactor)
    if IGuestEvents.providedBy(cloud.hypervisor):
        yield GuestWatch(cloud.clock, cloud.db, cloud.hypervisor)


def _consoles(cloud: Surroundings, options: ComputeOptions) -> Iterator[ConsoleServer]:
    if options.console_listen:
        # Most clouds offer none, and need not import WebSockets when they start.
        from cloudctl.compute.console_server import ConsoleServer

        rights = Rights(cloud.db, cloud.authenticator, cloud.policy)
        yield ConsoleServer(cloud.clock, rights, cloud.hypervisor, options)


def _listening(cloud: Surroundings, options: ComputeOptions, consoles: ConsoleServer) -> Iterator[IService]:
    yield consoles.rounds()
    if not cloud.in_memory:
        yield Listener("compute.console_listen", options.console_listen, consoles, cloud.reactor)


SERVICE = Service(
    "cloudctl.compute",
    "Compute",
    compose,
    mount="compute",
    options=ComputeOptions,
    catalog=(CatalogEntry("compute", "nova", "{base_url}/compute/v2.1"),),
    ended=ENDED,
)
