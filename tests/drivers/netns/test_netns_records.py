"""What is wanted of ports is found without looking through all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.netns import records
from cloudctl.drivers.netns.records import Port, Records
from cloudctl.drivers.specs import PortSpec, RouterSpec
from tests.effort import lines


def port(number: int, network: str = "n1", hosts: tuple[str, ...] = ("h1",), groups: tuple[str, ...] = ()) -> Port:
    return Port(PortSpec(f"p{number}", network, "fa:16:3e:00:00:01", security_groups=groups), hosts, number)


def ids(ports: list[Port]) -> list[str]:
    return [each.spec.id for each in ports]


@pytest.mark.parametrize("again", [False, True])
def test_ports_are_found_by_all_that_they_are_of(tmp_path: Path, again: bool) -> None:
    held = records.records(tmp_path)
    for each in (port(2, groups=("g1", "g2")), port(1, hosts=("h1", "h2")), port(3, "n2", groups=("g1",))):
        held.ports.put(each.spec.id, each)
    moved = evolve(port(3, "n2", groups=("g2",)), hosts=("h2",))
    held.ports.put("p3", moved)
    held.ports.put("p4", port(4))
    held.ports.delete("p4")
    if again:
        held = records.records(tmp_path)
        held.load()
    assert (ids(held.ports_of("n1")), ids(held.ports_of("n2")), ids(held.ports_of("n3"))) == (["p1", "p2"], ["p3"], [])
    assert (ids(held.ports_on("h1")), ids(held.ports_on("h2"))) == (["p1", "p2"], ["p1", "p3"])
    assert (ids(held.ports_in("g1")), ids(held.ports_in("g2"))) == (["p2"], ["p2", "p3"])
    assert (held.hosts_of("n1"), held.hosts_of("n2"), held.hosts_of("n3")) == ({"h1", "h2"}, {"h2"}, set())


def test_what_goes_leaves_nothing_behind() -> None:
    held = records.records(None)
    held.ports.put("p1", port(1, groups=("g1",)))
    held.ports.delete("p1")
    held.ports.delete("p1")
    assert (held.ports.rows, held.hosts_of("n1"), held.ports_in("g1"), held.ports_on("h1")) == ({}, set(), [], [])


def test_what_cannot_be_kept_or_dropped_is_unreachable_and_stays_as_it_was(tmp_path: Path) -> None:
    held = records.records(tmp_path)
    held.ports.put("p1", port(1))
    (tmp_path / "ports" / "p1.json").unlink()
    (tmp_path / "ports" / "p1.json").mkdir()
    (tmp_path / "routers").write_text("in the way")
    for change in (
        lambda: held.ports.put("p1", port(2)),
        lambda: held.ports.delete("p1"),
        lambda: held.routers.put("r1", RouterSpec("r1")),
    ):
        with pytest.raises(Unreachable, match="cannot be"):
            change()
    assert (held.ports.rows, held.routers.rows) == ({"p1": port(1)}, {})


def many(networks: int, each: int) -> Records:
    held = records.records(None)
    for number in range(networks * each):
        held.ports.put(f"p{number}", port(number, f"n{number % networks}"))
    return held


def test_the_hosts_of_all_networks_cost_as_much_as_there_are_ports() -> None:
    """Each turn of a host asks for those of every network."""

    def cost(held: Records, networks: int) -> int:
        return lines(lambda: [held.hosts_of(f"n{number}") for number in range(networks)], most=10**6)

    few, more = cost(many(10, 10), 10), cost(many(100, 10), 100)
    assert more < 11 * few
