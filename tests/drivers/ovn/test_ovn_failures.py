"""The OVN driver where the database goes away, others write into it, or half of what it held is gone."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import evolve
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import DriverError, UnknownPort, Unreachable, Unusable
from cloudctl.drivers.ovn import networks, ports
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.specs import (
    DhcpOption,
    FixedIp,
    NetworkSpec,
    PortSpec,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
    SubPort,
)
from tests.drivers.ovn.ovsdb import Server, make_driver

SUBNET = SubnetSpec("subnet", "10.7.0.0/24", "10.7.0.1")
NETWORK = NetworkSpec("network", subnets=(SUBNET,))
GROUP = SecurityGroupSpec("group", (SecurityGroupRule("ingress", "IPv4", remote_group_id="group"),))


def port(number: int, **changes: Any) -> PortSpec:
    made = PortSpec(f"port-{number}", "network", f"fa:16:3e:00:00:{number:02x}")
    return evolve(made, fixed_ips=(FixedIp("subnet", f"10.7.0.{number}"),), security_groups=("group",), **changes)


@pytest_twisted.async_yield_fixture
async def driver(northbound: Server) -> AsyncIterator[Any]:
    made = make_driver(northbound, answer_timeout=60.0)
    await made.ensure_network(NETWORK)
    await made.ensure_security_group(GROUP)
    yield made
    await made.close()


# What must be the same again, without the ids of rows.
TOLD = {
    "Logical_Switch": ("name", "external_ids"),
    "Logical_Switch_Port": ("name", "addresses", "external_ids"),
    "Logical_Router": ("name", "external_ids"),
    "Logical_Router_Port": ("name", "networks", "external_ids"),
    "DHCP_Options": ("cidr", "options", "external_ids"),
    "Port_Group": ("name", "external_ids"),
    "Address_Set": ("name", "addresses"),
    "ACL": ("match", "external_ids"),
}


def members(northbound: Server, version: int = 4) -> list[str]:
    sets = northbound.rows("Address_Set", "name", "addresses")
    (found,) = (each["addresses"] for each in sets if each["name"] == f"members_group_v{version}")
    return sorted(found[1]) if isinstance(found, list) else [found]


def delete(table: str, name: str) -> dict[str, Any]:
    return {"op": "delete", "table": table, "where": [["name", "==", name]]}


async def heard(driver: Any, northbound: Server) -> None:
    """The driver's copy has all that others have written: this comes last."""
    from twisted.internet import reactor

    northbound.transact({"op": "insert", "table": "Logical_Switch", "row": {"name": "last"}})
    switches = driver.connection.replica.tables["Logical_Switch"].rows
    for _ in range(3000):
        if any(each.name == "last" for each in switches.values()):
            return
        await deferLater(reactor, 0.02)
    raise AssertionError("the driver has not heard of it")


async def count(driver: Any) -> tuple[int, ...]:
    """Of networks, ports, routers and groups."""
    found = await driver.inventory()
    return tuple(map(len, (found.networks, found.ports, found.routers, found.security_groups)))


async def test_a_database_that_comes_back_is_used_again(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9), "east")
    northbound.stop()
    waiting = call(driver.ensure_port, port(10), "east")
    northbound.start()
    await waiting
    assert await count(driver) == (1, 2, 0, 1)
    assert members(northbound) == ["10.7.0.10", "10.7.0.9"]


async def test_what_happened_while_the_database_was_away_is_heeded(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9), "east")
    before = northbound.file.read_bytes()
    await driver.ensure_port(port(10), "east")
    northbound.stop()
    northbound.file.write_bytes(before)  # as from a backup: the port was never there
    northbound.start()
    await driver.ensure_port(port(11), "east")
    found = await driver.inventory()
    assert [each.id for each in found.ports] == ["port-11", "port-9"]


async def test_a_network_whose_switch_somebody_removed_is_not_there(driver: Any, northbound: Server) -> None:
    """What is left of it, its DHCP options, counted as a network: no audit missed it."""
    northbound.transact(delete("Logical_Switch", "network"))
    await heard(driver, northbound)
    assert (await driver.inventory()).networks == ()
    await driver.ensure_network(NETWORK)
    assert (await driver.inventory()).networks == ("network",)


async def test_a_database_that_was_restored_with_other_ids_of_its_rows_is_repaired(
    driver: Any, northbound: Server, tmp_path: Path
) -> None:
    """As `ovsdb-client restore` leaves it: nothing is found where it should be, and nothing may be there twice."""
    router = RouterSpec(
        "router", interfaces=(RouterInterface("leg", "network", "fa:16:3e:00:00:01", ("10.7.0.1/24",)),)
    )

    async def put() -> None:
        await driver.ensure_network(NETWORK)
        await driver.ensure_security_group(GROUP)
        await driver.ensure_port(port(9), "east")
        await driver.ensure_router(router)

    def there() -> list[list[Any]]:
        return [sorted(map(str, northbound.rows(table, *columns))) for table, columns in TOLD.items()]

    await put()
    before = there()
    with (tmp_path / "kept").open("wb") as kept:
        subprocess.run(["ovsdb-client", "backup", northbound.remote], stdout=kept, check=True)
    with (tmp_path / "kept").open("rb") as found:
        subprocess.run(["ovsdb-client", "restore", northbound.remote], stdin=found, check=True)
    await heard(driver, northbound)
    assert await count(driver) == (0, 0, 0, 0)
    assert await driver.drifted() == frozenset()
    with pytest.raises(UnknownPort):
        await driver.observe_port("port-9")
    await put()
    assert await count(driver) == (1, 1, 1, 1)
    northbound.transact(delete("Logical_Switch", "last"))
    assert there() == before


