"""Agents: the parts of the network driver, each on its host. Reference: network.md, section 13.

A driver works on every host, so each host has one part of each kind that the driver has; some kinds may be on one host
alone. A part takes its state from its host: it is alive while the host is. What administrators set on a part is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, func, select
from sqlalchemy.exc import IntegrityError

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import kinds, networks, router_hosts, routers, standard
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Agent, AgentAbsence, Network, Router
from cloudctl.placement import hosts
from cloudctl.placement.tables import Host
from cloudctl.rest.caller import Caller

RECORDS = Owned(Agent, "Agent {} could not be found", "AgentNotFound")
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)


@frozen
class Kind:
    name: str
    binary: str
    topic: str
    only: str = ""  # the one host that has such a part; "": every host has one


WIRES = Kind("Open vSwitch agent", "neutron-openvswitch-agent", "N/A")
ADDRESSES = Kind("DHCP agent", "neutron-dhcp-agent", "dhcp_agent")
ROUTERS = Kind(router_hosts.AGENT, "neutron-l3-agent", "l3_agent")
KINDS = {kind.name: kind for kind in (WIRES, ADDRESSES, ROUTERS)}

# Built once: building a statement costs more than running it.
_known = select(Agent.agent_type, Agent.host)
_of_kind = select(Agent).where(Agent.agent_type == bindparam("kind")).order_by(Agent.host)
_absent = select(AgentAbsence.agent_id).where(AgentAbsence.network_id == bindparam("network"))
_working = select(func.count()).select_from(Router.table).where(Router.host != "")
_routers_of = select(Router).where(Router.host == bindparam("host")).order_by(Router.id)


# -- which exist


def missing(conn: Connection, kinds_of_driver: Sequence[Kind]) -> list[tuple[str, str]]:
    """(kind, host) of parts without a record: nobody has queried them yet."""
    known = set(conn.execute(_known))
    names = [host.name for host in hosts.every(conn)]
    wanted = [(kind.name, name) for name in names for kind in kinds_of_driver if kind.only in ("", name)]
    return [each for each in wanted if each not in known]


def misplaced(conn: Connection, kinds_of_driver: Sequence[Kind]) -> list[Agent]:
    """Records of parts on hosts that have none: another driver had them, or another host was the only one."""
    return [agent for kind in kinds_of_driver if kind.only for agent in of_kind(conn, kind) if agent.host != kind.only]


def differ(conn: Connection, kinds_of_driver: Sequence[Kind]) -> bool:
    """Whether the recorded parts differ from the driver's."""
    return bool(missing(conn, kinds_of_driver) or misplaced(conn, kinds_of_driver))


def write(conn: Connection, kinds_of_driver: Sequence[Kind], now: datetime) -> None:
    """Give each part an id, and forget those that do not exist."""
    for agent in misplaced(conn, kinds_of_driver):
        remove(conn, agent)
    for kind, host in missing(conn, kinds_of_driver):
        try:
            with conn.begin_nested():
                standard.insert(conn, Agent(**standard.new("", now), agent_type=kind, host=host, admin_state_up=True))
        except IntegrityError:
            # Another transaction has written it meanwhile.
            continue


def hosts_of(conn: Connection) -> dict[str, Host]:
    return {host.name: host for host in hosts.every(conn)}


def of_kind(conn: Connection, kind: Kind) -> Sequence[Agent]:
    """By host."""
    return conn.execute(_of_kind, {"kind": kind.name}).all()


def change(conn: Connection, agent: Agent, changes: Mapping[str, Any], now: datetime) -> Agent:
    """Set description, admin_state_up of a locked agent: one that is down gets nothing new."""
    return standard.changed(conn, agent, now, **changes)


def remove(conn: Connection, agent: Agent) -> None:
    """Forget what was set on a part; one that still exists comes back as a new one."""
    conn.execute(AgentAbsence.table.delete().where(AgentAbsence.agent_id == agent.id))
    RECORDS.delete(conn, agent)


# -- who serves what


def serving(conn: Connection, network: Network) -> list[Agent]:
    """The parts that give out a network's addresses: all except those that it was taken from."""
    absent = set(conn.scalars(_absent, {"network": network.id}))
    return [agent for agent in of_kind(conn, ADDRESSES) if agent.id not in absent]


