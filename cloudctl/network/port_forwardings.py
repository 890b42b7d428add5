"""Port forwardings: ports of a floating IP that lead to ports of fixed addresses. Reference: network.md, section 8.

A floating IP leads to one fixed address as a whole, or its ports lead to several, all through one router.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.drivers.specs import PortForwarding as Spec
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import associations, kinds, standard
from cloudctl.network.associations import DOWN, Target
from cloudctl.network.tables import FloatingIp, PortForwarding
from cloudctl.tasks import Origin


@frozen
class NewForwarding:
    """Ports from `internal` and `external` on, `count` of each."""

    protocol: str
    internal: int
    external: int
    count: int = 1
    description: str = ""


# Built once: building a statement costs more than running it.
_of_ips = (
    select(PortForwarding)
    .where(PortForwarding.floatingip_id.in_(bindparam("ips", expanding=True)))
    .order_by(PortForwarding.floatingip_id, PortForwarding.protocol, PortForwarding.external)
)
_to_port = select(PortForwarding).where(PortForwarding.internal_port_id == bindparam("port"))
_of_router = (
    select(PortForwarding, FloatingIp.floating_ip_address)
    .join_from(PortForwarding, FloatingIp, FloatingIp.id == PortForwarding.floatingip_id)
    .where(FloatingIp.router_id == bindparam("router"))
    .order_by(PortForwarding.id)
)
_drop = delete(PortForwarding).where(PortForwarding.id == bindparam("wanted"))
_drop_of_ip = delete(PortForwarding).where(PortForwarding.floatingip_id == bindparam("ip"))
_to_port_of = select(PortForwarding.floatingip_id).where(PortForwarding.internal_port_id == bindparam("port"))
_locked_ips = select(FloatingIp).where(FloatingIp.id.in_(_to_port_of)).order_by(FloatingIp.id).with_for_update()


def of_ips(conn: Connection, ids: Sequence[str]) -> dict[str, list[PortForwarding]]:
    """Id of a floating IP → its forwardings. Those without any are missing."""
    return standard.grouped((row.floatingip_id, row) for row in standard.rows(conn, _of_ips, ips=ids))


def get(conn: Connection, ip: FloatingIp, id: str) -> PortForwarding:
    """Raises NotFound."""
    this = PortForwarding.id == id, PortForwarding.floatingip_id == ip.id
    row = conn.execute(select(PortForwarding).where(*this)).first()
    if row is None:
        raise not_found(id)
    return row


def not_found(id: str) -> NotFound:
    return NotFound(f"Port Forwarding {id[:64]} could not be found.", type="PortForwardingNotFound")


# -- changes, each of a locked floating IP; the port that one leads to is locked, too


def create(
    conn: Connection, ip: FloatingIp, to: Target, new: NewForwarding, now: datetime, by: Origin
) -> PortForwarding:
    """Raises Invalid (it conflicts with another one), Conflict (either address is associated as a whole)."""
    made = PortForwarding(
        id=new_id(),
        floatingip_id=ip.id,
        internal_port_id=to.port_id,
        internal_ip_address=to.fixed_ip_address,
        protocol=new.protocol,
        internal=new.internal,
        external=new.external,
        count=new.count,
        description=new.description,
    )
    _check(conn, ip, to, made)
    conn.execute(insert(PortForwarding).values(**made._asdict()))
    _led(conn, ip, to.router_id, now, by)
    return made


def change(
    conn: Connection,
    ip: FloatingIp,
    row: PortForwarding,
    changes: Mapping[str, Any],
    to: Target,
    now: datetime,
    by: Origin,
) -> PortForwarding:
    """Set columns; `to` is where it leads from now on. Raises as `create`."""
    led = {"internal_port_id": to.port_id, "internal_ip_address": to.fixed_ip_address}
    changed = row._replace(**changes, **led)
    _check(conn, ip, to, changed)
    conn.execute(update(PortForwarding).where(PortForwarding.id == row.id).values(**changes, **led))
    _led(conn, ip, to.router_id, now, by)
    return changed


def remove(conn: Connection, ip: FloatingIp, row: PortForwarding, now: datetime, by: Origin) -> None:
    conn.execute(_drop, {"wanted": row.id})
    _left(conn, ip, now, by)


def forget_port(conn: Connection, port_id: str, now: datetime, by: Origin, but: Sequence[str] = ()) -> None:
    """The port is about to be deleted, or has only the addresses `but` left: nothing may lead to others."""
    # Whoever changes forwardings holds their floating IPs: who took these last would meet somebody who took them first.
    ips = {ip.id: ip for ip in conn.execute(_locked_ips, {"port": port_id})}
    for row in conn.execute(_to_port, {"port": port_id}).all():
        if row.internal_ip_address not in but:
            remove(conn, ips[row.floatingip_id], row, now, by)


def forget_ip(conn: Connection, ip: FloatingIp) -> None:
    """The floating IP is about to be deleted, and its router looked at: nothing goes through it any more."""
    conn.execute(_drop_of_ip, {"ip": ip.id})


def check_whole(conn: Connection, ip: FloatingIp) -> None:
    """Raises Conflict for a floating IP with port forwardings: it cannot lead as a whole."""
    rows = of_ips(conn, [ip.id]).get(ip.id)
    if rows:
        message = f"Floating IP {ip.id} in use by Port Forwarding resources {[row.id for row in rows]}."
        raise Conflict(message, type="FipInUseByPortForwarding")


def _led(conn: Connection, ip: FloatingIp, router_id: str, now: datetime, by: Origin) -> None:
    """The floating IP goes through this router, and no longer through the one before."""
    more = {} if ip.router_id == router_id else {"router_id": router_id, "status": DOWN}
    standard.change(conn, FloatingIp.table, ip.id, now, **more)
    for each in sorted({router_id, ip.router_id or router_id}):
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, each, by)


def _left(conn: Connection, ip: FloatingIp, now: datetime, by: Origin) -> None:
    """A forwarding was deleted; after the last one, the floating IP goes through no router."""
    more: dict[str, Any] = {} if of_ips(conn, [ip.id]) else {"router_id": None, "status": DOWN}
    standard.change(conn, FloatingIp.table, ip.id, now, **more)
    if ip.router_id is not None:
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, ip.router_id, by)


def _check(conn: Connection, ip: FloatingIp, to: Target, wanted: PortForwarding) -> None:
    if ip.port_id is not None:
        message = f"Floating IP {ip.floating_ip_address} ({ip.id}) leads to port {ip.port_id} as a whole."
        raise Conflict(message, type="FloatingIPPortAlreadyAssociated")
    own = [each for each in associations.of_port(conn, to.port_id) if each.fixed_ip_address == to.fixed_ip_address]
    if own:
        message = f"Cannot create port forwarding to port {to.port_id} because floating IP {own[0].id} leads to it."
        raise Conflict(message, type="PortHasBindingFloatingIP")
    others = [row for row in of_ips(conn, [ip.id]).get(ip.id, ()) if row.id != wanted.id]
    if others and ip.router_id != to.router_id:
        raise _bad(f"floating IP {ip.id} goes through router {ip.router_id}, and {to.port_id} is not behind that")
    for row in others:
        if row.protocol == wanted.protocol and _meet(row.external, row.count, wanted.external, wanted.count):
            raise _bad(f"external port {wanted.external} of {wanted.protocol} is conflicting with {row.id}")
    for row in conn.execute(_to_port, {"port": to.port_id}):
        same = (row.protocol, row.internal_ip_address) == (wanted.protocol, to.fixed_ip_address)
        if same and row.id != wanted.id and _meet(row.internal, row.count, wanted.internal, wanted.count):
            raise _bad(f"internal port {wanted.internal} of {wanted.protocol} is conflicting with {row.id}")


def _meet(one: int, length: int, other: int, others_length: int) -> bool:
    return one < other + others_length and other < one + length


def _bad(reason: str) -> Invalid:
    return Invalid(f"Bad port_forwarding request: {reason}.", type="BadRequest")


# -- the driver


def driver_specs(conn: Connection, router_id: str) -> tuple[Spec, ...]:
    return tuple(
        Spec(row.id, row.protocol, address, row.external, row.internal_ip_address, row.internal, row.count)
        for row, address in conn.execute(_of_router, {"router": router_id})
    )
