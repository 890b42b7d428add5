"""Bindings of a port: the active one, which its row holds, and those on other hosts, to one of which it may move.

Neutron's extension `binding-extended`; external tools that migrate servers use it. Reference: network.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import PortBinding as Plug
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import kinds, ports, standard
from cloudctl.network.extension_tables import PortBinding
from cloudctl.network.tables import Port
from cloudctl.tasks import Origin

ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"

# Built once: building a statement costs more than running it.
_of_port = select(PortBinding).where(PortBinding.port_id == bindparam("port")).order_by(PortBinding.host)
_one = (PortBinding.port_id == bindparam("of"), PortBinding.host == bindparam("on"))
_delete = delete(PortBinding).where(*_one)
_plugged = update(PortBinding).where(*_one)


@frozen
class NewBinding:
    host: str
    vnic_type: str = "normal"
    profile: Mapping[str, Any] = field(factory=dict)


def active_of(port: Port) -> PortBinding:
    """The binding that a port's row has, as one of several."""
    return PortBinding(
        port_id=port.id,
        host=port.host,
        vnic_type=port.vnic_type,
        profile=port.profile,
        vif_type=port.vif_type,
        vif_details=port.vif_details,
    )


def of_port(conn: Connection, port: Port) -> Sequence[tuple[PortBinding, str]]:
    """The bindings of a port with their status, the active one first."""
    active = [(active_of(port), ACTIVE)] if port.host else []
    return [*active, *((row, INACTIVE) for row in conn.execute(_of_port, {"port": port.id}))]


def get(conn: Connection, port: Port, host: str) -> tuple[PortBinding, str]:
    """Raises NotFound."""
    for row, status in of_port(conn, port):
        if row.host == host:
            return row, status
    message = f"Binding for port {port.id} for host {host[:255]} could not be found."
    raise NotFound(message, type="PortBindingNotFound")


# -- changes, each of a locked port, whose revision they raise


def create(conn: Connection, port: Port, new: NewBinding, now: datetime, by: Origin) -> PortBinding:
    """Bind the port to a further host. Raises Invalid (it is not a server's), Conflict (that host has a binding)."""
    if not port.device_owner.startswith(ports.SERVERS):
        message = (
            f"Invalid input for operation: port {port.id} of {port.device_owner or 'nobody'} has one binding only."
        )
        raise Invalid(message, type="InvalidInput")
    if any(row.host == new.host for row, _ in of_port(conn, port)):
        message = f"Binding for port {port.id} on host {new.host} already exists."
        raise Conflict(message, type="PortBindingAlreadyExists")
    made = PortBinding(
        port_id=port.id,
        host=new.host,
        vnic_type=new.vnic_type,
        profile=dict(new.profile),
        vif_type=ports.UNBOUND,
        vif_details={},
    )
    conn.execute(insert(PortBinding).values(**made._asdict()))
    standard.change(conn, Port.table, port.id, now)
    tasks.submit_once(conn, kinds.ENSURE_PORT, port.id, by)
    return made


def change(
    conn: Connection, port: Port, host: str, changes: Mapping[str, Any], now: datetime, by: Origin
) -> tuple[PortBinding, str]:
    """Set vnic_type, profile of a binding. Raises NotFound, Conflict."""
    row, status = get(conn, port, host)
    if not changes:
        return row, status
    if status == ACTIVE:
        return active_of(ports.change(conn, port, dict(changes), now, by)), status
    conn.execute(update(PortBinding).where(*_one).values(**changes), {"of": port.id, "on": host})
    standard.change(conn, Port.table, port.id, now)
    return row._replace(**changes), status


def activate(conn: Connection, port: Port, host: str, now: datetime, by: Origin) -> PortBinding:
    """Move the port to this host; it can go back later. Raises NotFound, Conflict (it is there already)."""
    row, status = get(conn, port, host)
    if status == ACTIVE:
        message = f"Binding for port {port.id} on host {host} is already active."
        raise Conflict(message, type="PortBindingAlreadyActive")
    conn.execute(_delete, {"of": port.id, "on": host})
    if port.host:
        conn.execute(insert(PortBinding).values(**active_of(port)._asdict()))
    there = {name: getattr(row, name) for name in ("host", "vnic_type", "profile", "vif_type", "vif_details")}
    standard.change(conn, Port.table, port.id, now, **there, status="DOWN")
    tasks.submit_once(conn, kinds.ENSURE_PORT, port.id, by)
    return row


def remove(conn: Connection, port: Port, host: str, now: datetime, by: Origin) -> None:
    """Remove the host's binding of the port. Raises NotFound."""
    _, status = get(conn, port, host)
    if status == ACTIVE:
        ports.change(conn, port, {"host": ""}, now, by)
        return
    conn.execute(_delete, {"of": port.id, "on": host})
    standard.change(conn, Port.table, port.id, now)
    tasks.submit(conn, kinds.ENSURE_PORT, port.id, by, args={"left": host})


# -- the driver


def hosts_of(conn: Connection, port_id: str) -> Sequence[str]:
    """The hosts that have the port besides its own."""
    return [row.host for row in conn.execute(_of_port, {"port": port_id})]


def plugged(conn: Connection, port_id: str, host: str, binding: Plug) -> bool:
    """A driver holds the port there, too. False if that host no longer has a binding of it."""
    changes = {"vif_type": binding["vif_type"], "vif_details": dict(binding.get("vif_details") or {})}
    return conn.execute(_plugged, {"of": port_id, "on": host, **changes}).rowcount == 1


def failed(conn: Connection, port_id: str, host: str) -> None:
    """No driver can hold the port there."""
    conn.execute(_plugged, {"of": port_id, "on": host, "vif_type": ports.BINDING_FAILED, "vif_details": {}})
