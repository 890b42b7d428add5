"""Routers, floating addresses and metadata on real networks, and what is left of them afterwards."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import InUse, Unreachable
from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.routers import Routers
from cloudctl.drivers.specs import (
    FixedIp,
    Route,
    RouterInterface,
    SecurityGroupRule,
    SubnetSpec,
)
from tests.drivers.netns.lab import OUTSIDE, Lab, run
from tests.drivers.netns.probes import ping, pinging
from tests.drivers.netns.wishes import (
    NETWORK,
    OPEN,
    PUBLIC,
    QUIET,
    SILENCE,
    TWIN,
    Site,
    ensure,
    guest,
    leasing,
    port,
    router,
)


async def test_a_guest_reaches_the_outside_through_its_router_with_the_routers_address(lab: Lab) -> None:
    await ensure(lab, NETWORK, PUBLIC, OPEN, router())
    made = await guest(lab, port(9))
    assert made.ping("203.0.113.1")
    await ensure(lab, router(enable_snat=False))
    assert not made.ping("203.0.113.1", patience=SILENCE)


async def test_a_floating_address_is_reached_from_outside_if_a_rule_lets_it(lab: Lab) -> None:
    await ensure(lab, NETWORK, PUBLIC, OPEN, QUIET, router(("203.0.113.50", "10.7.0.9")))
    made = await guest(lab, port(9, groups=(QUIET,)))
    with closing(made.listen(22)):
        assert not lab.outside_connects("203.0.113.50", 22, SILENCE)
        await ensure(lab, evolve(QUIET, rules=(*QUIET.rules, SecurityGroupRule("ingress", "IPv4", "tcp", 22, 22))))
        assert lab.outside_connects("203.0.113.50", 22)
        await ensure(lab, router())
        assert not lab.outside_connects("203.0.113.50", 22, SILENCE)


async def test_a_floating_address_is_also_the_sender_and_works_from_inside(lab: Lab) -> None:
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    made, other = await guest(lab, port(9)), await guest(lab, port(10))
    assert lab.seen_from_outside(made) == "203.0.113.50"
    assert lab.seen_from_outside(other) == "203.0.113.10"
    assert other.ping("203.0.113.50")


async def test_what_the_machine_itself_does_on_an_operators_bridge_is_left_alone(lab: Lab) -> None:
    """It has an address there, a firewall, and passes on what comes from there under its own address."""
    await ensure(lab, NETWORK, PUBLIC, OPEN, router())
    made = await guest(lab, port(9))
    host, beyond = lab.host("host-1"), f"{lab.prefix}-beyond"
    run("ip", "netns", "add", beyond)
    run("ip", "-n", host, "link", "add", "name", "out", "type", "veth", "peer", "name", "eth0", "netns", beyond)
    lines = ["address add 203.0.113.2/24 dev outside", "address add 198.51.100.1/24 dev out", "link set dev out up"]
    run("ip", "-n", host, "-batch", "-", stdin="\n".join(lines))
    run("ip", "-n", beyond, "-batch", "-", stdin="address add 198.51.100.2/24 dev eth0\nlink set dev eth0 up\n")
    run("ip", "netns", "exec", host, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    # Marks of its own say nothing of our ports, whose first one has the index 1.
    firewall = """table inet fw {
        chain in { type filter hook input priority 0; policy drop; ct state established accept; }
        chain mine { type filter hook prerouting priority 10; iifname "out" meta mark set 0x10001; }
    }
    table ip nat { chain out { type nat hook postrouting priority 100; oifname "out" masquerade; }; }
    """
    run("ip", "netns", "exec", host, "nft", "-f", "-", stdin=firewall)
    assert ping(host, "203.0.113.1"), "the answer is one to it"
    run("ip", "-n", lab.outside, "route", "add", "198.51.100.0/24", "via", "203.0.113.2")
    assert ping(lab.outside, "198.51.100.2")
    gateway = evolve(PUBLIC, subnets=(SubnetSpec("public", "203.0.113.0/24", "203.0.113.2", enable_dhcp=False),))
    await ensure(lab, gateway)
    assert made.ping("198.51.100.2")
    await ensure(lab, evolve(QUIET, rules=()))
    await lab.driver.ensure_port(port(9, groups=(QUIET,)), "host-1")
    run("ip", "-n", beyond, "route", "add", "default", "via", "198.51.100.1")
    assert ping(beyond, "203.0.113.1"), "what carries a mark is no port's"


async def test_a_floating_address_moves_to_another_guest(lab: Lab) -> None:
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    _, second = await guest(lab, port(9)), await guest(lab, port(10))
    with closing(second.listen(22)):
        assert not lab.outside_connects("203.0.113.50", 22, SILENCE)
        await ensure(lab, router(("203.0.113.50", "10.7.0.10")))
        assert lab.outside_connects("203.0.113.50", 22)


async def test_a_router_joins_two_networks_and_follows_its_own_routes(lab: Lab) -> None:
    other = evolve(TWIN, subnets=(SubnetSpec("other", "10.8.0.0/24", "10.8.0.1"),))
    leg = RouterInterface("99999999-cccc-4000-8000-000000000000", other.id, "fa:16:3e:fe:00:03", ("10.8.0.1/24",))
    await ensure(lab, NETWORK, other, OPEN, router(gateway=None, interfaces=(*router().interfaces, leg)))
    first = await guest(lab, port(9))
    second = await guest(lab, port(9, other, fixed_ips=(FixedIp("other", "10.8.0.9"),)))
    assert first.ping("10.8.0.9")
    second.ip("address", "add", "172.16.0.1/32", "dev", "lo")
    await lab.driver.ensure_port(
        port(9, other, fixed_ips=(FixedIp("other", "10.8.0.9"),), address_pairs=(("172.16.0.1", port(9, other).mac),)),
        "host-1",
    )
    both = router(gateway=None, interfaces=(*router().interfaces, leg), routes=(Route("172.16.0.0/24", "10.8.0.9"),))
    await ensure(lab, both)
    assert first.ping("172.16.0.1")
    await ensure(lab, evolve(both, routes=()))
    assert not first.ping("172.16.0.1", patience=SILENCE)


async def test_a_network_without_its_namespace_keeps_metadata_from_no_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure(lab, NETWORK, TWIN, OPEN)
    made, twin = await guest(lab, port(9)), await guest(lab, port(9, TWIN))
    real = inside.listening

    def listening(namespace: Any, *where: Any) -> Any:
        if namespace == lab.names.network_namespace(NETWORK.id):
            raise Unreachable("no socket")
        return real(namespace, *where)

    monkeypatch.setattr(inside, "listening", listening)
    await lab.driver.serve_guest_metadata(Site)
    assert await twin.get("/") == f"{TWIN.id} 10.7.0.9 /".encode()
    monkeypatch.undo()
    await ensure(lab, NETWORK)
    assert await made.get("/") == f"{NETWORK.id} 10.7.0.9 /".encode()


async def test_metadata_knows_the_guest_with_a_router_or_without(lab: Lab) -> None:
    await lab.driver.serve_guest_metadata(Site)
    await ensure(lab, NETWORK, TWIN, PUBLIC, OPEN, router())
    routed, alone = await guest(lab, port(9)), await guest(lab, port(9, TWIN), "host-2")
    assert await routed.get("/latest") == f"{NETWORK.id} 10.7.0.9 /latest".encode()
    assert await alone.get("/") == f"{TWIN.id} 10.7.0.9 /".encode()
    # A guest that knows no more than its default route.
    routed.ip("route", "del", "169.254.169.254")
    assert await routed.get("/2") == f"{NETWORK.id} 10.7.0.9 /2".encode()


async def test_everything_is_there_again_after_a_reboot(lab: Lab) -> None:
    await lab.driver.serve_guest_metadata(Site)
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    await lab.guest(port(9))
    await lab.guest(port(10), "host-2")
    before = await lab.driver.inventory()
    await lab.driver.close()
    lab.reboot()
    assert (await lab.driver.inventory()) == before
    await lab.driver.serve_guest_metadata(Site)
    made = await leasing(lab, port(9))
    assert await made.get("/") == f"{NETWORK.id} 10.7.0.9 /".encode()
    assert lab.outside_pings("203.0.113.50")


async def test_a_restart_disturbs_nobody(lab: Lab) -> None:
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    made = await guest(lab, port(9))
    links, dnsmasq = lab.configured("host-1"), lab.dnsmasq_pids()
    await lab.driver.close()
    lab.restart()
    await lab.driver.inventory()
    assert (lab.configured("host-1"), lab.dnsmasq_pids()) == (links, dnsmasq)
    assert lab.outside_pings("203.0.113.50")
    assert (await made.lease())["ip"] == "10.7.0.9"


async def test_nothing_is_left_of_what_was_removed(lab: Lab) -> None:
    await lab.driver.serve_guest_metadata(Site)
    await ensure(lab, NETWORK, TWIN, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    made = await guest(lab, port(9))
    await guest(lab, port(10), "host-2")
    await made.get("/")
    with pytest.raises(InUse):
        await lab.driver.ensure_network_absent(NETWORK.id)
    await lab.driver.ensure_router_absent(router().id)
    for each in (port(9), port(10)):
        await lab.driver.ensure_port_absent(each.id)
    await lab.driver.ensure_security_group_absent(OPEN.id)
    for network in (NETWORK, TWIN, PUBLIC):
        await lab.driver.ensure_network_absent(network.id)
    assert lab.nothing_left() == []


async def test_a_gateway_of_another_prefix_leads_outside(lab: Lab) -> None:
    public = evolve(PUBLIC, subnets=(evolve(PUBLIC.subnets[0], gateway_ip="198.51.100.1"),))
    run("ip", "-n", lab.outside, "address", "add", "198.51.100.1/32", "dev", "eth0")
    run("ip", "-n", lab.outside, "address", "add", "192.0.2.1/32", "dev", "lo")
    # The second call finds the route and leaves it there.
    await ensure(lab, NETWORK, public, OPEN, router(), router())
    made = await guest(lab, port(9))
    assert made.ping("192.0.2.1")


@pytest.mark.parametrize("moves", [True, False])
async def test_a_flow_ends_with_the_floating_address_that_it_goes_by(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    """Even if the first call that takes the address away breaks off, and another process repeats it."""
    await ensure(lab, NETWORK, PUBLIC, OPEN, router(("203.0.113.50", "10.7.0.9")))
    first = await guest(lab, port(9))
    wished = router(("203.0.113.50", "10.7.0.10")) if moves else router()
    with first.pinging(OUTSIDE) as out, pinging(lab.outside, "203.0.113.50") as back:
        assert out() and back()
        monkeypatch.setattr(Routers, "cut_flows", _killed)
        with pytest.raises(ZeroDivisionError):
            await ensure(lab, wished)
        monkeypatch.undo()
        lab.restart()
        await ensure(lab, wished)
        assert not back(SILENCE)
        # What the guest sends goes on as a new flow, with the router's own address.
        assert out()
        assert "dst=203.0.113.10 type=0" in _tracked(lab)
    assert not lab.driver.records.surrendered.rows


async def _killed(*_: object) -> None:
    raise ZeroDivisionError


def _tracked(lab: Lab) -> str:
    """The connections that the router knows."""
    return run("ip", "netns", "exec", lab.names.router_namespace(router().id), "conntrack", "-L")