async def test_a_database_that_hangs_is_unreachable_and_no_call_is_held_for_ever(northbound: Server) -> None:
    driver = make_driver(northbound, answer_timeout=0.5)
    try:
        northbound.freeze()
        with pytest.raises(Unreachable):
            await driver.ensure_network(NETWORK)
        with pytest.raises(Unreachable):
            await driver.inventory()
    finally:
        northbound.thaw()
        await driver.close()


async def test_a_closed_driver_says_so(driver: Any) -> None:
    await driver.close()
    with pytest.raises(Unreachable):
        await driver.inventory()


async def test_what_is_refused_changes_nothing(driver: Any, northbound: Server) -> None:
    """A transaction is whole or not at all: the wish is not kept either."""
    northbound.transact(
        {"op": "insert", "table": "Logical_Router", "row": {"name": "theirs", "ports": ["named-uuid", "taken"]}},
        {
            "op": "insert",
            "table": "Logical_Router_Port",
            "uuid-name": "taken",
            "row": {"name": "leg-mine", "mac": "fa:16:3e:00:00:01", "networks": "10.8.0.1/24"},
        },
    )
    leg = RouterInterface("mine", "network", "fa:16:3e:00:00:01", ("10.7.0.1/24",))
    with pytest.raises(DriverError, match="leg-mine"):
        await driver.ensure_router(RouterSpec("router", interfaces=(leg,)))
    assert await count(driver) == (1, 0, 0, 1)
    northbound.transact(delete("Logical_Router", "theirs"))
    await driver.ensure_router(RouterSpec("router", interfaces=(leg,)))
    assert await count(driver) == (1, 0, 1, 1)


async def test_what_somebody_took_away_or_changed_is_mended(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9, dscp_mark=26), "east")
    switch = ["_uuid", "==", ["uuid", str(networks.switch("network").uuid)]]
    lsp = ["_uuid", "==", ["uuid", str(ports.logical_port("port-9").uuid)]]
    northbound.transact(
        {"op": "update", "table": "Logical_Switch_Port", "where": [lsp], "row": {"port_security": ["set", []]}},
        {"op": "update", "table": "Logical_Switch", "where": [switch], "row": {"qos_rules": ["set", []]}},
        {"op": "update", "table": "Port_Group", "where": [], "row": {"ports": ["set", []]}},
        {"op": "update", "table": "Address_Set", "where": [], "row": {"addresses": ["set", []]}},
        {"op": "delete", "table": "DHCP_Options", "where": []},
    )
    await heard(driver, northbound)
    assert await driver.drifted() == {"network", "group", "port-9"}
    await driver.ensure_network(NETWORK)
    await driver.ensure_security_group(GROUP)
    await driver.ensure_port(port(9, dscp_mark=26), "east")
    (found,) = northbound.rows("Logical_Switch_Port", "port_security", "dhcpv4_options")
    assert found["port_security"] == "fa:16:3e:00:00:09 10.7.0.9"
    assert found["dhcpv4_options"] == ["uuid", str(networks.dhcp_options("subnet").uuid)]
    assert [each["ports"][0] for each in northbound.rows("Port_Group", "name", "ports")] == ["uuid", "uuid"]
    assert await driver.drifted() == frozenset()
    assert len(northbound.rows("QoS", "match")) == 1
    assert members(northbound) == ["10.7.0.9"]


async def test_a_port_that_somebody_took_away_is_not_there(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9), "east")
    switch = ["_uuid", "==", ["uuid", str(networks.switch("network").uuid)]]
    northbound.transact({"op": "update", "table": "Logical_Switch", "where": [switch], "row": {"ports": ["set", []]}})
    await heard(driver, northbound)
    await driver.ensure_network(NETWORK)
    assert await count(driver) == (1, 0, 0, 1)
    await driver.ensure_port(port(9), "east")
    assert await count(driver) == (1, 1, 0, 1)


async def test_rows_of_others_are_left_alone(driver: Any, northbound: Server) -> None:
    northbound.transact({"op": "insert", "table": "Logical_Switch", "row": {"name": "theirs"}})
    assert await count(driver) == (1, 0, 0, 1)
    await driver.ensure_network_absent("network")
    assert northbound.rows("Logical_Switch", "name") == [{"name": "theirs"}]


