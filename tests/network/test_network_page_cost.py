"""A page costs the same wherever it is and however large the tables are. SQLite's own steps are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from typing import Any

import pytest
from sqlalchemy import insert, text
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.network import ports as ports_of_cloud
from cloudctl.network.addresses import key
from cloudctl.network.options import NetworkOptions
from cloudctl.network.tables import (
    IpAllocation,
    Network,
    NetworkTag,
    Port,
    PortSecurityGroup,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from cloudctl.testing.cloud import without_rows
from tests.network.conftest import START, Neutron, make_neutron

FEW, MANY = 600, 6_000
STEP = 100  # SQLite tells every so many of its steps
WHEN = datetime(2026, 1, 1)


@pytest.fixture
def neutron(options: NetworkOptions) -> Iterator[Neutron]:
    """In a database that cannot go back: transactions of so many rows take a third of the time there."""
    clock = Clock()
    clock.rightNow = START
    db = Database.in_memory(clock)
    db.connections.get().driver.deserialize(without_rows(len(metadata.tables)))
    made = make_neutron(db, clock, options)
    yield made
    made.engine.stopService()
    db.close()


def identifier(number: int) -> str:
    """Ids that lie about in any order, the 63rd in the middle."""
    return f"{number * 7919 % 1_000_003:036d}"


def fill(conn: Connection, first: int, most: int) -> None:
    """Networks, each with a subnet, a port, a group and a rule: half of project demo, half of other ones."""
    rows: dict[Any, list[dict[str, Any]]] = {
        table: []
        for table in (
            Network.table,
            Subnet.table,
            Port.table,
            IpAllocation.table,
            SecurityGroup.table,
            SecurityGroupRule.table,
            PortSecurityGroup.table,
        )
    }
    for number in range(first, most):
        id = identifier(number)
        project = "demo" if number % 2 else f"p{number % 97}"
        when = WHEN + timedelta(seconds=number)
        standard = {"id": id, "project_id": project, "description": "", "created_at": when, "updated_at": when}
        # Of networks a project sees its own and everybody's; others must not matter to it.
        own = {**standard, "project_id": project if number < FEW else "p"}
        rows[Network.table].append(
            {**own, "name": f"n{number}", "status": "ACTIVE", "mtu": 1450, "network_type": "vxlan"}
        )
        rows[Subnet.table].append({**standard, "network_id": id, "name": "", "ip_version": 4, "cidr": "10.0.0.0/24"})
        mac = f"fa:16:3e:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        one = number == 63
        rows[Port.table].append(
            {
                **standard,
                "network_id": id,
                "name": f"n{number}",
                "mac_address": mac,
                "device_id": f"d{number}",
                "status": "DOWN" if one else "ACTIVE",
                "device_owner": "network:dhcp" if one else "compute:nova",
                "host": "h63" if one else "h",
            }
        )
        rows[IpAllocation.table].append(
            {"subnet_id": id, "address": key(9), "ip_address": "10.0.0.9", "port_id": id, "network_id": id}
        )
        rows[SecurityGroup.table].append({**standard, "name": "g"})
        rows[SecurityGroupRule.table].append(
            {**standard, "security_group_id": id, "meaning": "m", "direction": "egress"}
        )
        rows[PortSecurityGroup.table].append({"port_id": id, "security_group_id": id})
    for table, values in rows.items():
        conn.execute(insert(table), values)


def counted(neutron: Neutron, do: Callable[[], object], step: int = STEP) -> int:
    """How many times SQLite told that it goes on while this was done."""
    told = [0]

    def tick() -> None:
        told[0] += 1

    connection: Any = neutron.db.connections.get().driver
    connection.set_progress_handler(tick, step)
    do()
    connection.set_progress_handler(None, 0)
    return told[0]


def steps(neutron: Neutron, path: str, user: str, rows: int = 20) -> int:
    """The same of a list that has so many."""
    answers: list[Any] = []
    found = counted(neutron, lambda: answers.append(neutron.get(path, user)))
    (answer,) = answers
    (key,) = (name for name in answer if not name.endswith("_links"))
    assert len(answer[key]) == rows, path
    return found


PAGES = [
    ("/networks?limit=20", "demo"),
    ("/networks?limit=20", "admin"),
    ("/networks?limit=20&marker={marker}", "admin"),
    ("/subnets?limit=20", "admin"),
    ("/ports?limit=20", "demo"),
    ("/ports?limit=20", "admin"),
    ("/ports?limit=20&marker={marker}", "demo"),
    ("/ports?limit=20&marker={marker}&page_reverse=true", "admin"),
    ("/ports?limit=20&status=ACTIVE", "demo"),
    ("/ports?limit=20&status=ACTIVE", "admin"),
    ("/ports?limit=20&fixed_ips=ip_address_substr%3D.0.9", "demo"),
    ("/ports?limit=20&fixed_ips=ip_address_substr%3D.0.9", "admin"),
    ("/ports?limit=20&binding:host_id=h", "admin"),
    ("/ports?limit=20&device_owner=compute:nova", "demo"),
    ("/ports?limit=20&device_owner=compute:nova", "admin"),
    ("/networks?limit=20&status=ACTIVE", "admin"),
    ("/subnets?limit=20&cidr=10.0.0.0/24", "admin"),
    ("/security-groups?limit=20&name=g", "demo"),
    ("/security-groups?limit=20&name=g", "admin"),
    ("/security-groups?limit=20", "demo"),
    ("/security-groups?limit=20", "admin"),
    ("/security-group-rules?limit=20&marker={marker}", "demo"),
]


def test_a_page_costs_the_same_in_a_small_and_in_a_large_cloud(neutron: Neutron) -> None:
    neutron.get("/security-groups")
    neutron.get("/security-groups", "admin")
    marker = identifier(63)
    neutron.transact(fill, 0, FEW)
    small = {page: steps(neutron, page[0].format(marker=marker), page[1]) for page in PAGES}
    neutron.transact(fill, FEW, MANY)
    large = {page: steps(neutron, page[0].format(marker=marker), page[1]) for page in PAGES}
    slower = {page: (small[page], large[page]) for page in PAGES if large[page] > 2 * small[page] + 5}
    assert not slower


def test_an_address_is_looked_for_on_one_network(neutron: Neutron) -> None:
    """All networks of a cloud may have the same addresses."""
    neutron.transact(fill, 0, FEW)
    assert neutron.transact(ports_of_cloud.at, identifier(63), "10.0.0.9") == identifier(63)
    query = "EXPLAIN QUERY PLAN SELECT port_id FROM ip_allocations WHERE ip_address = 'a' AND network_id = 'n'"
    plan = neutron.transact(lambda conn: [row[-1] for row in conn.execute(text(query))])
    assert len(plan) == 1 and "(ip_address=? AND network_id=?)" in plan[0]


LOOK_UPS = [
    f"/ports?{by}"
    for by in (
        "device_id=d63", "network_id={marker}", "id={marker}", "fixed_ips=subnet_id={marker}", "name=n63",
        "mac_address=fa:16:3e:00:00:3f",
    )
]  # fmt: skip


# What one port of the project has, and no other.
RARE = [
    ("/ports?status=DOWN", "demo"),
    ("/ports?status=DOWN", "admin"),
    ("/ports?device_owner=network:dhcp", "demo"),
    ("/ports?device_owner=network:dhcp", "admin"),
    ("/ports?binding:host_id=h63", "admin"),
    ("/networks?name=n63", "admin"),
    ("/security-group-rules?security_group_id={marker}", "admin"),
    ("/security-group-rules?security_group_id={marker}", "demo"),
]
# What none has.
NOWHERE = [
    "/ports?admin_state_up=false",
    "/ports?port_security_enabled=false",
    "/ports?qos_policy_id={marker}",
    "/networks?name=nobody",
    "/networks?status=DOWN",
    "/networks?admin_state_up=false",
    "/networks?router:external=true",
    "/networks?provider:segmentation_id=7",
    "/networks?provider:physical_network=nowhere",
    "/subnets?name=nobody",
    "/subnets?cidr=10.9.0.0/24",
    "/subnets?enable_dhcp=false",
    "/routers?name=nobody",
    "/routers?status=DOWN",
    "/routers?admin_state_up=false",
    "/floatingips?status=DOWN",
    "/floatingips?floating_network_id={marker}",
    "/floatingips?router_id={marker}",
    "/security-groups?name=nobody",
    "/security-groups?stateful=false",
]


def test_ports_are_looked_up_by_index(neutron: Neutron) -> None:
    """Whoever asks: for the owner, all of the project's ports are another way to find one."""
    neutron.transact(fill, 0, FEW)
    asked = [(path, user) for path in LOOK_UPS for user in ("admin", "demo")] + RARE
    check_alike(neutron, [(path.format(marker=identifier(63)), user, 1) for path, user in asked])


