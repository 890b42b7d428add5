"""What ports, and servers through them, show besides a port's own row: code that changes it reports the change here.

An UPDATE of a port raises its edition by itself, and each change of its addresses and groups comes with one.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Update, bindparam, select, update

from cloudctl.db import Connection
from cloudctl.network.standard import hold, in_order
from cloudctl.network.tables import Port, PortSecurityGroup

# Built once: building a statement costs more than running it. `edition` is raised by every UPDATE.
_again = update(Port).values(edition=Port.edition + 1)
_port = _again.where(Port.id == bindparam("of"))
_of_network = Port.network_id == bindparam("of")
_network = _again.where(_of_network)
_ports_of_network = in_order(Port, _of_network)
_group = _again.where(
    Port.id.in_(select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id == bindparam("of")))
)


def port_changed(conn: Connection, port_id: str | None) -> None:
    """Other floating IPs lead to the port. None: there is no port."""
    if port_id is not None:
        _say(conn, _port, port_id)


def network_changed(conn: Connection, network_id: str) -> None:
    """The network has another name, QoS policy or domain."""
    hold(conn, _ports_of_network, of=network_id)
    _say(conn, _network, network_id)


def group_changed(conn: Connection, group_id: str) -> None:
    """The security group has another name. Its ports are locked: see `security_groups.lock_members`."""
    _say(conn, _group, group_id)


def ports_changed(conn: Connection, which: ColumnElement[bool]) -> None:
    """What these ports, all locked, show by their QoS policy is another one."""
    conn.execute(_again.where(which))


def _say(conn: Connection, statement: Update, of: str) -> None:
    conn.execute(statement, {"of": of})
