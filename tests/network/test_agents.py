"""Agents: parts of the driver, alive as their hosts are, and what each serves. Reference: network.md, section 13."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select
from zope.interface import directlyProvides

from cloudctl.drivers.interfaces import IDhcpPorts, IOneServiceHost, IRouters
from cloudctl.drivers.specs import HostInventory
from cloudctl.network import agents
from cloudctl.network.api.agents import kinds_of
from cloudctl.network.lifecycle import router as of_routers
from cloudctl.network.tables import Agent
from cloudctl.placement import hosts
from cloudctl.placement.hosts import Promises
from tests.network.conftest import Neutron

NOW = datetime(2027, 1, 15, 8)


def sync(neutron: Neutron, **up: bool) -> None:
    found = [HostInventory(name, "fake", 4, 4096, 10, up=value) for name, value in up.items()]
    neutron.transact(hosts.sync, found, NOW, Promises())


@pytest.fixture(autouse=True)
def two_hosts(neutron: Neutron) -> None:
    sync(neutron, h1=True, h2=True)


def listed(neutron: Neutron, query: str = "", user: str = "admin") -> list[Any]:
    return list(neutron.get(f"/agents?{query}", user)["agents"])


def one(neutron: Neutron, kind: str, host: str) -> Any:
    (found,) = listed(neutron, f"agent_type={kind.replace(' ', '%20')}&host={host}")
    return found


def test_each_host_has_one_of_each_kind(neutron: Neutron) -> None:
    kinds = ("DHCP agent", "L3 agent", "Open vSwitch agent")
    found = [(each["agent_type"], each["host"]) for each in listed(neutron, "sort_key=host&sort_dir=asc")]
    assert sorted(found) == sorted((kind, host) for kind in kinds for host in ("h1", "h2"))
    assert listed(neutron) == listed(neutron)
    shown = one(neutron, "dhcp AGENT", "h1")
    assert shown | {"id": "", "created_at": "", "started_at": ""} == {
        "id": "", "agent_type": "DHCP agent", "binary": "neutron-dhcp-agent", "topic": "dhcp_agent", "host": "h1",
        "availability_zone": "nova", "admin_state_up": True, "alive": True, "created_at": "", "started_at": "",
        "heartbeat_timestamp": "2027-01-15 08:00:00", "description": "", "resources_synced": None,
        "configurations": {},
    }  # fmt: skip
    assert neutron.get(f"/agents/{shown['id']}", "admin")["agent"] == shown


def test_they_are_alive_while_their_host_is(neutron: Neutron) -> None:
    sync(neutron, h1=True, h2=False)
    assert {each["host"] for each in listed(neutron, "alive=false")} == {"h2"}
    assert {each["host"] for each in listed(neutron, "alive=true&binary=neutron-l3-agent")} == {"h1"}
    sync(neutron, h1=True, h2=True, h3=True)
    assert len(listed(neutron)) == 9


def test_administrators_say_something_of_them(neutron: Neutron) -> None:
    agent = one(neutron, "L3 agent", "h1")
    path, body = f"/agents/{agent['id']}", {"agent": {"admin_state_up": False, "description": "closed"}}
    changed = neutron.expect(200, "PUT", path, body, "admin")["agent"]
    assert (changed["admin_state_up"], changed["description"]) == (False, "closed")
    cleared = neutron.expect(200, "PUT", path, {"agent": {"description": None}}, "admin")["agent"]
    assert (cleared["admin_state_up"], cleared["description"]) == (False, "")
    outside = neutron.external()
    for _ in range(3):
        neutron.router(external=outside)
    assert neutron.get(f"{path}/l3-routers", "admin") == {"routers": []}
    neutron.expect(204, "DELETE", path, user="admin")
    again = one(neutron, "L3 agent", "h1")
    assert again["id"] != agent["id"] and again["admin_state_up"]


def test_one_host_alone_may_give_out_addresses_and_have_routers(neutron: Neutron) -> None:
    """As with a driver that does both in one place; what was written of another driver's parts is forgotten."""
    assert len(listed(neutron)) == 6
    driver = SimpleNamespace(service_host=lambda: "h2")
    directlyProvides(driver, IDhcpPorts, IRouters, IOneServiceHost)
    kinds = kinds_of(driver)
    assert neutron.transact(agents.differ, kinds)
    neutron.transact(agents.write, kinds, NOW)
    assert not neutron.transact(agents.differ, kinds)
    found = neutron.transact(lambda conn: sorted(conn.execute(select(Agent.host, Agent.agent_type)).all()))
    parts = [("h1", "Open vSwitch agent"), ("h2", "DHCP agent"), ("h2", "L3 agent"), ("h2", "Open vSwitch agent")]
    assert [tuple(each) for each in found] == parts
    # Whatever host was chosen for routers, they are on that one.
    for _ in range(3):
        neutron.router(neutron.network())
    (part,) = neutron.transact(agents.of_kind, agents.ROUTERS)
    assert neutron.transact(agents.load_of, part, True) == 3