def networks_of(conn: Connection, agent: Agent) -> Sequence[Network]:
    if agent.agent_type != ADDRESSES.name:
        return ()
    taken = select(AgentAbsence.network_id).where(AgentAbsence.agent_id == agent.id)
    return conn.execute(select(Network).where(Network.id.not_in(taken)).order_by(Network.id)).all()


def serve(conn: Connection, caller: Caller, agent: Agent, network_id: str) -> None:
    """Let a part give out a network's addresses again. Raises NotFound, Conflict if it already does."""
    _require(agent, ADDRESSES, opened=True)
    network = networks.visible(conn, caller, network_id, lock=True)
    if agent.id in {each.id for each in serving(conn, network)}:
        message = f"The network {network_id} has been already hosted by the DHCP Agent {agent.id}."
        raise Conflict(message, type="NetworkHostedByDHCPAgent")
    conn.execute(AgentAbsence.table.delete().where(*_pair(agent, network)))
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, network.id, caller)


def serve_not(conn: Connection, caller: Caller, agent: Agent, network_id: str) -> None:
    """Stop a part from giving out a network's addresses. Raises NotFound, Conflict if it does not do so."""
    _require(agent, ADDRESSES)
    network = networks.visible(conn, caller, network_id, lock=True)
    if agent.id not in {each.id for each in serving(conn, network)}:
        message = f"The network {network_id} is not hosted by the DHCP agent {agent.id}."
        raise Conflict(message, type="NetworkNotHostedByDhcpAgent")
    conn.execute(AgentAbsence.table.insert().values(agent_id=agent.id, network_id=network.id))
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, network.id, caller)


def _pair(agent: Agent, network: Network) -> tuple[Any, Any]:
    return AgentAbsence.agent_id == agent.id, AgentAbsence.network_id == network.id


def routers_of(conn: Connection, agent: Agent) -> Sequence[Router]:
    return conn.execute(_routers_of, {"host": agent.host}).all() if agent.agent_type == ROUTERS.name else ()


def load_of(conn: Connection, agent: Agent, everything: bool) -> int:
    """How many routers a part has; `everything`: all that are on any host."""
    return conn.execute(_working).scalar_one() if everything else len(routers_of(conn, agent))


def routing(conn: Connection, router: Router) -> list[Agent]:
    """The part that a router is on, if it is on any."""
    return [agent for agent in of_kind(conn, ROUTERS) if router.host and agent.host == router.host]


def route(conn: Connection, caller: Caller, agent: Agent, router_id: str) -> None:
    """Put a router on this part, unless it is there already. Raises NotFound, Conflict if it is on another one."""
    _require(agent, ROUTERS, opened=True)
    router = routers.visible(conn, caller, router_id, lock=True)
    if router.host == agent.host:
        return
    if router.host:
        message = f"The router {router_id} has been already hosted by the L3 Agent on {router.host}."
        raise Conflict(message, type="RouterHostedByL3Agent")
    _put(conn, caller, router, agent.host)


def route_not(conn: Connection, caller: Caller, agent: Agent, router_id: str) -> None:
    """Take a router off this part. Raises NotFound, Conflict if it is not on it."""
    _require(agent, ROUTERS)
    router = routers.visible(conn, caller, router_id, lock=True)
    if router.host != agent.host:
        message = f"The router {router_id} is not hosted by L3 agent {agent.id}."
        raise Conflict(message, type="RouterNotHostedByL3Agent")
    _put(conn, caller, router, "")


def _put(conn: Connection, caller: Caller, router: Router, host: str) -> None:
    standard.change(conn, Router.table, router.id, caller.now, host=host)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, caller)


def _require(agent: Agent, kind: Kind, opened: bool = False) -> None:
    """Raises NotFound for an agent of another kind, or (`opened`) one that an administrator has closed."""
    if agent.agent_type != kind.name or (opened and not agent.admin_state_up):
        message = f"Agent {agent.id} is not a {kind.name} or has been disabled"
        raise NotFound(message, type=f"Invalid{kind.name.replace(' a', 'A')}")
