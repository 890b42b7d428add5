"""Trunks: a port carries others, each by an id of its own. Reference: network.md, section 16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import kinds, ports, quotas, shown, standard, trunk_ports
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Network, Port, SubPort, Trunk
from cloudctl.network.trunk_ports import ACTIVE, DOWN
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller

RECORDS = Owned(Trunk, "Trunk {} could not be found.", "TrunkNotFound")
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)
VLAN, INHERIT = "vlan", "inherit"
VLAN_MOST = 4094

# Built once: building a statement costs more than running it.
_network = select(Network).where(Network.id == bindparam("network"))
_new_subport = insert(SubPort)


@frozen
class NewSubPort:
    """`segmentation_type` "inherit": the VLAN of the port's network."""

    port_id: str
    segmentation_type: str
    segmentation_id: int | None = None


@frozen
class NewTrunk:
    port_id: str
    name: str = ""
    description: str = ""
    admin_state_up: bool = True
    sub_ports: Sequence[NewSubPort] = ()


def to_change(conn: Connection, caller: Caller, trunk_id: str) -> Trunk:
    """The trunk, locked after the port that carries: that one's binding and deletion change it. Raises NotFound."""
    seen = visible(conn, caller, trunk_id)
    ports.find(conn, seen.port_id, lock=True)
    return visible(conn, caller, trunk_id, lock=True)


def create(conn: Connection, caller: Caller, project_id: str, new: NewTrunk) -> Trunk:
    """Raises NotFound (a port), Invalid, Conflict (a port is in use, an id is taken, an MTU too large), OverQuota."""
    _check_form(new.sub_ports)
    ports.lock(conn, [new.port_id, *(each.port_id for each in new.sub_ports)])
    parent = ports.usable(conn, caller, new.port_id)
    if trunk_ports.of_parent(conn, parent.id) is not None:
        raise _parent_in_use(parent.id)
    if trunk_ports.find(conn, parent.id) is not None:
        raise _in_use(parent.id)
    quota.take(conn, quotas.QUOTAS, project_id, {"trunk": 1})
    made = Trunk(
        **standard.new(project_id, caller.now, description=new.description),
        name=new.name,
        port_id=parent.id,
        status=ACTIVE if parent.host and new.admin_state_up else DOWN,
        admin_state_up=new.admin_state_up,
    )
    standard.insert(conn, made)
    _add(conn, caller, made, parent, new.sub_ports)
    return made


def change(conn: Connection, caller: Caller, trunk: Trunk, changes: Mapping[str, Any]) -> Trunk:
    """Set name, description, admin_state_up of a trunk from `to_change`."""
    parent = ports.get(conn, trunk.port_id)
    changed = standard.changed(conn, trunk, caller.now, **changes)
    if changed.admin_state_up != trunk.admin_state_up:
        status = ACTIVE if parent.host and changed.admin_state_up else DOWN
        conn.execute(update(Trunk).where(Trunk.id == trunk.id).values(status=status))
        _carried(conn, caller, parent)
        return changed._replace(status=status)
    return changed


def remove(conn: Connection, caller: Caller, trunk: Trunk) -> None:
    """Delete a trunk from `to_change`; its subports are ordinary ports again. Raises Conflict while it is in use."""
    _check_up(trunk)
    parent = ports.get(conn, trunk.port_id)
    if parent.host:
        raise Conflict(f"Trunk {trunk.id} is currently in use.", type="TrunkInUse")
    for row in trunk_ports.of_trunk(conn, trunk.id):
        trunk_ports.set_free(conn, row, caller.now, caller)
    RECORDS.delete(conn, trunk)
    _carried(conn, caller, parent)


def add_subports(conn: Connection, caller: Caller, trunk: Trunk, wanted: Sequence[NewSubPort]) -> Trunk:
    """Let a trunk from `to_change` carry more ports.

    Raises as `create`, and Conflict for one that is administratively down.
    """
    _check_form(wanted)
    _check_up(trunk)
    parent = ports.get(conn, trunk.port_id)
    ports.lock(conn, [each.port_id for each in wanted])
    _add(conn, caller, trunk, parent, wanted)
    return standard.changed(conn, trunk, caller.now)


def remove_subports(conn: Connection, caller: Caller, trunk: Trunk, port_ids: Sequence[str]) -> Trunk:
    """Let a trunk from `to_change` carry fewer ports. Raises NotFound for one that it does not, Invalid, Conflict."""
    _check_up(trunk)
    _check_each_once(port_ids)
    present = {row.port_id: row for row in trunk_ports.of_trunk(conn, trunk.id)}
    for port_id in port_ids:
        if port_id not in present:
            message = f"SubPort on trunk {trunk.id} with parent port {port_id} could not be found."
            raise NotFound(message, type="SubPortNotFound")
        trunk_ports.set_free(conn, present[port_id], caller.now, caller)
    _carried(conn, caller, ports.get(conn, trunk.port_id))
    return standard.changed(conn, trunk, caller.now)


