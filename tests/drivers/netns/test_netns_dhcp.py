"""What dnsmasq is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import dhcp
from cloudctl.drivers.specs import FixedIp, NetworkSpec, PortSpec, Route, SubnetSpec

SUBNET = SubnetSpec("s1", "10.0.0.0/24", "10.0.0.1", dns_nameservers=("9.9.9.9", "2620:fe::9", "1.1.1.1"))
NETWORK = NetworkSpec("n1", mtu=1450, subnets=(SUBNET,))
PORT = PortSpec("p1", "n1", "FA-16-3E-00-00-01", (FixedIp("s1", "10.0.0.5"), FixedIp("s2", "10.1.0.5")))


def options(spec: NetworkSpec) -> dict[str, str]:
    """By name, without the tag."""
    found = {}
    for word in dhcp.arguments(spec, Path("/run/x"), 600):
        if word.startswith("--dhcp-option="):
            name, _, value = word.partition("=")[2].rpartition("tag:subnet0,")[2].partition(",")
            found[name] = value
    return found


def test_a_subnet_is_served_with_static_addresses_only() -> None:
    words = dhcp.arguments(NETWORK, Path("/run/x"), 600)
    assert "--dhcp-range=set:subnet0,10.0.0.0,static,255.255.255.0,600" in words
    assert "--shared-network=net0,10.0.0.0" in words
    assert "--dhcp-hostsdir=/run/x/hosts" in words


def test_guests_learn_router_name_servers_mtu_and_the_way_to_metadata() -> None:
    assert options(NETWORK) == {
        "option:mtu": "1450",
        "option:router": "10.0.0.1",
        "option:classless-static-route": "169.254.169.254/32,0.0.0.0,0.0.0.0/0,10.0.0.1",
        "option:dns-server": "9.9.9.9,1.1.1.1",
    }


def test_without_a_gateway_no_router_is_told_not_even_dnsmasq_itself() -> None:
    spec = evolve(NETWORK, subnets=(evolve(SUBNET, gateway_ip=None, dns_nameservers=()),))
    found = options(spec)
    assert found["option:router"] == ""
    assert found["option:classless-static-route"] == "169.254.169.254/32,0.0.0.0"
    assert "option:dns-server" not in found


def test_a_default_route_of_the_subnet_wins_over_its_gateway() -> None:
    routes = (Route("10.9.0.0/16", "10.0.0.7"), Route("0.0.0.0/0", "10.0.0.8"))
    found = options(evolve(NETWORK, subnets=(evolve(SUBNET, host_routes=routes),)))
    assert found["option:classless-static-route"].endswith("0.0.0.0,10.9.0.0/16,10.0.0.7,0.0.0.0/0,10.0.0.8")


@pytest.mark.parametrize("subnet", [evolve(SUBNET, enable_dhcp=False), SubnetSpec("s", "fd00::/64", "fd00::1")])
def test_a_network_without_dhcp_for_ipv4_needs_no_dnsmasq(subnet: Any) -> None:
    assert dhcp.arguments(evolve(NETWORK, subnets=(subnet,)), Path("/run/x"), 600) == []


def test_a_port_gets_the_addresses_of_the_subnets_that_have_dhcp() -> None:
    assert dhcp.hosts_file(PORT, NETWORK) == "fa:16:3e:00:00:01,10.0.0.5\n"
    assert dhcp.hosts_file(evolve(PORT, fixed_ips=()), NETWORK) == ""


@pytest.mark.parametrize(
    "spec",
    [
        evolve(NETWORK, subnets=(evolve(SUBNET, cidr="10.0.0.0/24,x"),)),
        evolve(NETWORK, subnets=(evolve(SUBNET, gateway_ip="10.0.0.1\n--dhcp-script=/x"),)),
        evolve(NETWORK, subnets=(evolve(SUBNET, dns_nameservers=("x",)),)),
        evolve(NETWORK, mtu=7),
    ],
    ids=["cidr", "gateway", "name server", "mtu"],
)
def test_what_is_no_address_never_reaches_the_command_line(spec: Any) -> None:
    with pytest.raises(Unfit):
        dhcp.arguments(spec, Path("/run/x"), 600)