def test_what_there_is_not_is_not_looked_for_everywhere(neutron: Neutron) -> None:
    neutron.transact(fill, 0, FEW)
    for user in ("admin", "demo"):
        neutron.get("/security-groups", user)
    check_alike(
        neutron, [(path.format(marker=identifier(63)), user, 0) for path in NOWHERE for user in ("admin", "demo")]
    )


def check_alike(neutron: Neutron, asked: list[tuple[str, str, int]]) -> None:
    """That lists, each (path, user, rows), cost the same in a larger cloud."""
    before = {each: steps(neutron, *each) for each in asked}
    neutron.transact(fill, FEW, MANY)
    after = {each: steps(neutron, *each) for each in asked}
    slower = {each: (before[each], after[each]) for each in asked if after[each] > 2 * before[each] + 5}
    assert not slower


def crowd(conn: Connection, network: Any, group: str, first: int, most: int) -> None:
    """Ports of demo, all on one network, in one group and with one tag."""
    ports, addresses = [], []
    for number in range(first, most):
        id, there = identifier(number), int(IPv4Address("10.0.16.0")) + number
        standard = {"id": id, "project_id": "demo", "description": "", "created_at": WHEN, "updated_at": WHEN}
        mac = f"fa:16:3f:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        ports.append({**standard, "network_id": network["id"], "mac_address": mac, "device_id": f"d{number}"})
        allocation = {"subnet_id": network["subnets"][0], "address": key(there), "ip_address": str(IPv4Address(there))}
        addresses.append({**allocation, "port_id": id, "network_id": network["id"]})
    ids = [port["id"] for port in ports]
    conn.execute(insert(Port.table), ports)
    conn.execute(insert(IpAllocation.table), addresses)
    conn.execute(insert(PortSecurityGroup.table), [{"port_id": id, "security_group_id": group} for id in ids])
    conn.execute(insert(NetworkTag.table), [{"resource_id": id, "tag": "every"} for id in ids])


