"""The ports of trunks: which port carries which others, and how they follow each other.

`trunks` makes and removes them. This does not depend on it, so that ports can use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Delete, bindparam, delete, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import SubPort as SubPortSpec
from cloudctl.errors import Conflict
from cloudctl.network import kinds, shown, standard, tags
from cloudctl.network.tables import Port, SubPort, Trunk
from cloudctl.tasks import Origin, Unasked

OWNER = "trunk:subport"
ACTIVE, DOWN = "ACTIVE", "DOWN"
FREE = {"device_id": "", "device_owner": "", "host": "", "vif_type": "unbound", "vif_details": {}, "status": DOWN}

# Built once: building a statement costs more than running it.
# Whether a port carries others: to be queried together with the port.
any_of_parent = select(Trunk.id).where(Trunk.port_id == Port.id).exists()
# The same of one port, for what a change of it returns: there, a condition cannot name the changed table.
any_of_wanted = select(Trunk.id).where(Trunk.port_id == bindparam("wanted")).exists()
_of_parent = select(Trunk).where(Trunk.port_id == bindparam("port"))
_subport = select(SubPort).where(SubPort.port_id == bindparam("port"))
_subports = (
    select(SubPort)
    .where(SubPort.trunk_id.in_(bindparam("trunks", expanding=True)))
    .order_by(SubPort.trunk_id, SubPort.segmentation_id)
)
_parent = (
    select(Trunk.port_id)
    .join_from(SubPort, Trunk, Trunk.id == SubPort.trunk_id)
    .where(SubPort.port_id == bindparam("port"))
)
_held_parent = select(Port.id).where(Port.id.in_(_parent)).with_for_update()
_details = (
    select(Trunk.port_id, Trunk.id, SubPort, Port.mac_address)
    .join_from(Trunk, SubPort, SubPort.trunk_id == Trunk.id)
    .join(Port, Port.id == SubPort.port_id)
    .where(Trunk.port_id.in_(bindparam("ports", expanding=True)))
    .order_by(Trunk.port_id, SubPort.segmentation_id, SubPort.port_id)
)
_of_parents = select(Trunk.port_id, Trunk.id).where(Trunk.port_id.in_(bindparam("ports", expanding=True)))
_host = select(Port.host).where(Port.id == bindparam("port"))
_move = (
    update(Port).where(Port.id == bindparam("port"), Port.host != bindparam("to")).values(revision=Port.revision + 1)
)


def of_parent(conn: Connection, port_id: str) -> Trunk | None:
    """The trunk that a port carries."""
    return conn.execute(_of_parent, {"port": port_id}).first()


def find(conn: Connection, port_id: str) -> SubPort | None:
    """How another port carries this one, if one does."""
    return conn.execute(_subport, {"port": port_id}).first()


def hold_parent_of(conn: Connection, port_id: str) -> None:
    """Lock the port that carries this one, if there is one, before this one."""
    conn.execute(_held_parent, {"port": port_id})


def of_trunk(conn: Connection, trunk_id: str) -> Sequence[SubPort]:
    """Its subports, by their ids on the wire."""
    return of_trunks(conn, [trunk_id]).get(trunk_id, [])


def of_trunks(conn: Connection, trunk_ids: Sequence[str]) -> dict[str, list[SubPort]]:
    """Trunk id → its subports. Trunks without any are missing."""
    return standard.grouped((row.trunk_id, row) for row in standard.rows(conn, _subports, trunks=trunk_ids))


def details_of(conn: Connection, port_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Port id → `trunk_details` of a port that carries others; all other ports are missing."""
    found: dict[str, dict[str, Any]] = {}
    for some in standard.batches(port_ids):
        for port_id, trunk_id in conn.execute(_of_parents, {"ports": some}):
            found[port_id] = {"trunk_id": trunk_id, "sub_ports": []}
        if not found:
            continue
        for port_id, _, row, mac in conn.execute(_details, {"ports": some}):
            found[port_id]["sub_ports"].append({**view(row), "mac_address": mac})
    return found


def view(row: SubPort) -> dict[str, Any]:
    """As the API shows a subport."""
    wire = {"segmentation_type": row.segmentation_type, "segmentation_id": row.segmentation_id}
    return {"port_id": row.port_id, **wire}


def driver_specs(conn: Connection, port_id: str) -> tuple[SubPortSpec, ...]:
    """The subports that a driver lets through a port; none while its trunk is administratively down."""
    trunk = of_parent(conn, port_id)
    if trunk is None or not trunk.admin_state_up:
        return ()
    return tuple(SubPortSpec(row.port_id, row.segmentation_id) for row in of_trunk(conn, trunk.id))


# -- they follow each other


def follow(conn: Connection, port_id: str, host: str, now: datetime) -> None:
    """The port is on this host ("": on none), and so are those that it carries."""
    trunk = of_parent(conn, port_id)
    if trunk is None:
        return
    for row in of_trunk(conn, trunk.id):
        move(conn, row.port_id, host, now, Unasked(trunk.project_id))
    status = ACTIVE if host and trunk.admin_state_up else DOWN
    if trunk.status != status:
        standard.change(conn, Trunk.table, trunk.id, now, status=status)


def move(conn: Connection, port_id: str, host: str, now: datetime, by: Origin) -> None:
    """Move a subport to the host of its parent."""
    left = conn.scalar(_host, {"port": port_id})
    unplugged = {"host": host, "vif_type": "unbound", "vif_details": {}, "status": DOWN, "updated_at": now}
    if conn.execute(_move, {"port": port_id, "to": host, **unplugged}).rowcount:
        tasks.submit(conn, kinds.ENSURE_PORT, port_id, by, args={"left": left})


def subport_changed(conn: Connection, port_id: str) -> None:
    """The port that carries this one, if there is one, shows its MAC address."""
    shown.port_changed(conn, conn.scalar(_parent, {"port": port_id}))


# -- ends


def check_deletable(conn: Connection, port_id: str) -> None:
    """Raises Conflict for a port of a trunk."""
    trunk = of_parent(conn, port_id)
    if trunk is not None:
        message = f"Port {port_id} is currently a parent port for trunk {trunk.id}."
        raise Conflict(message, type="PortInUseAsTrunkParent")
    row = find(conn, port_id)
    if row is not None:
        message = f"Port {port_id} is currently a subport for trunk {row.trunk_id}."
        raise Conflict(message, type="PortInUseAsSubPort")


def forget(conn: Connection, port_id: str, now: datetime, by: Origin) -> None:
    """The port is about to be deleted: it carries nothing, and nothing carries it."""
    trunk = of_parent(conn, port_id)
    if trunk is not None:
        for row in of_trunk(conn, trunk.id):
            set_free(conn, row, now, by)
        tags.forget(conn, trunk.id)
        conn.execute(delete(Trunk).where(Trunk.id == trunk.id))
    own = find(conn, port_id)
    if own is not None:
        parent = conn.scalar(_parent, {"port": port_id})
        conn.execute(_drop(port_id))
        shown.port_changed(conn, parent)
        if parent is not None:
            tasks.submit_once(conn, kinds.ENSURE_PORT, parent, by)


def set_free(conn: Connection, row: SubPort, now: datetime, by: Origin) -> None:
    """Make the port an ordinary one again, on no host."""
    conn.execute(_drop(row.port_id))
    standard.change(conn, Port.table, row.port_id, now, **FREE)
    tasks.submit_once(conn, kinds.ENSURE_PORT, row.port_id, by)


def _drop(port_id: str) -> Delete:
    return delete(SubPort).where(SubPort.port_id == port_id)
