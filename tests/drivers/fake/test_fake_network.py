"""The fake network backend: the public suite in each of its variants, and what is its own."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve
from twisted.internet.task import Clock

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.fake.network import Config, FakeNetworkBackend, create
from cloudctl.drivers.interfaces import INetworkBackend
from cloudctl.drivers.specs import (
    DriverResources,
    FixedIp,
    NetworkSpec,
    PortSpec,
    Route,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
)
from cloudctl.testing.network_suite import network_suite
from tests.there import there

SLOW = {name: 0.001 for name in methods(INetworkBackend) if name.startswith("ensure_")}


def in_memory(_directory: Path) -> FakeNetworkBackend:
    return create(Config(), DriverResources(clock=Clock(), name="fake"))


def durable(directory: Path) -> FakeNetworkBackend:
    return create(Config(durable=True), DriverResources(clock=Clock(), name="fake", state_dir=directory / "state"))


def slow(directory: Path) -> FakeNetworkBackend:
    from twisted.internet import reactor

    return create(Config(delays=SLOW), DriverResources(clock=reactor, name="fake"))


class TestInMemory(network_suite(in_memory)):
    pass


class TestDurable(network_suite(durable)):
    pass


class TestSlow(network_suite(slow)):
    """With delays, calls at once really overlap."""


async def test_what_is_kept_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = durable(tmp_path)
    subnet = SubnetSpec("s1", "10.0.0.0/24", host_routes=(Route("10.1.0.0/16", "10.0.0.9"),))
    port = PortSpec("p1", "n1", "fa:16:3e:00:00:01", (FixedIp("s1", "10.0.0.5"),), address_pairs=(("10.0.0.6", "x"),))
    router = RouterSpec("r1", gateway=RouterInterface("p2", "n1", "fa:16:3e:00:00:02", ("10.0.0.1/24",)))
    group = SecurityGroupSpec("g1", (SecurityGroupRule("ingress", "IPv4", "tcp", 22, 22),))
    await first.ensure_network(NetworkSpec("n1", "Netz", subnets=(subnet,)))
    await first.ensure_port(evolve(port, binding={"vif_type": "old"}), "host-1")
    await first.ensure_router(router)
    await first.ensure_security_group(group)
    second = durable(tmp_path)
    assert await second.inventory() == await first.inventory()
    assert there(second.networks.get("n1")).subnets == (subnet,)
    assert there(second.ports.get("p1")).spec == port
    assert second.routers.get("r1") == router
    assert second.groups.get("g1") == group


async def test_a_port_forgets_only_the_host_that_is_named() -> None:
    driver = in_memory(Path())
    await driver.ensure_network(NetworkSpec("n1"))
    for host in ("a", "b", "c"):
        await driver.ensure_port(PortSpec("p1", "n1", "fa:16:3e:00:00:01"), host)
    await driver.ensure_port_absent("p1", "b")
    assert (await driver.observe_port("p1")).hosts == ("a", "c")
    await driver.ensure_port_absent("p1")
    assert (await driver.inventory()).ports == ()
