"""The host's own addresses and services, seen from a tenant's network: whatever a guest sends there is dropped."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address

import pytest
from attrs import evolve

from cloudctl.drivers.netns import inside
from cloudctl.drivers.specs import FixedIp, SecurityGroupRule
from tests.drivers.netns.lab import OUTSIDE, Guest, Lab, run
from tests.drivers.netns.probes import checksum, connects, datagrams
from tests.drivers.netns.wishes import NETWORK, OPEN, PUBLIC, SILENCE, ensure, guest, leasing, port

MANAGEMENT = "192.0.2.7"  # of the host, on a link that is not the tenant's
MANAGEMENT_6 = "fd00:99::7"
NEAR_OUTSIDE = "203.0.113.2"  # of the host, on the operator's bridge
PORT = 9000


async def a_guest_beside_the_host(lab: Lab) -> Guest:
    """It knows the MAC address of its bridge, and sends there what is for the host; the host could answer."""
    rules = (*OPEN.rules, SecurityGroupRule("egress", "IPv6"), SecurityGroupRule("ingress", "IPv6"))
    await ensure(lab, NETWORK, PUBLIC, evolve(OPEN, rules=rules))
    addresses = (FixedIp("subnet", "10.7.0.9"), FixedIp("subnet", "fd00:7::9"))
    made: Guest = await guest(lab, port(9, fixed_ips=addresses))
    host, bridge = lab.host("host-1"), lab.names.bridge(NETWORK.id)
    lines = [f"address add {MANAGEMENT}/32 dev lo", f"address add {MANAGEMENT_6}/128 dev lo nodad"]
    lines += [f"address add {NEAR_OUTSIDE}/24 dev outside"]
    lines += [f"route add 10.7.0.0/24 dev {bridge}", f"route add fd00:7::/64 dev {bridge}"]
    lines += [f"neighbour replace {address.ip_address} lladdr {made.mac} dev {bridge}" for address in addresses]
    run("ip", "-n", host, "-batch", "-", stdin="\n".join(lines))
    lines = ["address add fd00:7::9/64 dev eth0 nodad"]
    lines += [f"route add {address} dev eth0" for address in (MANAGEMENT, MANAGEMENT_6, OUTSIDE)]
    run("ip", "-n", made.namespace, "-batch", "-", stdin="\n".join(lines))
    return made


def knows_the_bridge(lab: Lab, made: Guest) -> str:
    """The guest has the bridge for the host's neighbourhood; its MAC address."""
    mac: str = bridge_mac(lab)
    lines = [f"neighbour replace {each} lladdr {mac} dev eth0" for each in (MANAGEMENT, MANAGEMENT_6, OUTSIDE)]
    run("ip", "-n", made.namespace, "-batch", "-", stdin="\n".join(lines))
    return mac


def bridge_mac(lab: Lab) -> str:
    found = run("ip", "-n", lab.host("host-1"), "-j", "link", "show", "dev", lab.names.bridge(NETWORK.id))
    mac: str = json.loads(found)[0]["address"]
    return mac


@contextmanager
def udp(namespace: str, address: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside.within(namespace, lambda: socket.socket(family, socket.SOCK_DGRAM)) as made:
        made.bind((address, PORT))
        made.settimeout(SILENCE)
        yield made


def send(namespace: str, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside.within(namespace, lambda: socket.socket(family, socket.SOCK_DGRAM)) as made:
        made.sendto(b"hello", (address, PORT))


def heard(listener: socket.socket) -> bool:
    with suppress(TimeoutError):
        return listener.recv(100) == b"hello"
    return False


@pytest.mark.parametrize("address", [MANAGEMENT, MANAGEMENT_6])
async def test_a_udp_service_of_the_host_is_not_reached(lab: Lab, address: str) -> None:
    made = await a_guest_beside_the_host(lab)
    knows_the_bridge(lab, made)
    host = lab.host("host-1")
    with udp(host, address) as listener:
        send(host, address)
        assert heard(listener)
        send(made.namespace, address)
        assert not heard(listener)


@pytest.mark.parametrize("address", [MANAGEMENT, MANAGEMENT_6])
async def test_a_tcp_service_of_the_host_is_not_reached(lab: Lab, address: str) -> None:
    made = await a_guest_beside_the_host(lab)
    knows_the_bridge(lab, made)
    host = lab.host("host-1")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside.within(host, lambda: socket.create_server((address, PORT), family=family)):
        assert connects(host, address, PORT)
        assert not made.connects(address, PORT, SILENCE)


async def test_a_frame_for_the_bridge_itself_is_not_taken_for_the_ports_own(lab: Lab) -> None:
    """Bridges hand such frames (LLDP's, say) to the stack as what the tap received, IP packets in them included."""
    made = await a_guest_beside_the_host(lab)
    payload = struct.pack("!HHHH", PORT, PORT, 13, 0) + b"hello"
    ends = IPv4Address("10.7.0.9").packed + IPv4Address(MANAGEMENT).packed
    head = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(payload), 1, 0, 64, socket.IPPROTO_UDP)
    packet = head + struct.pack("!H", checksum(head + bytes(2) + ends)) + ends + payload
    with udp(lab.host("host-1"), MANAGEMENT) as listener:
        made.broadcast(bytes.fromhex("0180c200000e") + bytes.fromhex(made.mac.replace(":", "")) + b"\x08\x00" + packet)
        assert not heard(listener)


async def test_the_host_does_not_say_which_addresses_it_has(lab: Lab) -> None:
    made = await a_guest_beside_the_host(lab)
    assert not made.ping(MANAGEMENT, patience=SILENCE)
    assert "lladdr" not in made.ip("neighbour", "show", MANAGEMENT)


async def test_the_host_routes_nothing_that_comes_from_a_tenants_bridge(lab: Lab) -> None:
    made = await a_guest_beside_the_host(lab)
    knows_the_bridge(lab, made)
    run("ip", "netns", "exec", lab.host("host-1"), "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    with udp(lab.outside, OUTSIDE) as listener, datagrams(lab.host("host-1")) as own:
        own.sendto(b"hello", (OUTSIDE, PORT))
        assert heard(listener)
        send(made.namespace, OUTSIDE)
        assert not heard(listener)


async def test_dhcp_metadata_and_an_operators_bridge_are_served_as_before(lab: Lab) -> None:
    await a_guest_beside_the_host(lab)
    made = await leasing(lab, port(10))
    assert made.ping("169.254.169.254")
    with udp(lab.host("host-1"), NEAR_OUTSIDE) as listener:
        send(lab.outside, NEAR_OUTSIDE)
        assert heard(listener)
