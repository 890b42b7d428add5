"""Which of the packets that security groups let through or drop are to be logged. Neutron's extension `logging`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import bindparam, or_, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.network import kinds, standard
from cloudctl.network.extension_tables import NetworkLog
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Port, PortSecurityGroup
from cloudctl.tasks import Origin

SECURITY_GROUP = "security_group"
ALL = "ALL"
RECORDS = Owned(NetworkLog, "Log {} could not be found.", "LogResourceNotFound")

# Built once: building a statement costs more than running it.
_events = (
    select(NetworkLog.event)
    .where(
        NetworkLog.enabled.is_(True),
        NetworkLog.project_id == bindparam("project"),
        or_(NetworkLog.target_id == bindparam("port"), NetworkLog.target_id.is_(None)),
        or_(NetworkLog.resource_id.in_(bindparam("groups", expanding=True)), NetworkLog.resource_id.is_(None)),
    )
    .distinct()
)
# Whether anything is logged at all: to be queried together with a port.
any_enabled = select(NetworkLog.id).where(NetworkLog.enabled.is_(True)).exists()


@frozen
class NewLog:
    """Logs packets of `resource_id`, a security group, and of the port `target_id`; None: of all."""

    name: str = ""
    description: str = ""
    resource_type: str = SECURITY_GROUP
    resource_id: str | None = None
    target_id: str | None = None
    event: str = ALL
    enabled: bool = True


def create(conn: Connection, project_id: str, new: NewLog, now: datetime, by: Origin) -> NetworkLog:
    made = standard.insert(conn, NetworkLog(**standard.new(project_id, now, **asdict(new))))
    _follow(conn, made, by)
    return made


def change(conn: Connection, log: NetworkLog, changes: dict[str, Any], now: datetime, by: Origin) -> NetworkLog:
    """Set name, description, enabled of a locked log."""
    changed = standard.changed(conn, log, now, **changes)
    if changed.enabled != log.enabled:
        _follow(conn, changed, by)
    return changed


def remove(conn: Connection, log: NetworkLog, by: Origin) -> None:
    """Delete a locked log. Logs of a security group or a port are deleted with it."""
    RECORDS.delete(conn, log)
    _follow(conn, log, by)


def events(conn: Connection, port: Port, group_ids: Sequence[str]) -> tuple[str, ...]:
    """What is logged of a port in these groups: ACCEPT, DROP."""
    of = {"project": port.project_id, "port": port.id, "groups": list(group_ids)}
    found = set(conn.scalars(_events, of))
    return ("ACCEPT", "DROP") if ALL in found else tuple(sorted(found))


def _follow(conn: Connection, log: NetworkLog, by: Origin) -> None:
    """Update the ports that a driver holds and the log is about."""
    query = select(Port.id).where(Port.realised.is_(True), Port.project_id == log.project_id)
    if log.target_id is not None:
        query = query.where(Port.id == log.target_id)
    if log.resource_id is not None:
        members = select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id == log.resource_id)
        query = query.where(Port.id.in_(members))
    for port_id in conn.scalars(query.order_by(Port.id)).all():
        tasks.submit_once(conn, kinds.ENSURE_PORT, port_id, by)
