"""IPv6 on real networks: what guests hear of routers, and what they get by DHCPv6; and options of DHCP."""

from __future__ import annotations

import secrets
import socket
import struct
from contextlib import closing, suppress
from ipaddress import IPv6Address

from attrs import evolve

from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.spoofing import link_local
from cloudctl.drivers.specs import (
    DhcpOption,
    FixedIp,
    PortSpec,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SubnetSpec,
)
from tests.drivers.netns.lab import Guest, Lab, run
from tests.drivers.netns.probes import PATIENCE
from tests.drivers.netns.wishes import NETWORK, OPEN, PUBLIC, SILENCE, TWIN, ensure, eventually, port, router

OPEN6 = evolve(OPEN, rules=(*OPEN.rules, SecurityGroupRule("egress", "IPv6"), SecurityGroupRule("ingress", "IPv6")))


def six(prefix: str, mode: str) -> SubnetSpec:
    return SubnetSpec(
        prefix,
        f"{prefix}/64",
        f"{prefix}1",
        dns_nameservers=(f"{prefix}53",),
        ipv6_address_mode=mode,
        ipv6_ra_mode=mode,
    )


def from_mac(prefix: str, mac: str) -> str:
    return str(IPv6Address(int(IPv6Address(prefix)) | int(IPv6Address(link_local(mac))) & (2**64 - 1)))


async def test_guests_have_addresses_by_themselves_and_reach_each_other_through_a_router(lab: Lab) -> None:
    one, two = (
        evolve(network, subnets=(*network.subnets, six(prefix, "slaac")))
        for network, prefix in ((NETWORK, "fd00:1::"), (TWIN, "fd00:2::"))
    )
    legs = [
        RouterInterface(f"{number}8888888-cccc-4000-8000-000000000000", network.id, f"fa:16:3e:fe:00:0{number}", (own,))
        for number, network, own in ((1, one, "fd00:1::1/64"), (2, two, "fd00:2::1/64"))
    ]
    await ensure(lab, one, two, OPEN6)
    ports = []
    for network, prefix in ((one, "fd00:1::"), (two, "fd00:2::")):
        made = port(9, network, (OPEN6,))
        ports.append(evolve(made, fixed_ips=(FixedIp(prefix, from_mac(prefix, made.mac)),)))
    first, second = [await lab.guest(each) for each in ports]
    await ensure(lab, router(gateway=None, interfaces=tuple(legs)))
    await settled(first, ports[0])
    await settled(second, ports[1])
    with closing(second.listen(80, "::")):
        assert first.connects(ports[1].fixed_ips[0].ip_address, 80)
    # Another process finds it running; without the router nobody is told any more.
    pids = lab.dnsmasq_pids()
    lab.restart()
    await ensure(lab, router(gateway=None, interfaces=tuple(legs)))
    assert lab.dnsmasq_pids() == pids
    await lab.driver.ensure_router_absent(router().id)
    assert len(lab.dnsmasq_pids()) == len(pids) - 1


async def settled(made: Guest, spec: PortSpec) -> None:
    """It has the address of its port, and a way out."""
    await eventually(lambda: has(made, spec.fixed_ips[0].ip_address), PATIENCE)
    await eventually(lambda: "default via fe80::" in made.ip("-6", "route", "show"), PATIENCE)


def has(made: Guest, address: str) -> bool:
    shown = made.ip("-6", "-o", "address", "show", "dev", "eth0")
    return f" {address}/" in shown and "tentative" not in shown


async def test_a_guest_gets_its_address_by_dhcpv6(lab: Lab) -> None:
    network = evolve(NETWORK, subnets=(six("fd00:1::", "dhcpv6-stateful"),))
    await ensure(lab, network, OPEN6)
    spec = port(9, network, (OPEN6,), fixed_ips=(FixedIp("fd00:1::", "fd00:1::9"),))
    made = await lab.guest(spec)
    await eventually(lambda: has(made, link_local(spec.mac)), PATIENCE)
    assert lease6(made, spec.mac) == ("fd00:1::9", "fd00:1::53")
    await lab.driver.ensure_port(evolve(spec, fixed_ips=(FixedIp("fd00:1::", "fd00:1::19"),)), "host-1")
    assert lease6(made, spec.mac) == ("fd00:1::19", "fd00:1::53")


