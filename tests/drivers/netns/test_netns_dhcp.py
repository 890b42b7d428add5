"""What dnsmasq is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import advertisements, dhcp
from cloudctl.drivers.netns.routing import Leg
from cloudctl.drivers.specs import DhcpOption, FixedIp, NetworkSpec, PortSpec, Route, RouterInterface, SubnetSpec

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


def six(mode: str | None, **changes: Any) -> SubnetSpec:
    found = SubnetSpec("s6", "fd00:1::/64", "fd00:1::1", ipv6_address_mode=mode, ipv6_ra_mode=mode)
    return evolve(found, **changes)


@pytest.mark.parametrize(
    ("mode", "served", "known"),
    [
        ("slaac", False, ""),
        ("dhcpv6-stateless", True, ""),
        ("dhcpv6-stateful", True, "fa:16:3e:00:00:01,[fd00:1::5]\n"),
    ],
)
def test_addresses_of_ipv6_are_given_only_where_they_do_not_follow_from_the_mac(
    mode: str, served: bool, known: str
) -> None:
    spec = evolve(NETWORK, subnets=(six(mode),))
    words = dhcp.arguments(spec, Path("/run/x"), 600)
    assert ("--dhcp-range=set:subnet0,fd00:1::,static,64,600" in words) is served
    assert dhcp.hosts_file(evolve(PORT, fixed_ips=(FixedIp("s6", "fd00:1::5"),)), spec) == known


@pytest.mark.parametrize(
    ("mode", "said"), [("slaac", "ra-only"), ("dhcpv6-stateless", "ra-stateless"), ("dhcpv6-stateful", "static")]
)
def test_a_router_tells_of_the_subnets_it_is_in_and_gives_no_addresses(mode: str, said: str) -> None:
    network = evolve(
        NETWORK, subnets=(SUBNET, six(mode, dns_nameservers=("fd00::53",)), six("slaac", cidr="fd00:2::/64"))
    )
    leg = Leg(RouterInterface("p", "n1", "fa:16:3e:00:00:02", ("10.0.0.1/24", "fd00:1::1/64")), network, "b", 1)
    words = advertisements.arguments({"i0": leg}, Path("/run/x"))
    assert [word for word in words if "range" in word] == [f"--dhcp-range=set:subnet0,fd00:1::,{said},64"]
    assert "--dhcp-option=tag:subnet0,option6:dns-server,[fd00::53]" in words and "--dhcp-ignore=tag:!known" in words
    assert advertisements.arguments({"i0": evolve(leg, gateway=True)}, Path("/run/x")) == []
    with pytest.raises(Unfit):
        advertisements.arguments({"i0": evolve(leg, network=evolve(network, subnets=(six("x\n"),)))}, Path("/run/x"))


def test_a_port_is_told_its_own_options() -> None:
    port = evolve(PORT, dhcp_options=(DhcpOption("bootfile-name", "pxe,0"), DhcpOption("23", "[::1]", 6)))
    assert dhcp.options_file(port, NETWORK) == "tag:p1,option:bootfile-name,pxe,0\ntag:p1,option6:23,[::1]\n"
    assert dhcp.hosts_file(port, NETWORK) == "fa:16:3e:00:00:01,set:p1,10.0.0.5\n"
    assert dhcp.hosts_file(evolve(port, fixed_ips=()), NETWORK) == "fa:16:3e:00:00:01,set:p1\n"
    for name, value in (("mtu", "1\ndhcp-script=/x"), ("mtu\n", "1"), ("a,b", "1")):
        with pytest.raises(Unfit):
            dhcp.options(evolve(PORT, dhcp_options=(DhcpOption(name, value),)))


def test_what_dnsmasq_would_read_as_two_options_is_refused() -> None:
    """The second would be for other ports, too."""
    room = dhcp.LINE - len("tag:p1,6,\n")
    for value, fits in (("a" * room, True), ("a" * (room + 1), False), ("\U0001f600" * 255 + "6,10.6.6.6", False)):
        port = evolve(PORT, dhcp_options=(DhcpOption("6", value),))
        if fits:
            assert len(dhcp.options(port)) == dhcp.LINE
        else:
            with pytest.raises(Unfit):
                dhcp.options(port)
            # An earlier release may have stored it.
            assert dhcp.options_file(port, NETWORK) == ""


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