def _add(conn: Connection, caller: Caller, trunk: Trunk, parent: Port, wanted: Sequence[NewSubPort]) -> None:
    """The ports are locked."""
    taken = {row.segmentation_id for row in trunk_ports.of_trunk(conn, trunk.id)}
    mtu = _network_of(conn, parent).mtu
    for each in wanted:
        port = ports.usable(conn, caller, each.port_id)
        _check_port(conn, trunk, parent, port)
        network = _network_of(conn, port)
        if network.mtu > mtu:
            message = f"MTU {network.mtu} of subport {port.id} is larger than {mtu}, that of its parent {parent.id}."
            raise Conflict(message, type="SubPortMtuGreaterThanTrunkPortMtu")
        number = _segmentation(each, network)
        if number in taken:
            message = f"segmentation_type vlan and segmentation_id {number} already in use on trunk {trunk.id}."
            raise Conflict(message, type="DuplicateSubPort")
        taken.add(number)
        wire = {"segmentation_type": VLAN, "segmentation_id": number}
        conn.execute(_new_subport, {"port_id": port.id, "trunk_id": trunk.id, **wire})
        # In one statement: PostgreSQL would lock the network of a port that is written twice, and networks come first.
        its = {"device_id": trunk.id, "device_owner": trunk_ports.OWNER, "host": parent.host}
        standard.change(conn, Port.table, port.id, caller.now, **its)
        if parent.host:
            tasks.submit(conn, kinds.ENSURE_PORT, port.id, caller)
    _carried(conn, caller, parent)


def _carried(conn: Connection, caller: Caller, parent: Port) -> None:
    """Update the parent after a change of what it carries."""
    shown.port_changed(conn, parent.id)
    if parent.host:
        tasks.submit_once(conn, kinds.ENSURE_PORT, parent.id, caller)


def _network_of(conn: Connection, port: Port) -> Network:
    return conn.execute(_network, {"network": port.network_id}).one()


def _check_form(wanted: Sequence[NewSubPort]) -> None:
    """Check what does not depend on the ports themselves. Raises Invalid."""
    for each in wanted:
        if each.segmentation_type == VLAN and each.segmentation_id is None:
            raise Invalid("Invalid input for operation: segmentation_type vlan needs a segmentation_id.")
        if each.segmentation_id is not None and not 1 <= each.segmentation_id <= VLAN_MOST:
            message = f"Invalid input for operation: {each.segmentation_id} is no VLAN id: 1 to {VLAN_MOST}."
            raise Invalid(message)
    _check_each_once([each.segmentation_id for each in wanted if each.segmentation_id is not None])
    _check_each_once([each.port_id for each in wanted])


def _check_each_once(wanted: Sequence[int | str]) -> None:
    if len(set(wanted)) < len(wanted):
        raise Invalid("Invalid input for operation: a port or a segmentation_id is there twice.")


def _check_port(conn: Connection, trunk: Trunk, parent: Port, port: Port) -> None:
    """Raises Conflict for a port that something else uses."""
    if port.id == parent.id or trunk_ports.of_parent(conn, port.id) is not None:
        raise _parent_in_use(port.id)
    if trunk_ports.find(conn, port.id) is not None or port.device_id or port.device_owner or port.host:
        raise _in_use(port.id)


def _segmentation(wanted: NewSubPort, network: Network) -> int:
    """The VLAN id of a subport. Raises Invalid."""
    if wanted.segmentation_type != INHERIT and wanted.segmentation_id is not None:
        return wanted.segmentation_id
    if network.network_type != VLAN or network.segmentation_id is None:
        message = "Invalid input for operation: segmentation_type inherit needs a port on a VLAN network."
        raise Invalid(message)
    return network.segmentation_id


def _check_up(trunk: Trunk) -> None:
    if not trunk.admin_state_up:
        raise Conflict(f"Trunk {trunk.id} is currently disabled.", type="TrunkDisabled")


def _parent_in_use(port_id: str) -> Conflict:
    return Conflict(f"Port {port_id} is in use by another trunk as its parent.", type="ParentPortInUse")


def _in_use(port_id: str) -> Conflict:
    return Conflict(f"Port {port_id} is in use by another trunk or device.", type="TrunkPortInUse")
