"""The metadata service at 169.254.169.254, listening in the namespace of each network."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort, IReactorTime
from twisted.web.resource import IResource

from cloudctl.drivers.guest_site import GuestSite, Limited
from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.names import METADATA_ADDRESS

METADATA_PORT = 80
IDLE_SECONDS = 15.0  # an open connection keeps the namespace of a deleted network alive
GUEST_CONNECTIONS = 16  # at a time, from one guest
NETWORK_CONNECTIONS = 256  # from all guests on a network: they take this process's descriptors


def site(resource: IResource, clock: IReactorTime) -> Limited:
    return Limited(GuestSite(resource, clock, IDLE_SECONDS), GUEST_CONNECTIONS, NETWORK_CONNECTIONS)


@define(eq=False)
class MetadataService:
    """Nothing listens until `site_of` is set."""

    reactor: Any  # an IReactorSocket
    site_of: Callable[[str], IResource] | None = None
    listening: dict[str, IListeningPort] = field(factory=dict)

    def ensure(self, network_id: str, namespace: str) -> None:
        """Guests on the network, whose namespace has the address, are answered. Raises Unreachable."""
        if self.site_of is None or network_id in self.listening:
            return
        with inside.listening(namespace, METADATA_ADDRESS, METADATA_PORT) as made:
            # The reactor duplicates the descriptor.
            factory = site(self.site_of(network_id), self.reactor)
            self.listening[network_id] = self.reactor.adoptStreamPort(made.fileno(), socket.AF_INET, factory)

    def is_served(self, network_id: str) -> bool:
        """Whether guests on the network are answered, or nobody can be answered yet."""
        return self.site_of is None or network_id in self.listening

    async def ensure_absent(self, network_id: str) -> None:
        port = self.listening.pop(network_id, None)
        if port is not None:
            await maybeDeferred(port.stopListening)

    async def close(self) -> None:
        for network_id in list(self.listening):
            await self.ensure_absent(network_id)
