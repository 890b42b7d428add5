"""Who may send as whom, and who is let in by address, on real networks."""

from __future__ import annotations

from contextlib import closing

from attrs import evolve

from cloudctl.drivers.specs import SecurityGroupRule
from tests.drivers.netns.lab import Lab
from tests.drivers.netns.wishes import NETWORK, OPEN, QUIET, SILENCE, ensure, guest, port

VIRTUAL = "10.7.0.100"


async def test_an_allowed_pair_lets_a_virtual_address_move(lab: Lab) -> None:
    """As VRRP does: it is at one guest, and then at the other."""
    await ensure(lab, NETWORK, OPEN)
    pair = [port(number, address_pairs=((VIRTUAL, port(number).mac),)) for number in (9, 10)]
    first, second = await guest(lab, pair[0]), await guest(lab, pair[1], "host-2")
    client, other = await guest(lab, port(11)), await guest(lab, port(12))
    first.ip("address", "add", f"{VIRTUAL}/32", "dev", "eth0")
    assert client.ping(VIRTUAL)
    first.ip("address", "del", f"{VIRTUAL}/32", "dev", "eth0")
    second.ip("address", "add", f"{VIRTUAL}/32", "dev", "eth0")
    client.ip("neigh", "flush", "all")
    assert client.ping(VIRTUAL)
    # Who has no such pair cannot have it.
    second.ip("address", "del", f"{VIRTUAL}/32", "dev", "eth0")
    other.ip("address", "add", f"{VIRTUAL}/32", "dev", "eth0")
    client.ip("neigh", "flush", "all")
    assert not client.ping(VIRTUAL, patience=SILENCE)


async def test_an_address_that_leaves_a_group_of_addresses_is_dropped(lab: Lab) -> None:
    """A rule for such a group comes as one for each address."""
    both = [SecurityGroupRule("ingress", "IPv4", remote_prefix=f"10.7.0.{number}/32") for number in (10, 11)]
    group = evolve(QUIET, rules=(*QUIET.rules, *both))
    await ensure(lab, NETWORK, OPEN, group)
    made = await guest(lab, port(9, groups=(group,)))
    one, two, three = [await guest(lab, port(number)) for number in (10, 11, 12)]
    with closing(made.listen(80)):
        assert one.connects("10.7.0.9", 80) and two.connects("10.7.0.9", 80)
        assert not three.connects("10.7.0.9", 80, SILENCE)
        with two.pinging("10.7.0.9") as echo:
            assert echo()
            await ensure(lab, evolve(group, rules=group.rules[:-1]))
            assert not echo(SILENCE), "what was under way ends, too"
        assert one.connects("10.7.0.9", 80) and not two.connects("10.7.0.9", 80, SILENCE)


async def test_answers_to_a_port_of_a_stateless_group_want_a_rule(lab: Lab) -> None:
    group = evolve(QUIET, stateful=False)
    await ensure(lab, NETWORK, OPEN, group)
    made, other = await guest(lab, port(9, groups=(group,))), await guest(lab, port(10))
    assert not made.ping("10.7.0.10", patience=SILENCE)
    await ensure(lab, evolve(group, rules=(*group.rules, SecurityGroupRule("ingress", "IPv4", "icmp"))))
    assert made.ping("10.7.0.10")
    await ensure(lab, evolve(QUIET, stateful=True))
    assert made.ping("10.7.0.10")
    assert not other.ping("10.7.0.9", patience=SILENCE)