def test_ports_beside_a_new_one_cost_nothing(neutron: Neutron) -> None:
    """To make one, plug it, lead a floating IP there, and to change what is around, on a network with very many."""
    outside, network = neutron.external(), neutron.network("10.0.0.0/16")
    neutron.router(network, external=outside)
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"port": -1}}, "admin")

    def cycle() -> None:
        port = neutron.create("port", "admin", network_id=network["id"], project_id="demo", binding__host_id="h1")
        floating = neutron.create("floatingip", floating_network_id=outside["id"], port_id=port["id"])
        neutron.settle()
        neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"description": port["id"]}})
        neutron.expect(200, "PUT", f"/subnets/{network['subnets'][0]}", {"subnet": {"description": port["id"]}})
        neutron.settle()
        neutron.get(f"/ports/{port['id']}")
        subnet, group = network["subnets"][0], port["security_groups"][0]
        for query in (
            "",
            f"marker={port['id']}",
            f"name={port['id']}",
            "sort_key=created_at&sort_dir=desc",
            f"fixed_ips=subnet_id%3D{subnet}",
            f"security_groups={group}",
            f"security_groups={group}&sort_key=id&sort_dir=asc",
            "tags=every",
            f"sort_key=project_id&sort_dir=asc&marker={port['id']}",
        ):
            neutron.get(f"/ports?limit=20&{query}")
        neutron.expect(204, "DELETE", f"/floatingips/{floating['id']}")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        neutron.settle()

    group = neutron.get("/security-groups")["security_groups"][0]["id"]
    neutron.transact(crowd, network, group, 0, FEW)
    cycle()
    before = counted(neutron, cycle)
    neutron.transact(crowd, network, group, FEW, MANY)
    assert counted(neutron, cycle) <= 2 * before + 5
