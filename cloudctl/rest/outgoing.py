"""Connections to addresses that users name, which must not lead into the operator's own networks.

Names are resolved here, and the connection goes to an address that was checked: a name that resolves to another address
the second time gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import (
    IHostResolution,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IResolutionReceiver,
    IStreamClientEndpoint,
)
from twisted.internet.ssl import optionsForClientTLS
from twisted.web.client import URI
from zope.interface import implementer

from cloudctl.errors import CloudError

Ip = IPv4Address | IPv6Address
Permitted = Callable[[Ip], bool]

# What a reactor must have to connect; a Clock has none of it.
NETWORK = (IReactorTCP, IReactorPluggableNameResolver)

CONNECT_TIMEOUT = 30.0


class FetchError(CloudError):
    """The data cannot be fetched from there."""

    status = 502


class Unreached(FetchError):
    """Nobody answered; it may work later."""


# All that is allocated on the internet; RFC 4291, section 2.4. What is outside it leads nowhere, or into the operator's
# networks: through translators (64:ff9b::/96, ::ffff:0:0:0/96), to routers' segments (5f00::/16), formerly to sites.
GLOBAL = IPv6Network("2000::/3")
# Not public, though they look so: reserved for protocols, Teredo among them; 6to4 and its relays; documentation.
LEADING_ELSEWHERE: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(text) for text in ("2001::/23", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24")
)


def permits(networks: Iterable[str]) -> Permitted:
    """Whether to connect to an address: a public one, or one in these networks of the operator's."""
    allowed = [ip_network(text) for text in networks]

    def permitted(ip: Ip) -> bool:
        if isinstance(ip, IPv6Address):
            # ::ffff:10.0.0.1 is 10.0.0.1.
            ip = ip.ipv4_mapped or ip
        if any(ip in network for network in allowed):
            return True
        if isinstance(ip, IPv6Address) and ip not in GLOBAL:
            return False
        return ip.is_global and not ip.is_multicast and not any(ip in network for network in LEADING_ELSEWHERE)

    return permitted


@implementer(IResolutionReceiver)
class _Addresses:
    """Collects what a name resolves to."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.done: Deferred[list[str]] = Deferred()

    def resolutionBegan(self, resolution: IHostResolution) -> None: ...

    def addressResolved(self, address: Any) -> None:
        self.found.append(address.host)

    def resolutionComplete(self) -> None:
        if not self.done.called:
            self.done.callback(self.found)


@implementer(IStreamClientEndpoint)
@frozen
class PublicEndpoint:
    """Connects to a host if it is at a permitted address."""

    reactor: Any
    uri: URI
    permitted: Permitted

    def connect(self, factory: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(self._connect(factory))

    async def _connect(self, factory: Any) -> Any:
        host = self.uri.host.decode("ascii")
        receiver = _Addresses()
        self.reactor.nameResolver.resolveHostName(receiver, host.strip("[]"), self.uri.port)
        found = await receiver.done
        if not found or not all(self.permitted(ip_address(text.partition("%")[0])) for text in found):
            # One message for both: the caller is not told which names exist inside.
            raise Unreached(f"{host} has no public address.")
        for text in found[:-1]:
            try:
                return await self._endpoint(host, text).connect(factory)
            except ConnectError:
                # The next address may answer.
                continue
        return await self._endpoint(host, found[-1]).connect(factory)

    def _endpoint(self, host: str, text: str) -> Any:
        plain = HostnameEndpoint(self.reactor, text, self.uri.port, timeout=CONNECT_TIMEOUT)
        return wrapClientTLS(optionsForClientTLS(host), plain) if self.uri.scheme == b"https" else plain
