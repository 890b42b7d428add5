"""Several hosts on one machine: their namespaces, joined for VXLAN by a bridge in a further namespace."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from itertools import islice

from attrs import define, field
from twisted.internet.defer import DeferredLock

from cloudctl.drivers.netns import links
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.netns.rules import BRIDGE_SYSCTLS


def addresses(underlay: str, hosts: Mapping[str, str]) -> dict[str, str | None]:
    """The address of each host, in order; None for a single host. Raises ValueError if there are too few."""
    if len(hosts) == 1:
        return dict.fromkeys(hosts)
    free = list(islice(IPv4Network(underlay).hosts(), len(hosts)))
    if len(free) < len(hosts):
        raise ValueError(f"the underlay {underlay} has no room for {len(hosts)} hosts")
    return {host: str(address) for host, address in zip(hosts, free, strict=True)}


@define(eq=False)
class Underlay:
    kernel: Kernel
    names: Names
    hosts: Mapping[str, str]  # host → namespace
    network: IPv4Network
    addresses: Mapping[str, str | None]
    _lock: DeferredLock = field(factory=DeferredLock)
    _ready: bool = False

    async def ensure(self) -> None:
        """Every host's namespace exists, passes bridged packets to nftables, and reaches the others."""
        if self._is_there():
            return
        async with self._lock:
            if not self._is_there():
                self._ready = False
                await self._make()
                self._ready = True

    def _is_there(self) -> bool:
        return self._ready and all(map(self.kernel.has_namespace, self._namespaces()))

    def _namespaces(self) -> list[str]:
        own = [] if len(self.hosts) == 1 else [self.names.underlay_namespace]
        return [*own, *self.hosts.values()]

    async def _make(self) -> None:
        for namespace in self._namespaces():
            await self.kernel.ensure_namespace(namespace)
        for number, (host, namespace) in enumerate(self.hosts.items()):
            own = self.addresses[host]
            cidr = None if own is None else f"{own}/{self.network.prefixlen}"
            found = await self.kernel.links(namespace)
            if namespace or cidr:
                await self.kernel.batch(namespace, links.host_lines(self.names, found, number, cidr))
            await self.kernel.sysctl(namespace, *BRIDGE_SYSCTLS)
        if len(self.hosts) > 1:
            joined = self.names.underlay_namespace
            found = await self.kernel.links(joined)
            await self.kernel.batch(joined, links.underlay_lines(found, range(len(self.hosts))))