def test_a_router_is_on_the_only_host_that_has_any(neutron: Neutron, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the hosts was chosen for it."""
    monkeypatch.setattr(type(neutron.driver), "service_host", lambda self: "h2", raising=False)
    monkeypatch.setattr(of_routers, "IOneServiceHost", SimpleNamespace(providedBy=lambda driver: True))
    made = [neutron.router(neutron.network()) for _ in range(3)]
    bare = neutron.create("router")
    neutron.settle()
    (agent,) = [each for each in listed(neutron, "agent_type=L3%20agent") if each["host"] == "h2"]
    found = neutron.get(f"/agents/{agent['id']}/l3-routers", "admin")["routers"]
    assert {each["id"] for each in found} == {each["id"] for each in made}
    assert neutron.get(f"/routers/{bare['id']}/l3-agents", "admin") == {"agents": []}


def test_nobody_else_sees_them(neutron: Neutron) -> None:
    agent = one(neutron, "L3 agent", "h1")
    assert listed(neutron, user="demo") == []
    neutron.expect(404, "GET", f"/agents/{agent['id']}")
    neutron.expect(404, "PUT", f"/agents/{agent['id']}", {"agent": {}})
    neutron.expect(403, "GET", f"/agents/{agent['id']}/l3-routers")
    neutron.refused(404, "AgentNotFound", "DELETE", "/agents/2f32f072-4d17-4811-b619-3623d018bd40", user="admin")


def test_routers_are_spread_and_moved(neutron: Neutron) -> None:
    outside = neutron.external()
    router, other = neutron.router(external=outside), neutron.router(external=outside)
    (on,) = neutron.get(f"/routers/{router['id']}/l3-agents", "admin")["agents"]
    (elsewhere,) = neutron.get(f"/routers/{other['id']}/l3-agents", "admin")["agents"]
    assert {on["host"], elsewhere["host"]} == {"h1", "h2"}
    body = {"router_id": router["id"]}
    neutron.refused(409, "RouterHostedByL3Agent", "POST", f"/agents/{elsewhere['id']}/l3-routers", body, "admin")
    path = f"/agents/{on['id']}/l3-routers"
    assert [each["id"] for each in neutron.get(path, "admin")["routers"]] == [router["id"]]
    neutron.expect(204, "DELETE", f"{path}/{router['id']}", user="admin")
    neutron.refused(409, "RouterNotHostedByL3Agent", "DELETE", f"{path}/{router['id']}", user="admin")
    assert neutron.get(f"/routers/{router['id']}/l3-agents", "admin") == {"agents": []}
    for _ in range(2):
        neutron.expect(201, "POST", f"/agents/{elsewhere['id']}/l3-routers", body, "admin")
    neutron.settle()
    assert neutron.driver.routers.get(router["id"]).host == elsewhere["host"]
    assert one(neutron, "L3 agent", elsewhere["host"])["configurations"]["routers"] == 2


def test_addresses_are_given_out_everywhere_but_where_not(neutron: Neutron) -> None:
    network, agent = neutron.network(), one(neutron, "DHCP agent", "h1")
    path, body = f"/agents/{agent['id']}/dhcp-networks", {"network_id": network["id"]}
    serving = f"/networks/{network['id']}/dhcp-agents"
    assert [each["host"] for each in neutron.get(serving, "admin")["agents"]] == ["h1", "h2"]
    assert [each["id"] for each in neutron.get(path, "admin")["networks"]] == [network["id"]]
    neutron.refused(409, "NetworkHostedByDHCPAgent", "POST", path, body, "admin")
    neutron.expect(204, "DELETE", f"{path}/{network['id']}", user="admin")
    neutron.refused(409, "NetworkNotHostedByDhcpAgent", "DELETE", f"{path}/{network['id']}", user="admin")
    neutron.settle()
    assert neutron.driver.networks.get(network["id"]).no_dhcp_on == ("h1",)
    assert [each["host"] for each in neutron.get(serving, "admin")["agents"]] == ["h2"]
    neutron.expect(201, "POST", path, body, "admin")
    neutron.settle()
    assert neutron.driver.networks.get(network["id"]).no_dhcp_on == ()
    wrong = one(neutron, "L3 agent", "h1")["id"]
    neutron.refused(404, "InvalidDHCPAgent", "POST", f"/agents/{wrong}/dhcp-networks", body, "admin")
    assert neutron.get(f"/agents/{wrong}/dhcp-networks", "admin") == {"networks": []}
    neutron.expect(204, "DELETE", f"/networks/{network['id']}", user="admin")


def test_nothing_is_put_where_an_administrator_wants_nothing_new(neutron: Neutron) -> None:
    network, router = neutron.network(), neutron.create("router")
    for kind, part, body, type in (
        ("DHCP agent", "dhcp-networks", {"network_id": network["id"]}, "InvalidDHCPAgent"),
        ("L3 agent", "l3-routers", {"router_id": router["id"]}, "InvalidL3Agent"),
    ):
        path = f"/agents/{one(neutron, kind, 'h1')['id']}"
        neutron.expect(200, "PUT", path, {"agent": {"admin_state_up": False}}, "admin")
        neutron.refused(404, type, "POST", f"{path}/{part}", body, "admin")


def test_zones_are_found_by_what_they_are_of(neutron: Neutron) -> None:
    (zone,) = neutron.get("/availability_zones?resource=router&state=available")["availability_zones"]
    assert zone["resource"] == "router"
    neutron.expect(400, "GET", "/availability_zones?x=y")


@pytest.mark.parametrize("connect", ["gateway", "subnet", "port"])
def test_a_router_without_ports_is_where_an_administrator_puts_it(neutron: Neutron, connect: str) -> None:
    """Else it is placed with its first port, as neutron's schedulers do."""
    agent, outside, network = one(neutron, "L3 agent", "h2"), neutron.external(), neutron.network()
    routers = [neutron.create("router") for _ in range(2)]
    for router in routers:
        assert neutron.get(f"/routers/{router['id']}/l3-agents", "admin") == {"agents": []}
    put = {"router_id": routers[0]["id"]}
    neutron.expect(201, "POST", f"/agents/{agent['id']}/l3-routers", put, "admin")
    for router in routers:
        if connect == "gateway":
            sent = {"router": {"external_gateway_info": {"network_id": outside["id"]}}}
            neutron.expect(200, "PUT", f"/routers/{router['id']}", sent)
        elif connect == "subnet" and router is routers[0]:
            neutron.join(router, subnet_id=network["subnets"][0])
        else:
            neutron.join(router, port_id=neutron.create("port", network_id=network["id"])["id"])
    on = [neutron.get(f"/routers/{router['id']}/l3-agents", "admin")["agents"][0]["host"] for router in routers]
    assert on == ["h2", "h1"]