async def test_two_processes_that_want_the_same_make_it_once(driver: Any, northbound: Server) -> None:
    other = make_driver(northbound)
    try:
        plugging = [
            call(each.ensure_port, port(number), host)
            for number in range(9, 19)
            for each, host in ((driver, "east"), (other, "west"))
        ]
        await gatherResults(plugging)
        assert await count(driver) == await count(other) == (1, 10, 0, 1)
        found = await other.inventory()
        assert {each.hosts for each in found.ports} == {("east", "west")}
        assert len(members(northbound)) == 10
    finally:
        await other.close()


# -- what follows from what


async def test_ports_follow_their_network(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9), "east")
    for enabled in (False, True):
        await driver.ensure_network(evolve(NETWORK, subnets=(evolve(SUBNET, enable_dhcp=enabled),)))
        (found,) = northbound.rows("Logical_Switch_Port", "dhcpv4_options")
        assert (found["dhcpv4_options"][0] == "uuid") is enabled


async def test_a_router_follows_its_networks(driver: Any, northbound: Server) -> None:
    leg = RouterInterface("leg", "network", "fa:16:3e:00:00:01", ("2001:db8::1/64",))
    await driver.ensure_router(RouterSpec("router", interfaces=(leg,)))
    six = SubnetSpec("six", "2001:db8::/64", "2001:db8::1", ipv6_ra_mode="slaac")
    await driver.ensure_network(evolve(NETWORK, subnets=(SUBNET, six)))
    (found,) = northbound.rows("Logical_Router_Port", "ipv6_ra_configs")
    assert ["address_mode", "slaac"] in found["ipv6_ra_configs"][1]


async def test_a_group_has_the_ports_that_were_there_before_it(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(evolve(port(9), security_groups=("late",)), "east")
    await driver.ensure_security_group(SecurityGroupSpec("late"))
    found = {each["name"]: each["ports"] for each in northbound.rows("Port_Group", "name", "ports")}
    assert found["group_late"] == ["uuid", str(ports.logical_port("port-9").uuid)]


async def test_an_address_that_two_ports_have_stays_until_both_are_gone(driver: Any, northbound: Server) -> None:
    twin = evolve(port(10), address_pairs=(("10.7.0.9", "fa:16:3e:00:00:09"),))
    await driver.ensure_port(port(9), "east")
    await driver.ensure_port(twin, "east")
    await driver.ensure_port_absent("port-9")
    assert members(northbound) == ["10.7.0.10", "10.7.0.9"]
    await driver.ensure_port(evolve(twin, port_security=False), "east")
    assert members(northbound) == []


async def test_a_port_leaves_the_groups_that_it_is_not_in_any_more(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9), "east")
    await driver.ensure_port(evolve(port(9), security_groups=()), "east")
    found = {each["name"]: each["ports"] for each in northbound.rows("Port_Group", "name", "ports")}
    assert found["group_group"] == ["set", []]
    assert found["cloudctl_secured"][0] == "uuid"
    await driver.ensure_security_group_absent("group")
    await driver.ensure_port(evolve(port(9), security_groups=(), port_security=False), "east")
    assert northbound.rows("Port_Group", "ports") == [{"ports": ["set", []]}]


@pytest.mark.parametrize("parent_first", [True, False])
async def test_a_carried_port_finds_its_parent(driver: Any, northbound: Server, parent_first: bool) -> None:
    parent, child = evolve(port(9), subports=(SubPort("port-10", 7),)), port(10)
    for each in (parent, child) if parent_first else (child, parent):
        await driver.ensure_port(each, "east")

    def carried() -> tuple[Any, Any]:
        found = {each["name"]: each for each in northbound.rows("Logical_Switch_Port", "name", "parent_name", "tag")}
        return found["port-10"]["parent_name"], found["port-10"]["tag"]

    assert carried() == ("port-9", 7)
    await driver.ensure_port(evolve(parent, subports=()), "east")
    assert carried() == (["set", []], ["set", []])


async def test_options_of_a_port_go_with_it(driver: Any, northbound: Server) -> None:
    await driver.ensure_port(port(9, dhcp_options=(DhcpOption("mtu", "1300"),)), "east")
    assert len(northbound.rows("DHCP_Options", "_uuid")) == 2
    await driver.ensure_port_absent("port-9")
    assert len(northbound.rows("DHCP_Options", "_uuid")) == 1


async def test_a_hypervisor_is_told_how_to_plug_a_port(driver: Any) -> None:
    found = await driver.ensure_port(port(9), "east")
    assert found["vif_type"] == "ovs"
    details = found["vif_details"]
    assert (details["interface_id"], details["bridge"], details["mtu"]) == ("port-9", "br-int", 1442)


# -- options


async def test_tls_without_its_files_is_told(northbound: Server) -> None:
    driver = make_driver(northbound, northbound=["ssl:192.0.2.1:6641"], private_key=Path("/no/such.pem"))
    with pytest.raises(Unusable, match="private_key"):
        await driver.check()


@pytest.mark.parametrize("remotes", [[], ["tcp:db.example.com:6641"], ["/run/ovn/ovnnb_db.sock"]])
def test_a_remote_that_cannot_be_is_told(remotes: list[str]) -> None:
    with pytest.raises(ValueError, match=r"database|ADDRESS"):
        Config(northbound=remotes)
