"""The port from which a network's addresses are given out. Reference: network-rules.md, section 3, «Implicit ports».

A network has one while one of its subnets has DHCP and a host serves it; the network's own task ensures this. The port
takes the highest free addresses, since those of guests begin with the lowest, whichever is made first. The last free
address is left for a guest. The port counts as one of the network's project, but the quota never refuses it.

This does not depend on how networks, subnets and ports are changed, so that those modules can use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import NAMESPACE_DNS, uuid5

from sqlalchemy import bindparam, case, delete, exists, func, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.network import ipam, kinds, macs, port_uses, private_vlans, standard, tags
from cloudctl.network.addresses import is_automatic
from cloudctl.network.extension_tables import DhcpPort
from cloudctl.network.fixed_ips import DHCP
from cloudctl.network.tables import Agent, AgentAbsence, IpAllocation, Network, Port, Subnet
from cloudctl.placement.tables import Host
from cloudctl.tasks import Origin

# Built once: building a statement costs more than running it.
_of_network = (
    select(Port)
    .join_from(DhcpPort, Port, Port.id == DhcpPort.port_id)
    .where(DhcpPort.network_id == bindparam("network"))
)
_network_of = select(DhcpPort.network_id).where(DhcpPort.port_id == bindparam("port"))
_has = exists().where(
    DhcpPort.network_id == Subnet.network_id,
    IpAllocation.port_id == DhcpPort.port_id,
    IpAllocation.subnet_id == Subnet.id,
)
# For each subnet, or once with NULLs if there is none.
_state = (
    select(exists().where(DhcpPort.network_id == Network.id), Subnet.enable_dhcp, Subnet.ipv6_address_mode, _has)
    .join_from(Network, Subnet, Subnet.network_id == Network.id, isouter=True)
    .where(Network.id == bindparam("network"))
)
_others = select(Subnet.id).where(Subnet.network_id == bindparam("network"), Subnet.id != bindparam("but")).limit(1)
_held_network = select(Network).where(Network.id == bindparam("network")).with_for_update()
_held_subnets = select(Subnet).where(Subnet.network_id == bindparam("network")).order_by(Subnet.id).with_for_update()
_absent = (
    select(Agent.host)
    .join_from(AgentAbsence, Agent, Agent.id == AgentAbsence.agent_id)
    .where(AgentAbsence.network_id == bindparam("network"))
)
_hosts = select(func.count(), func.min(case((Host.name.not_in(_absent), Host.name)))).select_from(Host)
_insert = insert(DhcpPort)
_free = delete(IpAllocation).where(IpAllocation.port_id == bindparam("port"))
_delete = delete(Port).where(Port.id == bindparam("port"))
_up = case((Port.admin_state_up.is_(True), "ACTIVE"), else_="DOWN")
# Nothing is written if the port has this status already.
_wired = (
    update(Port)
    .where(Port.id.in_(select(DhcpPort.port_id).where(DhcpPort.network_id == bindparam("network"))))
    .where(Port.status != _up)
    .values(status=_up, revision=Port.revision + 1)
)


def find(conn: Connection, network_id: str) -> Port | None:
    return conn.execute(_of_network, {"network": network_id}).first()


def is_one(conn: Connection, port: Port) -> bool:
    """Whether the port is a network's own. Its `device_owner` alone proves nothing: anyone may write it."""
    return port.device_owner == DHCP and conn.scalar(_network_of, {"port": port.id}) is not None


def idle(conn: Connection, network_id: str) -> Port | None:
    """The DHCP port of a network, if nothing else uses it: then it may be deleted."""
    port = find(conn, network_id)
    return None if port is None or any(port_uses.of(conn, port.id)) else port


def changed(conn: Connection, port: Port, by: Origin) -> None:
    """A user has changed the port, or deleted it: then the network gets another one."""
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, port.network_id, by)


# -- what it should be


def is_due(conn: Connection, network_id: str) -> bool:
    """Whether `follow` would change anything."""
    # A subnet without a free address is checked again each time: there may be one by now.
    rows = conn.execute(_state, {"network": network_id}).all()
    served = [has for _, enabled, mode, has in rows if enabled and not is_automatic(mode)]
    if not served or _host(conn, network_id) is None:
        return any(is_there for is_there, _, _, _ in rows)
    return not all(served) or sum(1 for _, _, _, has in rows if has) != len(served)


