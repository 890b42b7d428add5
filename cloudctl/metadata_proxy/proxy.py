"""The service that keeps a host's networks answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from treq.client import HTTPClient
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.web.client import Agent, HTTPConnectionPool

from cloudctl.drivers.errors import DriverError, Unusable
from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.metadata import MetadataService
from cloudctl.drivers.netns.names import METADATA_ADDRESS, SHORT, short, written
from cloudctl.drivers.ovn.connection import Connection, Database, check_files
from cloudctl.drivers.ovn.networks import METADATA
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.programs import Programs, require
from cloudctl.errors import ConfigError
from cloudctl.metadata_proxy.forwarding import Forwarding, Upstream
from cloudctl.metadata_proxy.southbound import Bindings
from cloudctl.tasks.rounds import Rounds
from cloudctl.trouble import Trouble

log = Logger()

PERIOD = 1.0  # seconds from one look at the host's guests to the next
CONNECT_SECONDS = 5.0
PREFIX = "ccm"  # of our namespaces and links
OURS = re.compile(rf"{PREFIX}(-.+|.{{{SHORT}}})")
INNER = "eth0"
VSCTL = "ovs-vsctl"
NEEDED = ("southbound", "metadata_urls", "metadata_secret")


def create(config: Config, reactor: Any) -> MetadataProxy:
    """Raises ConfigError for options, programs or files that are missing."""
    if missing := [f"driver.network.ovn: metadata-proxy needs {name}" for name in NEEDED if not getattr(config, name)]:
        raise ConfigError(missing)
    try:
        require("ip", VSCTL)
        check_files(config)
    except Unusable as error:
        raise ConfigError([f"driver.network.ovn: {error}"]) from error
    southbound = Database("southbound database", "OVN_Southbound", config.southbound, Bindings)
    agent = Agent(reactor, connectTimeout=CONNECT_SECONDS, pool=HTTPConnectionPool(reactor))
    upstream = Upstream(HTTPClient(agent), reactor, list(config.metadata_urls), config.metadata_secret)
    return MetadataProxy(config, reactor, Connection(southbound, config, reactor, reactor), upstream)


class MetadataProxy(Rounds):
    """Every network of a guest here is served, and no other."""

    def __init__(self, config: Config, reactor: Any, southbound: Connection[Bindings], upstream: Upstream) -> None:
        super().__init__(reactor, PERIOD, "cannot serve metadata")
        self.config = config
        self.programs = Programs(reactor, reactor)
        self.kernel = Kernel(self.programs)
        self.southbound = southbound
        self.metadata = MetadataService(reactor, lambda network_id: Forwarding(upstream, network_id))
        self.chassis = ""
        self.made: set[str] = set()  # networks that may have a namespace
        self.unserved = Trouble(log, self.trouble, "metadata is served again", LogLevel.error)

    def stopService(self) -> Deferred[None]:
        return ensureDeferred(self._stop(super().stopService()))

    async def _stop(self, under_way: Deferred[None] | None) -> None:
        # First: the round under way may be waiting for an answer of it.
        await self.southbound.close()
        if under_way is not None:
            await under_way
        await self.metadata.close()

    async def look(self) -> None:
        try:
            await self._serve()
        except DriverError as error:
            if self.running:
                self.unserved.is_met(error)
        else:
            self.unserved.is_over()

    async def _serve(self) -> None:
        if not self.chassis:
            named = await self._ask_switch("get", "open_vswitch", ".", "external_ids:system-id")
            await self._begin_anew()
            self.chassis = named.decode().strip().strip('"')
        wanted: Mapping[str, str] = await self.southbound.read(lambda bindings: bindings.networks(self.chassis))
        troubles = []
        for network_id in wanted.keys() - self.metadata.listening.keys() | self.made - wanted.keys():
            try:
                await self._change(network_id, wanted.get(network_id))
            except DriverError as error:
                # What is wrong with one network is nothing to the others.
                troubles.append(error)
        if troubles:
            raise troubles[0]

    async def _change(self, network_id: str, mac: str | None) -> None:
        """`mac`: of its port for metadata; None: it has no guest here."""
        if mac is None:
            await self._ensure_absent(network_id)
            self.made.remove(network_id)
        else:
            self.made.add(network_id)
            await self._ensure(network_id, mac)
            log.info("answers guests on network {network}", network=network_id)

    async def _begin_anew(self) -> None:
        """Nobody is answered yet, and what is left of an earlier process may be half made."""
        ports = (await self._ask_switch("list-ports", self.config.bridge)).decode().split()
        for link in ports:
            if is_ours(link):
                await self._unplug(link)
        for namespace in self.kernel.namespaces():
            if is_ours(namespace):
                await self.kernel.remove_namespace(namespace)

    async def _ensure(self, network_id: str, mac: str) -> None:
        namespace, link = names(network_id)
        await self.kernel.ensure_namespace(namespace)
        if INNER not in await self.kernel.links(namespace):
            await self.kernel.batch("", [f"link add {link} type veth peer name {INNER} netns {namespace}"])
        inner = (
            f"link set dev {INNER} address {mac} addrgenmode none up",
            f"address replace {METADATA_ADDRESS}/32 dev {INNER}",
            # Guests have whatever addresses their tenants gave them, and all of them are on this link.
            f"route replace default dev {INNER} scope link src {METADATA_ADDRESS}",
        )
        await self.kernel.batch(namespace, inner)
        if self.config.datapath == "netdev":
            inside.compute_checksums(namespace, INNER)
        await self.kernel.batch("", [f"link set dev {link} addrgenmode none up"])
        told = f"external_ids:iface-id={json.dumps(METADATA + network_id)}"
        plugged = ("--", "set", "Interface", link, told)
        await self._change_switch("--may-exist", "add-port", self.config.bridge, link, *plugged)
        self.metadata.ensure(network_id, namespace)

    async def _ensure_absent(self, network_id: str) -> None:
        namespace, link = names(network_id)
        await self.metadata.ensure_absent(network_id)
        await self._unplug(link)
        await self.kernel.remove_namespace(namespace)

    async def _unplug(self, link: str) -> None:
        await self._change_switch("--if-exists", "del-port", link)
        if link in await self.kernel.links(""):
            await self.kernel.batch("", [f"link del dev {link}"])

    async def _ask_switch(self, *words: str) -> bytes:
        return await self.programs.read(VSCTL, *self._database(), *words, timeout=self.config.answer_timeout)

    async def _change_switch(self, *words: str) -> None:
        await self.programs.change(VSCTL, *self._database(), *words, timeout=self.config.answer_timeout)

    def _database(self) -> tuple[str, ...]:
        return (f"--db={self.config.ovs_db}",) if self.config.ovs_db else ()


def is_ours(name: str) -> bool:
    """Whether it is a name from `names`."""
    return OURS.fullmatch(name) is not None


def names(network_id: str) -> tuple[str, str]:
    """Of a network's namespace, and of the link from the host to it."""
    return f"{PREFIX}-{written(network_id)}", f"{PREFIX}{short(network_id)}"
