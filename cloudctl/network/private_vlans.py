"""Private VLANs: which ports of its network a port reaches. Neutron's extension `pvlan`.

On a network with `pvlan` a port is promiscuous (it reaches all), isolated (it reaches only promiscuous ones), or in a
community (it also reaches the others in it). A filter keeps the latter two apart, so their port security is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, case, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.network_specs import Isolation
from cloudctl.errors import Invalid
from cloudctl.network import kinds
from cloudctl.network.standard import hold, in_order
from cloudctl.network.tables import Network, Port
from cloudctl.tasks import Origin

PROMISCUOUS, ISOLATED, COMMUNITY = "promiscuous", "isolated", "community"
COLUMNS = ("pvlan_type", "pvlan_community")

# Built once: building a statement costs more than running it.
_of_network = select(Network.pvlan).where(Network.id == bindparam("network"))
_apart = (
    select(Port.id)
    .where(Port.network_id == bindparam("network"), Port.pvlan_type != PROMISCUOUS, Port.realised.is_(True))
    .order_by(Port.id)
)
_ports = in_order(Port, Port.network_id == bindparam("network"))
_all_or_none = (
    update(Port)
    .where(Port.network_id == bindparam("network"))
    .values(
        pvlan_type=case((bindparam("on"), PROMISCUOUS), else_=None), pvlan_community=None, revision=Port.revision + 1
    )
)


def of_new(enabled: bool, kept: Mapping[str, Any], secure: bool) -> dict[str, Any]:
    """The columns of a new port, from what is requested. Raises Invalid."""
    return _checked(enabled, kept.get("pvlan_type"), kept.get("pvlan_community"), secure)


def of_changed(conn: Connection, row: Port, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that follow from changes of a port. Raises Invalid."""
    asked = [name for name in COLUMNS if name in changes]
    secure = changes.get("port_security_enabled", row.port_security_enabled)
    if not asked and (secure or row.pvlan_type in (None, PROMISCUOUS)):
        return {}
    type = changes.get("pvlan_type", row.pvlan_type)
    # A port that leaves a community need not clear its name as well.
    community = changes.get("pvlan_community", row.pvlan_community if type == COMMUNITY else None)
    return _checked(bool(conn.scalar(_of_network, {"network": row.network_id})), type, community, secure)


def _checked(enabled: bool, type: str | None, community: str | None, secure: bool) -> dict[str, Any]:
    if not enabled:
        if type is not None or community is not None:
            raise _bad("PVLAN is not enabled on its network")
        return {}
    type = type or PROMISCUOUS
    if type == COMMUNITY and community is None:
        raise _bad("a port of a community names it: pvlan_community")
    if type != COMMUNITY and community is not None:
        raise _bad(f"a port that is {type} is of no community")
    if type != PROMISCUOUS and not secure:
        raise _bad(f"a port that is {type} has its port security on")
    return {"pvlan_type": type, "pvlan_community": community}


def network_changed(conn: Connection, network: Network, enabled: bool, now: datetime, by: Origin) -> None:
    """A locked network turns PVLAN on or off: its ports all become promiscuous, or have no type."""
    hold(conn, _ports, network=network.id)
    for id in conn.scalars(_apart, {"network": network.id}).all():
        tasks.submit_once(conn, kinds.ENSURE_PORT, id, by)
    conn.execute(_all_or_none, {"network": network.id, "on": enabled, "updated_at": now})


def check_network(enabled: bool, secure: bool) -> None:
    """Raises Invalid for a network whose ports have no filter by default."""
    if enabled and not secure:
        raise Invalid("Bad network request: a network with PVLAN has its port security on.", type="BadRequest")


def isolation(row: Port) -> Isolation | None:
    """How a driver shall isolate the port."""
    return None if row.pvlan_type in (None, PROMISCUOUS) else Isolation(row.pvlan_community)


def _bad(reason: str) -> Invalid:
    return Invalid(f"Bad port request: {reason}.", type="BadRequest")
