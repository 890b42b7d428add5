"""Packets through an OVN that is told by the driver: two guests, a router, and what is outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from cloudctl.drivers.specs import (
    FixedIp,
    FloatingIp,
    NetworkSpec,
    PortForwarding,
    PortSpec,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
)
from tests.drivers.netns.lab import run
from tests.drivers.netns.probes import connects, ping
from tests.drivers.ovn.lab import CHASSIS, OUTSIDE, Lab, lab, lacking
from tests.drivers.ovn.ovsdb import make_driver
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

SUBNET = SubnetSpec("subnet", "10.7.0.0/24", "10.7.0.1", dns_nameservers=("10.7.0.53",))
NETWORK = NetworkSpec("network", mtu=1450, subnets=(SUBNET,))
PUBLIC = NetworkSpec(
    "public",
    network_type="flat",
    physical_network="public",
    external=True,
    subnets=(SubnetSpec("outside", "203.0.113.0/24", OUTSIDE, enable_dhcp=False),),
)
EGRESS = SecurityGroupRule("egress", "IPv4")
FRIENDS = SecurityGroupSpec("friends", (EGRESS, SecurityGroupRule("ingress", "IPv4", remote_group_id="friends")))
FLOATING, FORWARDED = "203.0.113.50", "203.0.113.51"
QUIET = 2.0  # seconds after which what has not come counts as dropped


def port(number: int) -> PortSpec:
    made = PortSpec(f"{number:08d}-port", "network", f"fa:16:3e:00:00:{number:02x}", mtu=1450)
    return evolve(made, fixed_ips=(FixedIp("subnet", f"10.7.0.{number}"),), security_groups=("friends",))


@pytest.fixture
def ovn() -> Iterator[Lab]:
    need(lacking(), HOST)
    with lab() as made:
        yield made


async def test_guests_reach_each_other_and_the_outside_as_their_groups_let_them(ovn: Lab) -> None:
    driver = make_driver(ovn.northbound, gateway_chassis=[CHASSIS], datapath="netdev")
    await driver.ensure_network(NETWORK)
    await driver.ensure_network(PUBLIC)
    await driver.ensure_security_group(FRIENDS)
    bindings = [await driver.ensure_port(port(number), CHASSIS) for number in (11, 12)]
    one, two = (ovn.guest(port(number), binding) for number, binding in zip((11, 12), bindings, strict=True))
    router = RouterSpec(
        "router",
        gateway=RouterInterface("gateway", "public", "fa:16:3e:fe:00:01", ("203.0.113.10/24",)),
        interfaces=(RouterInterface("inside", "network", "fa:16:3e:fe:00:02", ("10.7.0.1/24",)),),
        floating_ips=(FloatingIp("floating", FLOATING, "10.7.0.12"),),
    )
    await driver.ensure_router(router)
    ovn.settled()

    for guest, address in ((one, "10.7.0.11"), (two, "10.7.0.12")):
        lease = await guest.lease()
        assert (lease["ip"], lease["router"], lease["mtu"]) == (address, "10.7.0.1", "1442")
        guest.ip("route", "add", "default", "via", lease["router"])
    assert one.ping("10.7.0.12"), "within the network"
    assert one.ping(OUTSIDE), "by the router's own address"
    assert two.ping(OUTSIDE), "by the floating address"
    one.ip("address", "add", "10.7.0.99/24", "dev", "eth0")
    assert not one.ping("10.7.0.12", source="10.7.0.99", patience=QUIET), "with an address of nobody's"

    assert not ping(ovn.outside, FLOATING, patience=QUIET), "before a rule lets it"
    open_to_all = SecurityGroupRule("ingress", "IPv4", "icmp", remote_prefix="203.0.113.0/24")
    await driver.ensure_security_group(evolve(FRIENDS, rules=(*FRIENDS.rules, open_to_all)))
    ovn.settled()
    assert ping(ovn.outside, FLOATING), "once a rule lets it"
    # Which it was told unasked may be forgotten.
    run("ip", "-n", ovn.outside, "neighbour", "flush", "dev", "eth0")
    assert ping(ovn.outside, FLOATING), "as often as it is asked for"

    web = PortForwarding("forwarding", "tcp", FORWARDED, 8080, "10.7.0.12", 80)
    await driver.ensure_router(evolve(router, port_forwardings=(web,)))
    to_web = SecurityGroupRule("ingress", "IPv4", "tcp", 80, 80)
    await driver.ensure_security_group(evolve(FRIENDS, rules=(*FRIENDS.rules, to_web)))
    ovn.settled()
    with two.listen(80), two.listen(81):
        assert connects(ovn.outside, FORWARDED, 8080), "by a forwarded port"
        assert connects(ovn.outside, FLOATING, 80), "by the floating address"
        assert not connects(ovn.outside, FLOATING, 81, patience=QUIET), "to a port that no rule opens"
    assert ovn.complaints() == []
    await driver.close()
