"""Floating IPs: addresses of external networks that lead to fixed ones. Reference: network.md, section 8; rules, 7.

Where one leads is decided in `associations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.network import associations, kinds, networks, port_forwardings, ports, quotas, shown, standard
from cloudctl.network.associations import DOWN, Target, bad
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.owned import Owned
from cloudctl.network.ports import NewPort
from cloudctl.network.tables import FloatingIp, Network, Port, Subnet
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

PENDING = "PENDING"


@frozen
class NewFloatingIp:
    """`address`, `subnet_id`: which address of the network; None: the lowest free one."""

    network_id: str
    description: str = ""
    address: str | None = None
    subnet_id: str | None = None
    qos_policy_id: str | None = None
    dns_name: str = ""
    dns_domain: str = ""


# Built once: building a statement costs more than running it.
_ports = select(Port).where(Port.id.in_(bindparam("ports", expanding=True)))
_leads_nowhere = FloatingIp.floating_network_id == bindparam("network"), FloatingIp.router_id.is_(None)
_unused = select(FloatingIp).where(*_leads_nowhere).order_by(FloatingIp.id).with_for_update()
_owners = select(FloatingIp.project_id).where(*_leads_nowhere).distinct().order_by(FloatingIp.project_id)
_ipv4 = select(Subnet.id).where(Subnet.network_id == bindparam("network"), Subnet.ip_version == 4).limit(1)
_belongs = update(Port).where(Port.id == bindparam("port"))

RECORDS = Owned(FloatingIp, "Floating IP {} could not be found", "FloatingIPNotFound")
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)


def to_remove(conn: Connection, caller: Caller, id: str) -> FloatingIp:
    """The floating IP, locked for `remove`: after the port that it leads to, which shows it. Raises NotFound."""
    return quotas.after_turn(conn, caller, id, visible, _lock_port)


def _lock_port(conn: Connection, row: FloatingIp) -> None:
    if row.port_id is not None:
        ports.find(conn, row.port_id, lock=True)


def ports_of(conn: Connection, port_ids: Sequence[str]) -> dict[str, Port]:
    """Id → port, for details of the ports that floating IPs lead to."""
    return {row.id: row for row in standard.rows(conn, _ports, ports=port_ids)}


def check_network(conn: Connection, network: Network) -> None:
    """Raises Invalid for a network that no floating IP can be on."""
    if not network.external:
        raise bad(f"Network {network.id} is not a valid external network")
    if conn.execute(_ipv4, {"network": network.id}).first() is None:
        raise bad(f"Network {network.id} does not contain any IPv4 subnet")


# -- changes


def create(
    conn: Connection, project_id: str, new: NewFloatingIp, to: Target | None, now: datetime, by: Origin
) -> FloatingIp:
    """Allocate an address that leads to `to` at once. The port of `to`, if any, is locked.

    Raises NotFound (network, subnet), Invalid, Conflict (taken, none left, the fixed address has one), OverQuota.
    """
    network = networks.pinned(conn, new.network_id)
    check_network(conn, network)
    if to is not None:
        associations.check_free(conn, to, network.id)
    quota.take(conn, quotas.QUOTAS, project_id, {"floatingip": 1})
    request = FixedIpRequest(new.subnet_id, new.address)
    if new.subnet_id is None and new.address is None:
        request = FixedIpRequest(ip_version=4)
    # The port belongs to no project, and to the floating IP once that exists.
    new_port = NewPort(
        network,
        fixed_ips=(request,),
        device_id=PENDING,
        device_owner=ports.FLOATING,
        port_security_enabled=False,
    )
    port = ports.create(conn, "", new_port, now, by)
    # On a network with automatic IPv6 addresses, the port has one of these, too.
    found = [each["ip_address"] for each in ports.fixed_ips_of(conn, [port.id])[port.id]]
    address = next((each for each in found if ":" not in each), None)
    if address is None:
        raise bad(f"Floating IP address {found[0]} is not an IPv4 address")
    values: dict[str, Any] = {**standard.new(project_id, now, description=new.description), **_leading(to)}
    made = FloatingIp(
        **values,
        status=DOWN,
        floating_network_id=network.id,
        floating_ip_address=address,
        floating_port_id=port.id,
        qos_policy_id=new.qos_policy_id,
        dns_name=new.dns_name,
        dns_domain=new.dns_domain,
    )
    standard.insert(conn, made)
    conn.execute(_belongs, {"port": port.id, "device_id": made.id})
    if to is not None:
        shown.port_changed(conn, to.port_id)
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, to.router_id, by)
    return made


def lead(conn: Connection, row: FloatingIp, to: Target | None, now: datetime, by: Origin, **changes: Any) -> FloatingIp:
    """Make a locked floating IP lead to `to`, whose port is locked, or nowhere; and set columns.

    Raises Conflict if another one leads there.
    """
    if to is not None:
        port_forwardings.check_whole(conn, row)
        associations.check_free(conn, to, row.floating_network_id, but=row.id)
    leading = _leading(to)
    if to is None and row.port_id is None:
        # Single ports of it may be forwarded.
        leading["router_id"] = row.router_id
    moved = any(getattr(row, name) != value for name, value in leading.items())
    led = standard.changed(conn, row, now, **changes, **leading, **({"status": DOWN} if moved else {}))
    if moved:
        # Each once: PostgreSQL would lock the network of one that is written twice, and networks come before ports.
        for port_id in dict.fromkeys((row.port_id, led.port_id)):
            shown.port_changed(conn, port_id)
        _ensure_routers(conn, {row.router_id, leading["router_id"]}, row, now, by)
    _follow_policy(conn, row, led, now, by)
    return led


def change(conn: Connection, row: FloatingIp, changes: dict[str, Any], now: datetime, by: Origin) -> FloatingIp:
    """Set columns of a locked floating IP, which still leads where it did."""
    changed = standard.changed(conn, row, now, **changes)
    _follow_policy(conn, row, changed, now, by)
    return changed


def remove(conn: Connection, row: FloatingIp, now: datetime, by: Origin) -> None:
    """Delete a floating IP from `to_remove`, and its port forwardings; its address is free at once."""
    if row.port_id is None and row.router_id is not None:
        port_forwardings.forget_ip(conn, row)
    shown.port_changed(conn, row.port_id)
    RECORDS.delete(conn, row)
    ports.discard(conn, row.floating_port_id, now, by)
    _ensure_routers(conn, {row.router_id}, row, now, by)


def remove_unused(conn: Connection, network_id: str, now: datetime, by: Origin) -> None:
    """Delete the floating IPs that lead nowhere, on a network that is about to be deleted."""
    for project_id in conn.scalars(_owners, {"network": network_id}).all():
        quotas.gives_back(conn, project_id)
    for row in conn.execute(_unused, {"network": network_id}).all():
        remove(conn, row, now, by)


def _follow_policy(conn: Connection, row: FloatingIp, changed: FloatingIp, now: datetime, by: Origin) -> None:
    if changed.qos_policy_id != row.qos_policy_id:
        _ensure_routers(conn, {changed.router_id}, row, now, by)


def _leading(to: Target | None) -> dict[str, str | None]:
    if to is None:
        return {"port_id": None, "fixed_ip_address": None, "router_id": None}
    return {"port_id": to.port_id, "fixed_ip_address": to.fixed_ip_address, "router_id": to.router_id}


def _ensure_routers(conn: Connection, ids: set[str | None], row: FloatingIp, now: datetime, by: Origin) -> None:
    for router_id in sorted(id for id in ids if id is not None):
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, router_id, by)