async def test_a_router_answers_outside_for_addresses_inside(lab: Lab) -> None:
    """Without that nobody outside knows where they are: both are of one prefix there."""
    inside_, public = (
        evolve(NETWORK, subnets=(SubnetSpec("in", "fd00:9:0:1::/64", "fd00:9:0:1::1"),)),
        evolve(PUBLIC, subnets=(SubnetSpec("out", "fd00:9::/48", "fd00:9::1", enable_dhcp=False),)),
    )
    legs = {
        "gateway": evolve(gateway_of(router()), addresses=("fd00:9::10/48",)),
        "interfaces": (evolve(router().interfaces[0], addresses=("fd00:9:0:1::1/64",)),),
    }
    own = "fd00:9:0:1::9"
    await ensure(lab, inside_, public, OPEN6, router(ndp_proxies=(own,), **legs))
    made = await lab.guest(port(9, inside_, (OPEN6,), fixed_ips=(FixedIp("in", own),)))
    made.ip("address", "add", f"{own}/64", "dev", "eth0", "nodad")
    made.ip("route", "add", "default", "via", "fd00:9:0:1::1")
    run("ip", "-n", lab.outside, "address", "add", "fd00:9::1/48", "dev", "eth0", "nodad")
    with closing(made.listen(80, "::")):
        assert lab.outside_connects(own, 80)
        await ensure(lab, router(**legs))
        run("ip", "-n", lab.outside, "neigh", "flush", "all")
        assert not lab.outside_connects(own, 80, SILENCE)


def gateway_of(spec: RouterSpec) -> RouterInterface:
    assert spec.gateway is not None
    return spec.gateway


async def test_a_port_is_told_its_own_options(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await lab.guest(port(9, dhcp_options=(DhcpOption("router", "10.7.0.77"), DhcpOption("mtu", "1300"))))
    lease = await made.lease()
    assert (lease["ip"], lease["router"], lease["mtu"]) == ("10.7.0.9", "10.7.0.77", "1300")
    await lab.driver.ensure_port(port(9), "host-1")
    lease = await made.lease()
    assert (lease["ip"], lease["router"], lease["mtu"]) == ("10.7.0.9", "10.7.0.1", "1400")


# -- a client of DHCPv6 (RFC 8415)

SOLICIT, REQUEST = 1, 3
CLIENT_ID, IA_NA, IA_ADDRESS, DNS = 1, 3, 5, 23


def lease6(made: Guest, mac: str) -> tuple[str, str]:
    """The address and the name server that a guest is given."""
    duid = struct.pack("!HH", 3, 1) + bytes.fromhex(mac.replace(":", ""))
    own = option(CLIENT_ID, duid) + option(6, struct.pack("!H", DNS)) + option(8, bytes(2))
    scope = inside.within(made.namespace, lambda: socket.if_nametoindex("eth0"))
    with inside.within(made.namespace, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as client:
        client.bind(("::", 546))
        offered = exchange(client, scope, SOLICIT, own + option(IA_NA, struct.pack("!III", 1, 0, 0)))
        given = exchange(client, scope, REQUEST, own + option(2, offered[2]) + option(IA_NA, offered[IA_NA]))
    address = options_of(given[IA_NA][12:])[IA_ADDRESS][:16]
    return str(IPv6Address(address)), str(IPv6Address(given[DNS][:16]))


def exchange(client: socket.socket, scope: int, kind: int, body: bytes) -> dict[int, bytes]:
    """Asks each second until there is an answer, as clients do: the first packet may be lost."""
    number = secrets.token_bytes(3)
    client.settimeout(1.0)
    for _ in range(60):
        client.sendto(bytes([kind]) + number + body, ("ff02::1:2", 547, 0, scope))
        with suppress(TimeoutError):
            while True:
                answer = client.recv(2048)
                if answer[1:4] == number:
                    return options_of(answer[4:])
    raise AssertionError("nobody answers by DHCPv6")


def option(code: int, value: bytes) -> bytes:
    return struct.pack("!HH", code, len(value)) + value


def options_of(data: bytes) -> dict[int, bytes]:
    found = {}
    while data:
        code, length = struct.unpack("!HH", data[:4])
        found[code], data = data[4 : 4 + length], data[4 + length :]
    return found
