"""Port forwarding, marks, and limits of packets and of floating addresses on real networks."""

from __future__ import annotations

import json
import socket
import struct
import time
from contextlib import closing, suppress
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.netns import inside, meters
from cloudctl.drivers.netns.routers import Routers
from cloudctl.drivers.network_specs import Meter, Metered, MeterRule
from cloudctl.drivers.specs import (
    BandwidthLimit,
    ConntrackHelper,
    FloatingIp,
    PacketLimit,
    PortForwarding,
    SecurityGroupRule,
)
from tests.drivers.netns.lab import Lab, run
from tests.drivers.netns.probes import PATIENCE
from tests.drivers.netns.wishes import NETWORK, OPEN, PUBLIC, QUIET, SILENCE, ensure, guest, port, router

HOLE = evolve(QUIET, rules=(*QUIET.rules, SecurityGroupRule("ingress", "IPv4", "tcp", 22, 22)))


async def test_a_port_of_a_floating_address_leads_to_ssh(lab: Lab) -> None:
    forwarding = PortForwarding("f", "tcp", "203.0.113.60", 2222, "10.7.0.9", 22)
    await ensure(lab, NETWORK, PUBLIC, HOLE, OPEN, router(port_forwardings=(forwarding,)))
    made, other = await guest(lab, port(9, groups=(HOLE,))), await guest(lab, port(10))
    with closing(made.listen(22)), closing(other.listen(22)):
        assert lab.outside_connects("203.0.113.60", 2222)
        assert not lab.outside_connects("203.0.113.60", 22, SILENCE)
        # From inside, too; and a range of ports leads on in its order.
        assert other.connects("203.0.113.60", 2222)
        several = PortForwarding("f", "tcp", "203.0.113.60", 2220, "10.7.0.10", 21, 3)
        await ensure(lab, router(port_forwardings=(several,)))
        assert lab.outside_connects("203.0.113.60", 2221)
        assert not lab.outside_connects("203.0.113.60", 2222, SILENCE)
        await ensure(lab, router())
        assert not lab.outside_connects("203.0.113.60", 2221, SILENCE)


async def test_what_a_guest_sends_carries_the_mark(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    marked, other = await guest(lab, port(9, dscp_mark=26)), await guest(lab, port(10))
    assert other.ping("10.7.0.9")

    def seen(sender: Any, receiver: Any, address: str) -> int:
        """The DSCP of a datagram as it arrives."""
        with closing(_udp(receiver)) as mine, closing(_udp(sender)) as theirs:
            mine.bind((address, 9001))
            mine.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            mine.settimeout(PATIENCE)
            theirs.sendto(b"x", (address, 9001))
            _, ((_, _, tos),), _, _ = mine.recvmsg(10, 100)
            return int(tos[0]) >> 2

    assert seen(marked, other, "10.7.0.10") == 26
    assert seen(other, marked, "10.7.0.9") == 0
    await lab.driver.ensure_port(port(9), "host-1")
    assert seen(marked, other, "10.7.0.10") == 0


async def test_a_helper_lets_the_answer_of_another_port_in(lab: Lab) -> None:
    """As of TFTP: who is asked at port 69 answers from a port of his choice."""
    await ensure(lab, NETWORK, PUBLIC, OPEN, router())
    made = await guest(lab, port(9))

    def answered(patience: float) -> bool:
        outside = evolve(made, namespace=lab.outside)
        with closing(_udp(outside)) as asked, closing(_udp(outside)) as answers, closing(_udp(made)) as client:
            asked.bind(("203.0.113.1", 69))
            asked.settimeout(PATIENCE)
            client.sendto(b"\0\1file\0octet\0", ("203.0.113.1", 69))
            _, sender = asked.recvfrom(100)
            answers.sendto(b"\0\3\0\1x", sender)
            client.settimeout(patience)
            with suppress(TimeoutError):
                return client.recv(100) == b"\0\3\0\1x"
            return False

    assert not answered(SILENCE)
    await ensure(lab, router(conntrack_helpers=(ConntrackHelper("udp", 69, "tftp"),)))
    assert answered(PATIENCE)


async def test_what_guests_send_outside_is_counted(lab: Lab) -> None:
    """Whatever else becomes of the router, and by another process, too; but not what a rule leaves out."""
    everything, others = (
        Meter("0a0a0a0a-dddd-4000-8000-000000000001", (MeterRule("egress", remote_prefix="203.0.113.0/24"),)),
        Meter(
            "0b0b0b0b-dddd-4000-8000-000000000002",
            (
                MeterRule("egress", source_prefix="10.7.0.0/24"),
                MeterRule("egress", source_prefix="10.7.0.9/32", excluded=True),
            ),
        ),
    )
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(meters=(everything, others)))
    made = await guest(lab, port(9))
    outside = evolve(made, namespace=lab.outside)
    assert outside.receives(made, "203.0.113.1", packets=200) == 200
    lab.restart()
    await ensure(lab, router(("203.0.113.50", "10.7.0.99"), meters=(everything, others)))
    assert outside.receives(made, "203.0.113.1", packets=200) == 200
    # Each has 1000 bytes, and 28 of headers.
    assert counted(lab) == {meters.counter(everything.id): (400, 400 * 1028), meters.counter(others.id): (0, 0)}
    told = Metered(router().id, everything.id, 400, 400 * 1028), Metered(router().id, others.id, 0, 0)
    assert await lab.driver.metered() == told
    await ensure(lab, router(meters=(everything,)))
    assert counted(lab) == {meters.counter(everything.id): (400, 400 * 1028)}