def follow(conn: Connection, network_id: str, now: datetime) -> None:
    """The network has such a port, with an address of each subnet that has DHCP; or none, if no subnet has it."""
    network = conn.execute(_held_network, {"network": network_id}).first()
    if network is not None:
        follow_held(conn, network, now)


def follow_held(conn: Connection, network: Network, now: datetime) -> None:
    """As `follow`, for a locked network. Its subnets are locked after it, as in all code that takes addresses."""
    subnets = conn.execute(_held_subnets, {"network": network.id}).all()
    served = [each for each in subnets if each.enable_dhcp and not is_automatic(each.ipv6_address_mode)]
    host, port = _host(conn, network.id), find(conn, network.id)
    if not served or host is None:
        if port is not None and not any(port_uses.of(conn, port.id)):
            _give_back(conn, port, subnets)
            remove(conn, port)
        return
    wanted = sorted(served, key=lambda each: (each.created_at, each.id))
    if port is None:
        _take(conn, _create(conn, network, host, now), wanted, ())
    elif _give_back(conn, port, subnets, kept=wanted) | _take(conn, port, wanted, _addresses(conn, port)):
        standard.change(conn, Port.table, port.id, now)


def _host(conn: Connection, network_id: str) -> str | None:
    """A host that gives out the network's addresses; "" while there are no hosts, None if it was taken from all."""
    count, host = conn.execute(_hosts, {"network": network_id}).one()
    return host if count else ""


def _create(conn: Connection, network: Network, host: str, now: datetime) -> Port:
    def port(mac: str) -> Port:
        return Port(
            **standard.new(network.project_id, now),
            network_id=network.id,
            network_project_id="",
            name="",
            status="DOWN",
            admin_state_up=True,
            mac_address=mac,
            device_id=f"dhcp{uuid5(NAMESPACE_DNS, host)}-{network.id}",
            device_owner=DHCP,
            port_security_enabled=False,
            allowed_address_pairs=[],
            host="",
            profile={},
            vif_type="unbound",
            vif_details={},
            pvlan_type=private_vlans.PROMISCUOUS if network.pvlan else None,
        )

    made = macs.insert_port(conn, network.id, None, port)
    conn.execute(_insert, {"network_id": network.id, "port_id": made.id})
    return made


def _addresses(conn: Connection, port: Port) -> Sequence[IpAllocation]:
    return ipam.of_ports(conn, [port.id]).get(port.id, [])


def _take(conn: Connection, port: Port, subnets: Sequence[Subnet], present: Sequence[IpAllocation]) -> bool:
    """Take an address of each subnet that has one left and of which none is present, and say whether any was taken."""
    has, position = {each.subnet_id for each in present}, max((each.position + 1 for each in present), default=0)
    lacking = [each for each in subnets if each.id not in has]
    taken = [ipam.take_highest(conn, each, port.id, position + count) for count, each in enumerate(lacking)]
    return any(each is not None for each in taken)


def _give_back(conn: Connection, port: Port, subnets: Sequence[Subnet], kept: Sequence[Subnet] = ()) -> bool:
    """Give back its addresses, except those on the subnets `kept`, and say whether there were any."""
    by_id, ids = {each.id: each for each in subnets}, {each.id for each in kept}
    left = [row for row in _addresses(conn, port) if row.subnet_id not in ids]
    for row in left:
        ipam.give_back(conn, by_id[row.subnet_id], int(row.address))
    return bool(left)


def leave(conn: Connection, subnet: Subnet, now: datetime) -> None:
    """A locked subnet is about to be deleted: the port loses its address there, and is deleted with the last subnet."""
    port = idle(conn, subnet.network_id)
    if port is None:
        return
    if conn.execute(_others, {"network": subnet.network_id, "but": subnet.id}).first() is None:
        remove(conn, port)
    elif any(row.subnet_id == subnet.id for row in _addresses(conn, port)):
        ipam.drop_all(conn, subnet.id, [port.id])
        standard.change(conn, Port.table, port.id, now)


def remove(conn: Connection, port: Port) -> None:
    """Delete the port; nobody has its addresses any more."""
    tags.forget(conn, port.id)
    conn.execute(_free, {"port": port.id})
    conn.execute(_delete, {"port": port.id})


def wired(conn: Connection, network_id: str, now: datetime) -> None:
    """A driver holds the network, and with it this port."""
    conn.execute(_wired, {"network": network_id, "updated_at": now})
