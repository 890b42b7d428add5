"""The fencer `rbd`: Ceph accepts nothing more from the clients of a host, whatever becomes of the host.

A client is identified by the address from which it reaches the cluster. Once an address is on the monitors' blocklist,
every daemon that serves a client with the new map obeys the blocklist: each request names the newest map that its
sender has seen, and a daemon does not serve it before it has that map, too. So a client that opens a disk after this is
its only writer. Source: ceph(8).
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import orjson
from attrs import Attribute, field, frozen
from zope.interface import implementer

from cloudctl.drivers.errors import UnknownHost, Unreachable
from cloudctl.drivers.interfaces import IFencer
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.rbd.ceph import Runs, run
from cloudctl.drivers.rbd.options import Cluster
from cloudctl.drivers.specs import DriverResources

FOR_GOOD = 20 * 365 * 86_400  # seconds; an entry must have an end


def are_addresses(_config: object, _option: Attribute[Any], value: dict[str, list[str]]) -> None:
    for host, addresses in value.items():
        if not addresses:
            raise ValueError(f"{host} has no address")
        for each in addresses:
            ip_address(each)


@frozen
class Config(Cluster):
    """`[driver.fencer.rbd]`. The user has the rights mon "allow r, allow command \\"osd blocklist\\""."""

    # Host, as the hypervisor names it → all addresses from which its guests may reach Ceph.
    hosts: dict[str, list[str]] = field(factory=dict, validator=are_addresses)
    user: str = "fencer"
    keyring: Path = Path("/etc/ceph/ceph.client.fencer.keyring")


def create(config: Config, resources: DriverResources) -> RbdFencer:
    return RbdFencer(config, Programs(resources.reactor, resources.clock))


@implementer(IFencer)
@frozen(eq=False)
class RbdFencer:
    config: Config
    programs: Runs

    async def check(self) -> None:
        require("ceph")
        self.config.demand_key()

    async def close(self) -> None:
        """Nothing is open between two calls."""

    async def ensure_fenced(self, host: str) -> str:
        entries = self._entries(host)
        for each in entries:
            await self._ceph("osd", "blocklist", "add", each, str(FOR_GOOD))
        found = await self._listed()
        if missing := [each for each in entries if each not in found]:
            raise Unreachable(f"Ceph was told, and does not list {', '.join(missing)}")
        return f"Ceph lists {', '.join(entries)} of {host} as blocked"

    async def ensure_unfenced(self, host: str) -> None:
        entries = self._entries(host)
        found = await self._listed()
        for each in entries:
            if each in found:
                await self._ceph("osd", "blocklist", "rm", each)

    def _entries(self, host: str) -> list[str]:
        """In Ceph's notation: every client of an address."""
        if host not in self.config.hosts:
            raise UnknownHost(host)
        addresses = [ip_address(each) for each in self.config.hosts[host]]
        return [f"[{each}]:0/0" if each.version == 6 else f"{each}:0/0" for each in addresses]

    async def _listed(self) -> frozenset[str]:
        return frozenset(orjson.loads(await self._ceph("osd", "dump", "--format=json"))["blocklist"])

    async def _ceph(self, *words: str) -> bytes:
        return await run(self.programs, self.config, "ceph", *words)