async def test_a_meter_goes_even_if_its_removal_was_killed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    left, gone = (Meter(f"{digit * 8}-dddd-4000-8000-000000000001", ()) for digit in "ab")
    await ensure(lab, NETWORK, PUBLIC, router(meters=(left, gone)))

    async def killed(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Routers, "ensure", killed)
    with pytest.raises(ZeroDivisionError):
        await ensure(lab, router(meters=(left,)))
    monkeypatch.undo()
    lab.restart()
    await ensure(lab, router(meters=(left,)))
    assert counted(lab) == {meters.counter(left.id): (0, 0)}


def counted(lab: Lab) -> dict[str, tuple[int, int]]:
    """Packets and bytes of each counter of the router."""
    words = ("ip", "netns", "exec", lab.names.router_namespace(router().id), "nft", "-j", "list", "counters")
    found = (each["counter"] for each in json.loads(run(*words))["nftables"] if "counter" in each)
    return {each["name"]: (each["packets"], each["bytes"]) for each in found}


async def test_what_is_dropped_and_what_is_accepted_is_written_down(lab: Lab) -> None:
    await ensure(lab, NETWORK, HOLE, OPEN)
    spec = port(9, groups=(HOLE,), logged=("ACCEPT", "DROP"))
    made, other = await guest(lab, spec), await guest(lab, port(10))
    with closing(_listening(lab, 77)) as log, closing(made.listen(22)):
        assert other.connects("10.7.0.9", 22)
        assert f"ACCEPT {spec.id} ".encode() in log.recv(65536)
        assert not other.connects("10.7.0.9", 23, SILENCE)
        assert f"DROP {spec.id} ".encode() in log.recv(65536)
        # Nothing is written down of a port that nobody asked for.
        await lab.driver.ensure_port(evolve(spec, logged=("DROP",)), "host-1")
        assert other.connects("10.7.0.9", 22) and not other.connects("10.7.0.9", 24, SILENCE)
        assert b"DROP" in log.recv(65536)


def _listening(lab: Lab, group: int) -> socket.socket:
    """A socket that hears of a group of nflog on the first host, as ulogd would (linux/netfilter/nfnetlink_log.h)."""
    made = inside.within(lab.host("host-1"), lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER))
    made.settimeout(PATIENCE)
    made.bind((0, 0))
    for command, value in ((CONFIGURE, bytes([BIND])), (MODE, struct.pack("!IBx", 128, COPY_PACKET))):
        attribute = struct.pack("=HH", 4 + len(value), command) + value
        attribute += bytes(-len(attribute) % 4)
        body = struct.pack("!BBH", socket.AF_UNSPEC, 0, group) + attribute
        made.send(struct.pack("=IHHII", 16 + len(body), LOG_CONFIG, REQUEST | ACKNOWLEDGE, 1, 0) + body)
        assert struct.unpack_from("=i", made.recv(1000), 16) == (0,)
    return made


NETFILTER, LOG_CONFIG = 12, 4 << 8 | 1
REQUEST, ACKNOWLEDGE = 1, 4
CONFIGURE, BIND, MODE, COPY_PACKET = 1, 1, 2, 2


def _udp(of: Any) -> socket.socket:
    return inside.within(of.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))


@pytest.mark.parametrize("direction", ["egress", "ingress"])
async def test_a_port_gets_no_more_packets_than_its_limit(lab: Lab, direction: str) -> None:
    await ensure(lab, NETWORK, OPEN)
    limits = (PacketLimit(direction, max_kpps=1),)
    limited, free = await guest(lab, port(9, packet_limits=limits)), await guest(lab, port(10))
    sender, receiver, address = (limited, free, "10.7.0.10") if direction == "egress" else (free, limited, "10.7.0.9")
    assert sender.ping(address)
    began = time.monotonic()
    arrived = receiver.receives(sender, address, packets=4000)
    # A second's worth and as many more at once, and then what the rate allows while this process is held up.
    assert 900 <= arrived <= 2100 + 1000 * (time.monotonic() - began)
    await lab.driver.ensure_port(port(9), "host-1")
    assert receiver.receives(sender, address, packets=4000) == 4000


async def test_a_floating_address_gets_no_more_than_its_limit(lab: Lab) -> None:
    slow = FloatingIp("f", "203.0.113.50", "10.7.0.9", (BandwidthLimit("egress", max_kbps=800),))
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(floating_ips=(slow,)))
    made, other = await guest(lab, port(9)), await guest(lab, port(10))
    outside = evolve(made, namespace=lab.outside)
    began = time.monotonic()
    # Packets are of 1028 bytes: a second's worth is a hundred.
    assert 80 <= outside.receives(made, "203.0.113.1", packets=400) <= 110 + 100 * (time.monotonic() - began)
    assert outside.receives(other, "203.0.113.1", packets=400) == 400
