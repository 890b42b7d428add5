"""QoS policies: who sees them, and who may put one on a network or a port. Reference: network.md, section 10.

A policy's rules are in `qos_rules`. A port's own policy takes precedence over its network's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden
from cloudctl.network import shares, standard
from cloudctl.network.owned import Owned
from cloudctl.network.tables import FloatingIp, Network, Port, QosPolicy, QosRule
from cloudctl.rest.caller import Caller
from cloudctl.tasks import queue

# What can have a policy, as messages call it.
HOLDERS = (("network", Network.table), ("port", Port.table), ("floatingip", FloatingIp.table))


@frozen
class NewPolicy:
    name: str
    description: str = ""
    shared: bool = False
    is_default: bool = False


RECORDS = Owned(QosPolicy, "QoS policy {} could not be found.", "QosPolicyNotFound", shared=shares.QOS_POLICY)
# While a policy is locked, nobody else changes its rules, or puts it on anything, either.
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)

# Built once: building a statement costs more than running it.
_default = select(QosPolicy.id).where(QosPolicy.project_id == bindparam("project"), QosPolicy.is_default.is_(True))
_pinned_default = _default.with_for_update(read=True, key_share=True)
_of_networks = select(Network.id, Network.qos_policy_id).where(
    Network.id.in_(bindparam("networks", expanding=True)), Network.qos_policy_id.is_not(None)
)


def of_networks(conn: Connection, network_ids: Sequence[str]) -> dict[str, str]:
    """Network id → its policy. Networks without one are missing."""
    rows = standard.rows(conn, _of_networks, networks=sorted(set(network_ids)))
    return {id: policy for id, policy in rows if policy is not None}


# -- on networks and ports


def check_set(conn: Connection, caller: Caller, present: str | None, wanted: str | None) -> str | None:
    """`wanted`, if the caller may replace `present` by it; it cannot be deleted before this transaction ends.

    Raises NotFound for a policy that the caller does not see, Forbidden for removing one that they do not see.
    """
    if wanted == present:
        return wanted
    if present is not None:
        row = find(conn, present)
        if row is not None and not RECORDS.is_seen(conn, caller, row):
            message = f"Failed to remove provided policy {present} because you are not authorized."
            raise Forbidden(message, type="PolicyRemoveAuthorizationError")
    return wanted if wanted is None else RECORDS.usable(conn, caller, wanted).id


def default_of(conn: Connection, project_id: str) -> str | None:
    """The id of the policy that new networks of a project get; it cannot be deleted before this transaction ends."""
    return conn.scalar(_pinned_default, {"project": project_id})


# -- changes


def create(conn: Connection, project_id: str, new: NewPolicy, now: datetime) -> QosPolicy:
    """Create a policy without rules. Raises Conflict for a second default of the project."""
    if new.is_default:
        _check_default(conn, project_id)
    values = standard.new(project_id, now, description=new.description)
    made = standard.insert(conn, QosPolicy(**values, name=new.name, is_default=new.is_default))
    if new.shared:
        shares.share(conn, shares.QOS_POLICY, made, shares.EVERYBODY, now)
    return made


def change(conn: Connection, row: QosPolicy, changes: dict[str, Any], now: datetime) -> QosPolicy:
    """Set columns of a locked policy, and `shared`. Raises Conflict."""
    changes = dict(changes)
    if changes.get("is_default") and not row.is_default:
        _check_default(conn, row.project_id)
    if "shared" in changes:
        shares.set_everybodys(conn, shares.QOS_POLICY, row, changes.pop("shared"), now)
    return standard.changed(conn, row, now, **changes)


def remove(conn: Connection, row: QosPolicy) -> None:
    """Delete a locked policy with its rules. Raises Conflict while a network or a port has it."""
    for kind, holders in HOLDERS:
        user = conn.scalar(select(holders.c.id).where(holders.c.qos_policy_id == row.id).limit(1))
        if user is not None:
            raise Conflict(f"QoS Policy {row.id} is used by {kind} {user}.", type="QosPolicyInUse")
    conn.execute(delete(QosRule).where(QosRule.policy_id == row.id))
    RECORDS.delete(conn, row)


def _check_default(conn: Connection, project_id: str) -> None:
    """Raises Conflict if the project has a default policy."""
    # Concurrent requests take turns.
    queue.lock_resource(conn, "qos_policy", f"the default one of {project_id}")
    if default_of(conn, project_id) is not None:
        message = f"A default QoS policy exists for project {project_id}."
        raise Conflict(message, type="QoSPolicyDefaultAlreadyExists")
