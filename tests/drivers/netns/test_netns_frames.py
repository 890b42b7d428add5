"""Frames that no honest guest sends: what other guests get of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address

import pytest

from cloudctl.drivers.netns import inside
from tests.drivers.netns.lab import Guest, Lab
from tests.drivers.netns.probes import PATIENCE, checksum
from tests.drivers.netns.wishes import NETWORK, OPEN, QUIET, SILENCE, ensure, guest, port

IPV4 = 0x0800
PRIORITY = struct.pack("!HH", 0x8100, 0)  # an IEEE 802.1Q tag without a VLAN
OF_PROVIDER = struct.pack("!HH", 0x88A8, 0)  # IEEE 802.1ad


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


@pytest.mark.parametrize("tag", [PRIORITY, OF_PROVIDER], ids=["802.1Q", "802.1ad"])
@pytest.mark.parametrize("secured", [True, False], ids=["secured", "unsecured"])
async def test_a_tag_leads_past_no_security_group(lab: Lab, tag: bytes, secured: bool) -> None:
    """Linux takes a frame that is tagged with VLAN 0 for an untagged one, but br_netfilter does not."""
    await ensure(lab, NETWORK, OPEN, QUIET)
    first, second = await guest(lab, port(9, port_security=secured)), await guest(lab, port(10))
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
    first, second = await guest(lab, port(9)), await guest(lab, port(10))
    with hearing(second, 68) as asking, hearing(second, 69) as listener:
        for number in (68, 69):
            first.broadcast(frame(first, second, IPV4, datagram("10.7.0.9", "10.7.0.10", (source, number), b"hello")))
        assert heard(listener, PATIENCE) == b"hello"
        assert heard(asking, SILENCE) == b""
