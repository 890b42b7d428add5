"""A floating address that is served on its port's own host does not need the gateway's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.specs import FloatingIp, RouterInterface, RouterSpec, SecurityGroupRule, SecurityGroupSpec
from tests.drivers.netns.probes import ping
from tests.drivers.netns.wishes import eventually
from tests.drivers.ovn.lab import CHASSIS, Lab, lab, lacking
from tests.drivers.ovn.ovsdb import Server, make_driver
from tests.drivers.ovn.test_ovn_live import EGRESS, FLOATING, NETWORK, PUBLIC, QUIET, port
from tests.needed import HOST, need

AWAY = "west"
OPEN = SecurityGroupSpec("friends", (EGRESS, SecurityGroupRule("ingress", "IPv4", "icmp")))
ROUTER = RouterSpec(
    "router",
    gateway=RouterInterface("gateway", "public", "fa:16:3e:fe:00:01", ("203.0.113.10/24",)),
    interfaces=(RouterInterface("inside", "network", "fa:16:3e:fe:00:02", ("10.7.0.1/24",)),),
    floating_ips=(FloatingIp("floating", FLOATING, "10.7.0.12", port_id=port(12).id),),
)


@pytest.fixture
def ovn() -> Iterator[Lab]:
    need(lacking(), HOST)
    with lab() as made:
        yield made


def driver_of(northbound: Server, distributed: bool) -> Any:
    return make_driver(northbound, gateway_chassis=[CHASSIS], datapath="netdev", distributed_floating_ips=distributed)


@pytest.mark.slow
async def test_it_is_reached_while_the_gateway_is_dead(ovn: Lab) -> None:
    driver = driver_of(ovn.northbound, distributed=True)
    with ovn.beside(AWAY) as west:
        ovn.reach_outside(west)
        for network in (NETWORK, PUBLIC):
            await driver.ensure_network(network)
        await driver.ensure_security_group(OPEN)
        await driver.ensure_router(ROUTER)
        guest = west.guest(port(12), await driver.ensure_port(port(12), AWAY))
        guest.settle("10.7.0.12/24", "10.7.0.1")
        ovn.settled()
        assert ping(ovn.outside, FLOATING)
        ovn.kill("ovs-vswitchd")
        assert ping(ovn.outside, FLOATING), "by its own host"

        other = driver_of(ovn.northbound, distributed=False)
        await other.ensure_router(ROUTER)
        await eventually(lambda: not ping(ovn.outside, FLOATING, patience=QUIET))
        assert ovn.complaints() == []
        await other.close()
    await driver.close()


async def test_who_serves_it_follows_the_port_and_the_option(northbound: Server) -> None:
    def served() -> Any:
        [found] = [each for each in northbound.rows("NAT", "type", "logical_port") if each["type"] == "dnat_and_snat"]
        return found["logical_port"]

    driver = driver_of(northbound, distributed=True)
    for network in (NETWORK, PUBLIC):
        await driver.ensure_network(network)
    await driver.ensure_security_group(OPEN)
    await driver.ensure_router(ROUTER)
    nobody, there = ["set", []], port(12).id
    assert served() == nobody, "a port on no host"
    await driver.ensure_port(port(12), AWAY)
    assert served() == there
    await driver.ensure_port(evolve(port(12), security_groups=()), AWAY)
    assert served() == there
    await driver.ensure_port_absent(port(12).id)
    assert served() == nobody
    await driver.ensure_port(port(12), AWAY)
    await driver.close()

    # The option alone makes a difference, which the audit finds.
    other = driver_of(northbound, distributed=False)
    assert await other.drifted() == {"router"}
    await other.ensure_router(ROUTER)
    assert served() == nobody
    await other.close()
