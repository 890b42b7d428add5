"""`/agents`, and what they serve. Reference: network.md, section 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import Column, ColumnElement, case, func, select

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IDhcpPorts, IOneServiceHost, IRouters, IServiceHosts
from cloudctl.network import agents, networks, routers
from cloudctl.network.agents import ADDRESSES, KINDS, ROUTERS, WIRES, Kind
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Flag, Id, Json, Text
from cloudctl.network.api.resource import Declared
from cloudctl.network.tables import Agent, Network, Router
from cloudctl.placement import hosts
from cloudctl.placement.tables import Host
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Filter, any_of
from cloudctl.rest.resource import Attribute, View, of_each
from cloudctl.rest.route import Routes

MOMENT = "%Y-%m-%d %H:%M:%S"


def kinds_of(driver: Any) -> tuple[Kind, ...]:
    """The kinds of parts that a driver has. Where no port of a network gives out addresses, no part of it does."""
    gives_out, routes = IDhcpPorts.providedBy(driver), IRouters.providedBy(driver)
    only = driver.service_host() if IOneServiceHost.providedBy(driver) else ""
    serving = (*((ADDRESSES,) if gives_out else ()), *((ROUTERS,) if routes else ()))
    return (WIRES, *(evolve(kind, only=only) for kind in serving))


async def written(db: Database, call: Call, kinds: Sequence[Kind]) -> None:
    """Give each part an id and forget all others; done when somebody looks for them."""
    if await db.scan(agents.differ, kinds):
        await db.run(agents.write, kinds, call.now)


# -- filters


def _any_case(column: Column[str]) -> Filter:
    return lambda values: func.lower(column).in_([value.lower() for value in values])


def _alive(values: Sequence[str]) -> Condition:
    return lists.truths_of("alive", lambda wanted: Agent.host.in_(_up) if wanted else Agent.host.not_in(_up))(values)


def _of_kind(name: str) -> Filter:
    """A filter by what follows from the kind of an agent."""

    def test(values: Sequence[str]) -> Condition:
        return Agent.agent_type.in_([kind.name for kind in KINDS.values() if getattr(kind, name) in values])

    return test


def _in_zone(values: Sequence[str]) -> Condition:
    return Agent.host.in_(select(Host.name).where(Host.zone.in_(values)))


# -- sort keys

_up = select(Host.name).where(Host.up.is_(True), Host.forced_down.is_(False))
_is_up = case((Agent.host.in_(_up), 1), else_=0)
_seen = select(Host.seen_at).where(Host.name == Agent.host).scalar_subquery()


def _by_kind(name: str) -> ColumnElement[str]:
    """A sort key that follows from the kind of an agent."""
    return case({kind.name: getattr(kind, name) for kind in KINDS.values()}, value=Agent.agent_type, else_="")


# -- views


def of_host(say: Callable[[Agent, Host | None], Any]) -> View:
    """Shows something of the host that an agent is on; None: that host is gone."""

    def view(conn: Connection, call: Call, records: Sequence[Agent]) -> list[Any]:
        found = agents.hosts_of(conn)
        return [say(agent, found.get(agent.host)) for agent in records]

    return view


def configurations(everything: bool) -> View:
    """How much each agent serves: the only one of its kind serves everything that works."""

    def view(conn: Connection, call: Call, records: Sequence[Agent]) -> list[Json]:
        return [
            {"agent_mode": "legacy", "routers": agents.load_of(conn, agent, everything)}
            if agent.agent_type == ROUTERS.name
            else {}
            for agent in records
        ]

    return view


def change(conn: Connection, call: Call, agent: Agent, changes: dict[str, Any]) -> Agent:
    if "description" in changes:
        changes = {**changes, "description": changes["description"] or ""}
    return agents.change(conn, agent, changes, call.now)


def remove(conn: Connection, call: Call, agent: Agent) -> None:
    agents.remove(conn, agent)


_c = Agent


@lru_cache(maxsize=2)
def attributes(everything: bool) -> tuple[Attribute, ...]:
    """`everything`: whether the only one that has routers has all of them."""
    return (
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("agent_type", _c.agent_type, filter=_any_case, sort=True),
        Attribute("binary", view=of_each(lambda agent: KINDS[agent.agent_type].binary), sort=_by_kind("binary")),
        Attribute("topic", view=of_each(lambda agent: KINDS[agent.agent_type].topic), sort=_by_kind("topic")),
        Attribute("host", _c.host, filter=any_of, sort=True),
        Attribute("availability_zone", view=of_host(lambda agent, host: host.zone if host else None)),
        Attribute("admin_state_up", _c.admin_state_up, Flag, put=True, filter=lists.truths, sort=True),
        Attribute("alive", view=of_host(lambda agent, host: host is not None and hosts.is_alive(host)), sort=_is_up),
        Attribute("created_at", _c.created_at, sort=True, view=of_each(lambda a: a.created_at.strftime(MOMENT))),
        Attribute("started_at", view=of_each(lambda agent: agent.created_at.strftime(MOMENT)), sort=_c.created_at),
        Attribute("heartbeat_timestamp", view=of_host(_heartbeat), sort=func.coalesce(_seen, _c.created_at)),
        Attribute("description", _c.description, put=Text | None, filter=any_of, sort=True),
        Attribute("resources_synced", view=of_each(lambda agent: None)),
        Attribute("configurations", view=configurations(everything)),
    )


def declared(driver: Any) -> Declared[Agent]:
    kinds = kinds_of(driver)

    async def before_list(db: Database, call: Call) -> None:
        await written(db, call, kinds)

    return Declared(
        name="agent",
        record=Agent,
        attributes=attributes(any(kind.only for kind in kinds if kind.name == ROUTERS.name)),
        filters={
            "alive": _alive,
            "availability_zone": _in_zone,
            "binary": _of_kind("binary"),
            "topic": _of_kind("topic"),
        },
        visible=agents.visible,
        visible_to=agents.visible_to,
        not_found=agents.not_found,
        change=change,
        remove=remove,
        before_list=before_list,
        pure=False,
        says={
            "list": "List the parts of the network driver on each host.",
            "update": "Say something of a part; one that is down gets nothing new.",
            "delete": "Forget what was said of a part.",
        },
    )


def _heartbeat(agent: Agent, host: Host | None) -> str:
    return (agent.created_at if host is None else host.seen_at).strftime(MOMENT)


# -- who serves what


@frozen
class OneNetwork:
    network_id: Id


@frozen
class OneRouter:
    router_id: Id


NETWORKS, ROUTED = "/agents/<agent_id>/dhcp-networks", "/agents/<agent_id>/l3-routers"


def _serve(conn: Connection, call: Call, id: str, change: Callable[..., None], of: str) -> None:
    """`change`: what becomes of the agent and `of`, a network or a router."""
    change(conn, call.caller, agents.visible(conn, call.caller, id, lock=True), of)


@frozen
class Scheduling:
    routes = Routes("Agents")

    db: Database
    kinds: Sequence[Kind]
    agents: Declared[Agent]
    networks: Declared[Network]

    @routes.get("/networks/<network_id>/dhcp-agents", policy="network:agents:scheduling")
    async def serving(self, call: Call, network_id: str) -> Json:
        """List the agents that give out the addresses of a network."""
        await written(self.db, call, self.kinds)
        return {"agents": await self.db.scan(self._serving, call, network_id)}

    def _serving(self, conn: Connection, call: Call, id: str) -> Sequence[Json]:
        return self.agents.views(conn, call, agents.serving(conn, networks.visible(conn, call.caller, id)))

    @routes.get(NETWORKS, policy="network:agents:scheduling")
    async def networks_of(self, call: Call, agent_id: str) -> Json:
        """List the networks whose addresses an agent gives out."""
        return {"networks": await self.db.scan(self._networks_of, call, agent_id)}

    def _networks_of(self, conn: Connection, call: Call, id: str) -> Sequence[Json]:
        return self.networks.views(conn, call, agents.networks_of(conn, agents.visible(conn, call.caller, id)))

    @routes.post(NETWORKS, policy="network:agents:scheduling", status=201, body=Body(OneNetwork))
    async def serve(self, call: Call, agent_id: str, body: OneNetwork) -> Json:
        """Let an agent give out the addresses of a network."""
        await self.db.run(_serve, call, agent_id, agents.serve, body.network_id)
        return {}

    @routes.delete(f"{NETWORKS}/<network_id>", policy="network:agents:scheduling")
    async def serve_not(self, call: Call, agent_id: str, network_id: str) -> None:
        """Stop an agent from giving out the addresses of a network."""
        await self.db.run(_serve, call, agent_id, agents.serve_not, network_id)


@frozen
class RouterScheduling:
    routes = Routes("Agents")

    db: Database
    kinds: Sequence[Kind]
    agents: Declared[Agent]
    routers: Declared[Router]

    @routes.get("/routers/<router_id>/l3-agents", policy="network:agents:scheduling")
    async def routing(self, call: Call, router_id: str) -> Json:
        """List the agents that a router is on."""
        await written(self.db, call, self.kinds)
        return {"agents": await self.db.scan(self._routing, call, router_id)}

    def _routing(self, conn: Connection, call: Call, id: str) -> Sequence[Json]:
        return self.agents.views(conn, call, agents.routing(conn, routers.visible(conn, call.caller, id)))

    @routes.get(ROUTED, policy="network:agents:scheduling")
    async def routers_of(self, call: Call, agent_id: str) -> Json:
        """List the routers that are on an agent."""
        return {"routers": await self.db.scan(self._routers_of, call, agent_id)}

    def _routers_of(self, conn: Connection, call: Call, id: str) -> Sequence[Json]:
        return self.routers.views(conn, call, agents.routers_of(conn, agents.visible(conn, call.caller, id)))

    @routes.post(ROUTED, policy="network:agents:scheduling", status=201, body=Body(OneRouter))
    async def route(self, call: Call, agent_id: str, body: OneRouter) -> Json:
        """Put a router on an agent."""
        await self.db.run(_serve, call, agent_id, agents.route, body.router_id)
        return {}

    @routes.delete(f"{ROUTED}/<router_id>", policy="network:agents:scheduling")
    async def route_not(self, call: Call, agent_id: str, router_id: str) -> None:
        """Take a router off an agent."""
        await self.db.run(_serve, call, agent_id, agents.route_not, router_id)


def places(driver: Any) -> bool:
    """Whether administrators can choose which part serves what."""
    return bool(IServiceHosts.providedBy(driver))
