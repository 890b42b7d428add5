"""Guests without a virtual machine on real networks: what they get, whom they reach, and what is dropped."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import Deferred, gatherResults

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.daemons import Daemons
from cloudctl.drivers.netns.hosts import Host
from cloudctl.drivers.programs import ProgramFailed
from cloudctl.drivers.specs import (
    BandwidthLimit,
    FixedIp,
    SecurityGroupRule,
    SecurityGroupSpec,
)
from tests.drivers.netns.lab import Lab
from tests.drivers.netns.probes import arp_request
from tests.drivers.netns.wishes import (
    GIVING,
    NETWORK,
    OPEN,
    PUBLIC,
    QUIET,
    SILENCE,
    TWIN,
    ensure,
    eventually,
    guest,
    leasing,
    port,
)


async def test_a_guest_gets_its_address_with_all_options(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await lab.guest(port(9))
    lease = await made.lease()
    assert lease == {
        "ip": "10.7.0.9",
        "mask": "24",
        "router": "10.7.0.1",
        "dns": "10.7.0.53",
        "mtu": "1400",
        "staticroutes": "169.254.169.254/32 0.0.0.0 10.9.0.0/16 10.7.0.7 0.0.0.0/0 10.7.0.1",
        "serverid": "169.254.169.254",
    }
    # What gives it is seen as a port of the network.
    (giving,) = GIVING.addresses
    assert made.ping(giving.partition("/")[0])
    assert GIVING.mac in made.ip("neighbour", "show")
    await lab.driver.ensure_network(evolve(NETWORK, dhcp_port=None))
    assert not made.ping(giving.partition("/")[0], patience=SILENCE)
    assert (await made.lease()) == lease


async def test_a_stranger_gets_no_address(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await lab.guest(port(9, port_security=False))
    made.ip("link", "set", "dev", "eth0", "address", "fa:16:3e:99:99:99")
    assert await made.lease(tries=1) == {}


async def test_a_changed_address_is_given_from_the_next_request_on(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await leasing(lab, port(9))
    await lab.driver.ensure_port(port(9, fixed_ips=(FixedIp("subnet", "10.7.0.19"),)), "host-1")
    assert (await made.lease())["ip"] == "10.7.0.19"


async def test_an_address_goes_to_the_next_port_that_has_it(lab: Lab) -> None:
    """dnsmasq refuses an address that it has leased to another MAC, unless it is made to forget."""
    await ensure(lab, NETWORK, OPEN)
    spec = port(9)
    await leasing(lab, spec)
    await lab.driver.ensure_port_absent(spec.id)
    heir = evolve(spec, id=spec.id[::-1], mac="fa:16:3e:77:77:77")
    await leasing(lab, heir)


@pytest.mark.parametrize("restarts", [True, False])
async def test_an_address_is_free_for_the_next_port_if_the_first_removal_broke_off(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    await ensure(lab, NETWORK, OPEN)
    spec = port(9)
    await leasing(lab, spec)
    monkeypatch.setattr(Daemons, "end", _killed)
    with pytest.raises(ZeroDivisionError):
        await lab.driver.ensure_port_absent(spec.id)
    monkeypatch.undo()
    if restarts:
        lab.restart()
    await lab.driver.ensure_port_absent(spec.id)
    await leasing(lab, evolve(spec, id=spec.id[::-1], mac="fa:16:3e:77:77:77"))


async def _killed(*_args: Any) -> None:
    raise ZeroDivisionError


async def test_neighbours_reach_each_other_and_not_their_twins_on_another_network(lab: Lab) -> None:
    await ensure(lab, NETWORK, TWIN, OPEN)
    first, second = await guest(lab, port(9)), await guest(lab, port(10))
    twin = await guest(lab, port(9, TWIN))
    assert first.ping("10.7.0.10")
    assert second.ping("10.7.0.9")
    assert not twin.ping("10.7.0.10", patience=SILENCE)


async def test_neighbours_on_two_hosts_reach_each_other(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    first, second = await guest(lab, port(9)), await guest(lab, port(10), "host-2")
    assert first.ping("10.7.0.10")
    with closing(second.listen(80)):
        assert first.connects("10.7.0.10", 80)


async def test_spoofed_packets_are_dropped(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    first, second = await guest(lab, port(9)), await guest(lab, port(10))
    assert first.ping("10.7.0.10")
    first.ip("address", "add", "10.7.0.99/24", "dev", "eth0")
    assert not first.ping("10.7.0.10", source="10.7.0.99", patience=SILENCE)
    assert first.ping("10.7.0.10", source="10.7.0.9")
    first.ip("link", "set", "dev", "eth0", "address", "fa:16:3e:99:99:99")
    assert not first.ping("10.7.0.10", patience=SILENCE)
    assert not second.ping("10.7.0.9", patience=SILENCE)


async def test_spoofed_arp_is_dropped(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    first, second = await guest(lab, port(9)), await guest(lab, port(10))

    def is_known() -> bool:
        # A packet may be lost, and the kernel forgets a neighbour that it does not need.
        for address in ("10.7.0.99", "10.7.0.9"):
            first.broadcast(arp_request(first.mac, address, "10.7.0.10"))
        known = second.ip("neighbour", "show")
        assert "10.7.0.99" not in known
        return "10.7.0.9 " in known

    await eventually(is_known)


async def test_an_allowed_address_pair_may_be_used(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    first, _ = await guest(lab, port(9)), await guest(lab, port(10))
    first.ip("address", "add", "10.7.0.99/24", "dev", "eth0")
    await lab.driver.ensure_port(port(9, address_pairs=(("10.7.0.96/28", port(9).mac),)), "host-1")
    assert first.ping("10.7.0.10", source="10.7.0.99")


async def test_a_port_without_port_security_may_send_as_anyone_and_is_not_filtered(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    free, other = await guest(lab, port(9, groups=(), port_security=False)), await guest(lab, port(10))
    free.ip("address", "add", "10.7.0.99/24", "dev", "eth0")
    assert free.ping("10.7.0.10", source="10.7.0.99")
    assert other.ping("10.7.0.9")


async def test_nothing_comes_in_without_a_rule_and_answers_always_do(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN, QUIET)
    quiet, other = await guest(lab, port(9, groups=(QUIET,))), await guest(lab, port(10))
    assert not other.ping("10.7.0.9", patience=SILENCE)
    assert quiet.ping("10.7.0.10")
    ssh = SecurityGroupRule("ingress", "IPv4", "tcp", 20, 22, remote_prefix="10.7.0.8/29")
    await ensure(lab, evolve(QUIET, rules=(*QUIET.rules, ssh)))
    with closing(quiet.listen(22)), closing(quiet.listen(80)):
        assert other.connects("10.7.0.9", 22)
        assert not other.connects("10.7.0.9", 80, SILENCE)


async def test_nothing_goes_out_without_a_rule(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN, evolve(QUIET, rules=()))
    mute, other = await guest(lab, port(9, groups=(QUIET,))), await guest(lab, port(10))
    assert not mute.ping("10.7.0.10", patience=SILENCE)
    await ensure(lab, evolve(QUIET, rules=(SecurityGroupRule("egress", "IPv4", "icmp", 8),)))
    assert mute.ping("10.7.0.10")
    with closing(other.listen(80)):
        assert not mute.connects("10.7.0.10", 80, SILENCE)


async def test_rules_and_protection_from_spoofing_hold_for_ipv6_too(lab: Lab) -> None:
    ssh = SecurityGroupRule("ingress", "IPv6", "tcp", 22, 22, remote_prefix="fd00:7::/64")
    rules = (SecurityGroupRule("egress", "IPv6"), ssh)
    await ensure(lab, NETWORK, evolve(OPEN, rules=(*OPEN.rules, *rules)))
    first = await lab.guest(port(9, fixed_ips=(FixedIp("subnet", "fd00:7::9"),)))
    second = await lab.guest(port(10, fixed_ips=(FixedIp("subnet", "fd00:7::10"),)), "host-2")
    first.ip("address", "add", "fd00:7::9/64", "dev", "eth0", "nodad")
    second.ip("address", "add", "fd00:7::10/64", "dev", "eth0", "nodad")
    with closing(first.listen(22, "::")), closing(first.listen(80, "::")):
        assert second.connects("fd00:7::9", 22)
        assert not second.connects("fd00:7::9", 80, SILENCE)
        second.ip("address", "del", "fd00:7::10/64", "dev", "eth0")
        second.ip("address", "add", "fd00:7::99/64", "dev", "eth0", "nodad")
        assert not second.connects("fd00:7::9", 22, SILENCE)


async def test_members_of_a_remote_group_come_in_from_any_host(lab: Lab) -> None:
    among = SecurityGroupRule("ingress", "IPv4", remote_group_id=QUIET.id)
    await ensure(lab, NETWORK, OPEN, evolve(QUIET, rules=(*QUIET.rules, among)))
    first, second = await guest(lab, port(9, groups=(QUIET,))), await guest(lab, port(10, groups=(QUIET,)), "host-2")
    stranger = await guest(lab, port(11))
    assert second.ping("10.7.0.9")
    assert first.ping("10.7.0.10")
    assert not stranger.ping("10.7.0.9", patience=SILENCE)
    await lab.driver.ensure_port(port(11, groups=(OPEN, QUIET)), "host-1")
    assert stranger.ping("10.7.0.9")


async def test_an_established_connection_ends_with_the_rule_that_let_it_in(lab: Lab) -> None:
    ping = SecurityGroupRule("ingress", "IPv4", "icmp")
    await ensure(lab, NETWORK, OPEN, evolve(QUIET, rules=(*QUIET.rules, ping)))
    _, other = await guest(lab, port(9, groups=(QUIET,))), await guest(lab, port(10))
    with other.pinging("10.7.0.9") as echoes:
        assert echoes()
        await ensure(lab, QUIET)
        assert not echoes(SILENCE)


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("change", ["rule", "group", "port"])
async def test_an_established_connection_ends_even_if_the_first_call_that_forbids_it_breaks_off(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, change: str, restarts: bool
) -> None:
    ping = SecurityGroupRule("ingress", "IPv4", "icmp")
    pinged = SecurityGroupSpec("99999999-aaaa-4000-8000-000000000009", (ping,))
    await ensure(lab, NETWORK, OPEN, QUIET, pinged)
    spec = port(9, groups=(QUIET, pinged))
    _, other = await guest(lab, spec), await guest(lab, port(10))

    async def forbid() -> None:
        if change == "rule":
            await ensure(lab, evolve(pinged, rules=()))
        elif change == "group":
            await lab.driver.ensure_port(port(9, groups=(QUIET,)), "host-1")
        else:
            await lab.driver.ensure_port_absent(spec.id)

    with other.pinging("10.7.0.9") as echoes:
        assert echoes()
        monkeypatch.setattr(Host, "forget_flows", _killed)
        with pytest.raises(ZeroDivisionError):
            await forbid()
        monkeypatch.undo()
        if restarts:
            lab.restart()
        await forbid()
        if change == "port":
            await guest(lab, evolve(spec, id=spec.id[::-1], security_groups=(QUIET.id,)))
        assert not echoes(SILENCE)
    assert not lab.driver.records.narrowed.rows


@pytest.mark.parametrize("direction", ["egress", "ingress"])
async def test_a_port_gets_no_more_bandwidth_than_its_limit(lab: Lab, direction: str) -> None:
    limits = (BandwidthLimit(direction, max_kbps=800, max_burst_kbit=1600),)
    await ensure(lab, NETWORK, OPEN)
    limited, free = await guest(lab, port(9, limits=limits)), await guest(lab, port(10))
    sender, receiver, address = (limited, free, "10.7.0.10") if direction == "egress" else (free, limited, "10.7.0.9")
    assert sender.ping(address)
    # Packets are of 1028 bytes. A second's worth, 100,000 bytes, and as many more, may come at once, and then what the
    # rate allows while this process is held up.
    began = time.monotonic()
    arrived = receiver.receives(sender, address, packets=400)
    assert 180 <= arrived <= 210 + 100 * (time.monotonic() - began)
    await lab.driver.ensure_port(port(9), "host-1")
    assert receiver.receives(sender, address, packets=400) == 400


async def test_a_dnsmasq_that_died_runs_again_with_the_next_call(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await guest(lab, port(9))
    (pid,) = lab.dnsmasq_pids()
    os.kill(pid, 9)
    await eventually(lambda: not lab.dnsmasq_pids())
    await ensure(lab, NETWORK)
    assert (await made.lease())["ip"] == "10.7.0.9"


async def test_a_dnsmasq_whose_files_were_swept_away_is_replaced(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    made = await guest(lab, port(9))
    (pid,) = lab.dnsmasq_pids()
    lab.sweep()
    await ensure(lab, NETWORK)
    assert (await made.lease())["ip"] == "10.7.0.9"
    assert pid not in lab.dnsmasq_pids()


async def test_what_stands_in_the_way_of_one_port_is_in_no_others(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    # Larger than any link can be: the kernel refuses it.
    with pytest.raises(ProgramFailed):
        await lab.driver.ensure_port(port(9, mtu=65535), "host-1")
    await guest(lab, port(10))
    await lab.driver.ensure_port_absent(port(9).id)
    assert [state.id for state in (await lab.driver.inventory()).ports] == [port(10).id]


async def test_the_last_port_takes_its_network_from_the_host(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    await guest(lab, port(9))
    await lab.driver.ensure_port(port(9), "host-2")
    assert any(lab.names.bridge(NETWORK.id) in line for line in lab.links("host-2"))
    await lab.driver.ensure_port_absent(port(9).id, "host-2")
    assert not any(lab.names.bridge(NETWORK.id) in line for line in lab.links("host-2"))
    assert (await lab.driver.observe_port(port(9).id)).hosts == ("host-1",)


async def test_a_plug_is_a_tap_in_the_hosts_namespace(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    binding = await lab.driver.ensure_port(port(9), "host-2")
    assert binding["vif_type"] == "tap"
    details = binding["vif_details"]
    assert details["namespace"] == lab.host("host-2")
    assert lab.link_kind(details["namespace"], details["tap"]) == "tun"


async def test_twenty_ports_at_once_are_all_plugged(lab: Lab) -> None:
    await ensure(lab, NETWORK, OPEN)
    specs = [port(number) for number in range(10, 30)]
    await gatherResults([Deferred.fromCoroutine(lab.driver.ensure_port(spec, "host-1")) for spec in specs])
    assert [state.id for state in (await lab.driver.inventory()).ports] == sorted(spec.id for spec in specs)


async def test_a_network_without_a_wire_to_be_on_is_refused(lab: Lab) -> None:
    with pytest.raises(Unfit, match="physical_networks"):
        await ensure(lab, evolve(PUBLIC, physical_network="elsewhere"))
    assert (await lab.driver.inventory()).networks == ()
