"""Frames that no honest guest sends: what other guests get of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from attrs import evolve

from cloudctl.drivers.netns import inside, spoofing
from cloudctl.drivers.specs import FixedIp, PortSpec, SecurityGroupRule
from tests.drivers.netns.lab import Guest, Lab, lacking, run
from tests.drivers.netns.probes import PATIENCE, checksum
from tests.drivers.netns.wishes import NETWORK, OPEN, QUIET, SILENCE, ensure, eventually, guest, port
from tests.needed import HOST, need

IPV4, IPV6 = 0x0800, 0x86DD
SOLICITATION, ADVERTISEMENT = 135, 136  # of neighbours, RFC 4861
FROM, TO = "fd00:7::9", "fd00:7::a"
OPEN6 = evolve(OPEN, rules=(*OPEN.rules, SecurityGroupRule("egress", "IPv6"), SecurityGroupRule("ingress", "IPv6")))
PRIORITY = struct.pack("!HH", 0x8100, 0)  # an IEEE 802.1Q tag without a VLAN
OF_PROVIDER = struct.pack("!HH", 0x88A8, 0)  # IEEE 802.1ad


async def neighbours(lab: Lab, first: PortSpec, second: PortSpec) -> tuple[Guest, Guest]:
    """Guests that reach each other already."""
    found = await guest(lab, first), await guest(lab, second)
    assert found[0].ping(second.fixed_ips[0].ip_address)
    return found


@contextmanager
def hearing(made: Guest, number: int) -> Iterator[socket.socket]:
    """A UDP socket of a guest."""
    with inside.within(made.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as found:
        found.bind(("", number))
        yield found


def heard(listener: socket.socket, patience: float) -> bytes:
    listener.settimeout(patience)
    with suppress(TimeoutError):
        return listener.recv(100)
    return b""


def frame(sender: Guest, receiver: Guest, kind: int, packet: bytes, tag: bytes = b"") -> bytes:
    ends = bytes.fromhex((receiver.mac + sender.mac).replace(":", ""))
    return ends + tag + struct.pack("!H", kind) + packet


def datagram(source: str, target: str, ports: tuple[int, int], payload: bytes) -> bytes:
    """An IPv4 packet."""
    body = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    ends = IPv4Address(source).packed + IPv4Address(target).packed
    head = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(body), 1, 0, 64, socket.IPPROTO_UDP)
    return head + struct.pack("!H", checksum(head + bytes(2) + ends)) + ends + body


def neighbourly(kind: int, source: str, about: str, sender: Guest) -> bytes:
    """An IPv6 packet to TO: a solicitation, or an advertisement that overrides what is known."""
    head = struct.pack("!I", 0x20000000 if kind == ADVERTISEMENT else 0)
    own = b"\x02\x01" + bytes.fromhex(sender.mac.replace(":", "")) if kind == ADVERTISEMENT else b""
    body = head + IPv6Address(about).packed + own
    to = TO if kind == ADVERTISEMENT else f"ff02::1:ff{IPv6Address(about).exploded[-7:]}"
    ends = IPv6Address(source).packed + IPv6Address(to).packed
    pseudo = ends + struct.pack("!II", 4 + len(body), socket.IPPROTO_ICMPV6)
    total = checksum(pseudo + struct.pack("!BBH", kind, 0, 0) + body)
    head = struct.pack("!IHBB", 6 << 28, 4 + len(body), socket.IPPROTO_ICMPV6, 255)
    return head + ends + struct.pack("!BBH", kind, 0, total) + body


@pytest.mark.parametrize("tag", [PRIORITY, OF_PROVIDER], ids=["802.1Q", "802.1ad"])
@pytest.mark.parametrize("secured", [True, False], ids=["secured", "unsecured"])
async def test_a_tag_leads_past_no_security_group(lab: Lab, tag: bytes, secured: bool) -> None:
    """Linux takes a frame that is tagged with VLAN 0 for an untagged one, but br_netfilter does not."""
    await ensure(lab, NETWORK, OPEN, QUIET)
    first, second = await neighbours(lab, port(9, port_security=secured), port(10))
    packet = datagram("10.7.0.9", "10.7.0.10", (9000, 9000), b"hello")
    with hearing(second, 9000) as listener:
        first.broadcast(frame(first, second, IPV4, packet))
        assert heard(listener, PATIENCE) == b"hello"
        await lab.driver.ensure_port(port(10, groups=(QUIET,)), "host-1")
        first.broadcast(frame(first, second, IPV4, packet, tag))
        assert heard(listener, SILENCE) == b""


@pytest.mark.parametrize("source", [67, 12345])
async def test_no_guest_answers_dhcp_from_whatever_port(lab: Lab, source: int) -> None:
    await ensure(lab, NETWORK, OPEN)
    first, second = await neighbours(lab, port(9), port(10))
    with hearing(second, 68) as asking, hearing(second, 69) as listener:
        for number in (68, 69):
            first.broadcast(frame(first, second, IPV4, datagram("10.7.0.9", "10.7.0.10", (source, number), b"hello")))
        assert heard(listener, PATIENCE) == b"hello"
        assert heard(asking, SILENCE) == b""


def with_six(number: int, *pairs: tuple[str, str]) -> PortSpec:
    found = port(number, groups=(OPEN6,), address_pairs=pairs)
    return evolve(found, fixed_ips=(*found.fixed_ips, FixedIp("six", f"fd00:7::{number:x}")))


async def test_no_guest_says_that_it_has_the_address_of_another(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN6)
    spec = with_six(9, ("fd00:7::40/123", port(9).mac))
    first, second = await neighbours(lab, spec, with_six(10))
    second.ip("address", "add", f"{TO}/64", "dev", "eth0", "nodad")
    others, own = ("fd00:7::1", "fd00:7::3f", "fd00:7::60"), (FROM, "fd00:7::40", "fd00:7::5f")
    for each in (*others, *own):
        second.ip("neighbour", "replace", each, "lladdr", "fa:16:3e:99:99:99", "nud", "stale", "dev", "eth0")
    # What is its own comes last, so all has come by then.
    for each in (*others, *own):
        first.broadcast(frame(first, second, IPV6, neighbourly(ADVERTISEMENT, FROM, each, first)))

    def known(address: str) -> str:
        return second.ip("neighbour", "show", "to", address)

    await eventually(lambda: first.mac in known(own[-1]))
    assert all(first.mac in known(each) for each in own)
    assert not any(first.mac in known(each) for each in others)


async def test_no_guest_keeps_another_from_its_address(lab: Lab) -> None:
    """By asking for it as if it were about to take it."""
    await ensure(lab, NETWORK, OPEN6)
    first, second = await neighbours(lab, with_six(9), with_six(10))
    # Long enough in doubt to be disturbed.
    run("ip", "netns", "exec", second.namespace, "sysctl", "-qw", "net.ipv6.conf.eth0.dad_transmits=3")
    for about in (TO, FROM):
        second.ip("address", "add", f"{about}/64", "dev", "eth0")
        first.broadcast(frame(first, second, IPV6, neighbourly(SOLICITATION, "::", about, first)))

    def shown(address: str) -> str:
        return second.ip("-o", "address", "show", "to", address)

    await eventually(lambda: "dadfailed" in shown(FROM))
    await eventually(lambda: "dadfailed" in shown(TO) or "tentative" not in shown(TO))
    assert "dadfailed" not in shown(TO)


def test_prefixes_of_every_length_are_told(tmp_path: Path) -> None:
    need(lacking(), HOST)
    pairs = tuple((f"fd00:7::/{length}", f"fa:16:3e:00:01:{length:02x}") for length in range(129))
    rules = "\n".join(spoofing.rules(with_six(9, *pairs), 3))
    made = tmp_path / "rules"
    made.write_text(f"table bridge tried {{ chain from3 {{\n{rules}\n}}\n}}\n")
    run("nft", "--check", "--file", str(made))
