"""Routers with several ways out, with packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from cloudctl.drivers.netns import inside
from cloudctl.drivers.specs import FloatingIp, PortForwarding, RouterInterface, SubnetSpec
from tests.drivers.netns.lab import Guest, Lab, run
from tests.drivers.netns.probes import PATIENCE, ping
from tests.drivers.netns.wishes import NETWORK, OPEN, PUBLIC, SILENCE, ensure, guest, port, router

# Two networks on the operator's one bridge, and somebody beyond both of their routers, which are one.
SECOND = evolve(
    PUBLIC,
    id="99999999-aaaa-4000-8000-000000000009",
    network_type="vxlan",
    physical_network=None,
    segmentation_id=909,
    mtu=1400,
    subnets=(SubnetSpec("second", "198.51.100.0/24", "198.51.100.1", enable_dhcp=False),),
)
WAY = RouterInterface("99999999-cccc-4000-8000-000000000000", SECOND.id, "fa:16:3e:fe:00:09", ("198.51.100.10/24",))
FAR = "192.0.2.1"


def second_wire(lab: Lab) -> None:
    """The outside is on the second network, too, and has an address beyond both."""
    bridge = lab.names.bridge(SECOND.id)
    outer = f"link add name wire2 master {bridge} type veth peer name eth1 netns {lab.outside}"
    run("ip", "-n", lab.host("host-1"), "-batch", "-", stdin=f"{outer}\nlink set dev wire2 up\n")
    lines = [f"address add {FAR}/32 dev lo", "address add 198.51.100.1/24 dev eth1", "link set dev eth1 up"]
    run("ip", "-n", lab.outside, "-batch", "-", stdin="\n".join(lines))


@contextmanager
def far_away(lab: Lab) -> Iterator[socket.socket]:
    with inside.listening(lab.outside, FAR, 8080) as server:
        server.settimeout(PATIENCE)
        yield server


def sender(lab: Lab, made: Guest) -> str:
    """With which address a connection of the guest's arrives far away."""
    with far_away(lab) as server:
        assert made.connects(FAR, 8080)
        connection, (address, _) = server.accept()
        connection.close()
        return address


async def test_a_router_has_several_ways_out(lab: Lab) -> None:
    """By the first, or by all in turns; answers by the way that their connection came in by."""
    floating = FloatingIp("f", "198.51.100.50", "10.7.0.10")
    forwarded = PortForwarding("p", "tcp", "198.51.100.60", 2222, "10.7.0.9", 22)
    several = router(more_gateways=(WAY,), floating_ips=(floating,), port_forwardings=(forwarded,))
    await ensure(lab, NETWORK, PUBLIC, SECOND, OPEN, several)
    second_wire(lab)
    made, known = await guest(lab, port(9)), await guest(lab, port(10))
    assert sender(lab, made) == "203.0.113.10"
    # Who has an address on the second network leaves by it; what came in there is answered there.
    assert sender(lab, known) == "198.51.100.50"
    with made.listen(22):
        there = ("198.51.100.60", 2222)
        inside.within(lab.outside, lambda: socket.create_connection(there, PATIENCE, (FAR, 0))).close()
    # The router itself answers at either, to who is not on that network.
    assert ping(lab.outside, "198.51.100.10", FAR) and ping(lab.outside, "203.0.113.10", FAR)
    # A repeat changes nothing; in turns, by and by, both are taken.
    await ensure(lab, several, evolve(several, default_route_ecmp=True))
    assert {sender(lab, made) for _ in range(40)} == {"203.0.113.10", "198.51.100.10"}
    # With one way left everything goes by that, and nothing is left of the other.
    await ensure(lab, router())
    assert sender(lab, made) == "203.0.113.10"
    namespace = lab.names.router_namespace(router().id)
    assert "lookup 90" not in run("ip", "-n", namespace, "rule", "show")
    assert not ping(lab.outside, "198.51.100.10", patience=SILENCE)
