"""Which host a router is on: a live one with few routers. `agents` moves them."""

from __future__ import annotations

from sqlalchemy import func, select

from cloudctl.db import Connection
from cloudctl.network.tables import Agent, Router
from cloudctl.placement import hosts

AGENT = "L3 agent"

# Built once: building a statement costs more than running it.
_closed = select(Agent.host).where(Agent.agent_type == AGENT, Agent.admin_state_up.is_(False))
_loads = select(Router.host, func.count()).group_by(Router.host)


def of_connected(conn: Connection, router: Router) -> dict[str, str]:
    """What changes on a router that gets a port. Before its first it is on no host: administrators may choose."""
    return {} if router.host else {"host": choose(conn)}


def choose(conn: Connection) -> str:
    """ "" if there is no live host except those that an administrator has closed."""
    closed = set(conn.scalars(_closed))
    alive = [host.name for host in hosts.every(conn) if hosts.is_alive(host) and host.name not in closed]
    loads: dict[str, int] = dict(conn.execute(_loads)) if len(alive) > 1 else {}
    return min(alive, key=lambda name: (loads.get(name, 0), name), default="")
