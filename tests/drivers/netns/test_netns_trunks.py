"""Ports that go through another port's tap, by VLAN ids."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from ipaddress import IPv4Address

from attrs import evolve

from cloudctl.drivers.netns import inside, tagging
from cloudctl.drivers.qemu.lending import open_tap
from cloudctl.drivers.specs import FixedIp, SubnetSpec, SubPort
from tests.drivers.netns.lab import Guest, Lab
from tests.drivers.netns.probes import PATIENCE, checksum
from tests.drivers.netns.wishes import NETWORK, OPEN, QUIET, SILENCE, TWIN, ensure, guest, port

INNER = evolve(TWIN, subnets=(SubnetSpec("inner", "10.8.0.0/24", "10.8.0.1"),))
CARRIED = port(5, INNER, fixed_ips=(FixedIp("inner", "10.8.0.5"),))
NEIGHBOUR = port(6, INNER, fixed_ips=(FixedIp("inner", "10.8.0.6"),))
SOL_PACKET, PACKET_AUXDATA = 263, 8  # linux/if_packet.h


def test_a_program_has_a_way_for_each_id_and_lets_other_frames_pass() -> None:
    assert len(tagging.untag({})) == 8 * 9
    assert len(tagging.untag({5: 10, 6: 11})) == 8 * (9 + 2 * 7)


async def test_a_subport_is_reached_through_its_trunk_and_filtered_as_itself(lab: Lab) -> None:
    await ensure(lab, NETWORK, INNER, OPEN, QUIET)
    made = await guest(lab, port(9, subports=(SubPort(CARRIED.id, 42),)))
    await lab.driver.ensure_port(CARRIED, "host-1")
    near, far = (
        await guest(lab, NEIGHBOUR),
        await guest(lab, port(7, INNER, fixed_ips=(FixedIp("inner", "10.8.0.7"),)), "host-2"),
    )
    for other, address in ((near, "10.8.0.6"), (far, "10.8.0.7")):
        other.ip("neigh", "replace", "10.8.0.5", "lladdr", CARRIED.mac, "dev", "eth0")
        assert answered(made, other, address, 42) == 42
    # By another id, or untagged, it is not there; nor as somebody else.
    assert answered(made, near, "10.8.0.6", 43, SILENCE) is None
    assert answered(made, near, "10.8.0.6", 42, SILENCE, source="10.8.0.99") is None
    # Its groups are its own.
    await lab.driver.ensure_port(evolve(CARRIED, security_groups=(evolve(QUIET, rules=()).id,)), "host-1")
    await ensure(lab, evolve(QUIET, rules=()))
    assert answered(made, near, "10.8.0.6", 42, SILENCE) is None
    await lab.driver.ensure_port(CARRIED, "host-1")
    # Another process takes over, with another id.
    lab.restart()
    await lab.driver.ensure_port(port(9, subports=(SubPort(CARRIED.id, 44),)), "host-1")
    assert answered(made, near, "10.8.0.6", 44) == 44
    assert answered(made, near, "10.8.0.6", 42, SILENCE) is None
    # It leaves the trunk, and takes its links along.
    await lab.driver.ensure_port(port(9), "host-1")
    await lab.driver.ensure_port_absent(CARRIED.id)
    assert answered(made, near, "10.8.0.6", 44, SILENCE) is None
    assert not any(lab.names.carried(CARRIED.id) in line for line in lab.links("host-1"))


async def test_a_port_that_leaves_its_trunk_is_plugged_like_any_other(lab: Lab) -> None:
    """Even if a server has it at once, on the same host."""
    await ensure(lab, NETWORK, INNER, OPEN)
    await lab.driver.ensure_port(CARRIED, "host-1")
    await lab.driver.ensure_port(port(9, subports=(SubPort(CARRIED.id, 42),)), "host-1")
    await lab.driver.ensure_port(port(9), "host-1")
    await lab.driver.ensure_port(CARRIED, "host-1")
    os.close(open_tap(lab.names.tap(CARRIED.id), lab.host("host-1")))
    assert CARRIED.id in [each.id for each in (await lab.driver.inventory()).ports]


def answered(
    made: Guest, other: Guest, address: str, vlan: int, patience: float = PATIENCE, source: str = "10.8.0.5"
) -> int | None:
    """The VLAN id with which the answer comes back to an echo request that is sent as the subport, if one comes."""
    number = time.monotonic_ns() & 0xFFFF
    echo = struct.pack("!BBHHH", 8, 0, 0, number, 1)
    echo = struct.pack("!BBHHH", 8, 0, checksum(echo), number, 1)
    ends = IPv4Address(source).packed + IPv4Address(address).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(echo), 0, 0, 64, 1, 0) + ends
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    macs = bytes.fromhex((other.mac + CARRIED.mac).replace(":", ""))
    frame = macs + struct.pack("!HHH", 0x8100, vlan, 0x0800) + head + echo
    with inside.within(
        made.namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ) as heard:
        heard.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        made.broadcast(frame)
        limit = time.monotonic() + patience
        while (left := limit - time.monotonic()) > 0 and select.select([heard], [], [], left)[0]:
            data, extra, _, _ = heard.recvmsg(2048, 256)
            tags = [
                struct.unpack_from("=IIIHHHH", value)[5] & 0xFFF for _, kind, value in extra if kind == PACKET_AUXDATA
            ]
            if data[12:14] == b"\x08\x00" and data[34:35] == b"\0" and data[38:40] == struct.pack("!H", number):
                return int(tags[0])
    return None
