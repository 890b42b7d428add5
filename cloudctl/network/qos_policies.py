"""QoS policies: who sees them, and who may put one on a network or a port. Reference: network.md, section 10.

What a policy holds is in `bandwidth_limits`. A port's own policy goes before its network's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import Select, Table, bindparam, delete, insert, or_, select, true

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, NotFound
from cloudctl.network import standard, tags
from cloudctl.network.tables import BandwidthLimit, Network, Port, QosPolicy
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition
from cloudctl.tasks import queue

# What can have a policy, as messages call it.
HOLDERS = (("network", Network.table), ("port", Port.table))


@frozen
class NewPolicy:
    name: str
    description: str = ""
    shared: bool = False
    is_default: bool = False


# -- who sees what


# Built once: building a statement costs more than running it.
_by_id = select(QosPolicy).where(QosPolicy.id == bindparam("wanted"))
_locked_by_id = _by_id.with_for_update()
_pinned_by_id = _by_id.with_for_update(read=True, key_share=True)
_default = select(QosPolicy.id).where(QosPolicy.project_id == bindparam("project"), QosPolicy.is_default.is_(True))
_pinned_default = _default.with_for_update(read=True, key_share=True)
_of_networks = select(Network.id, Network.qos_policy_id).where(
    Network.id.in_(bindparam("networks", expanding=True)), Network.qos_policy_id.is_not(None)
)


def visible_to(conn: Connection, caller: Caller) -> Condition:
    """The policies that the caller sees: their own and shared ones."""
    if standard.sees_all(caller):
        return true()
    return or_(QosPolicy.project_id == caller.project_id, QosPolicy.shared.is_(True))


def visible(conn: Connection, caller: Caller, policy_id: str, lock: bool = False) -> QosPolicy:
    """The policy, if the caller may see it. Raises NotFound.

    `lock`: nobody else changes it or its rules, or puts it on anything, before this transaction ends.
    """
    row = conn.execute(_locked_by_id if lock else _by_id, {"wanted": policy_id}).first()
    if row is None or not _is_seen(caller, row):
        raise not_found(policy_id)
    return row


def _is_seen(caller: Caller, row: QosPolicy) -> bool:
    return row.project_id == caller.project_id or row.shared or standard.sees_all(caller)


def not_found(policy_id: str) -> NotFound:
    return NotFound(f"QoS policy {policy_id[:64]} could not be found.", type="QosPolicyNotFound")


def of_networks(conn: Connection, network_ids: Sequence[str]) -> dict[str, str]:
    """Network id → its policy. Networks without one are missing."""
    found: dict[str, str] = {}
    for some in standard.batches(sorted(set(network_ids))):
        found |= {id: policy for id, policy in conn.execute(_of_networks, {"networks": some}) if policy is not None}
    return found


# -- on networks and ports


def check_set(conn: Connection, caller: Caller, present: str | None, wanted: str | None) -> str | None:
    """What the caller may put in the place of `present`; a policy that now cannot go before this transaction ends.

    Raises NotFound for one that the caller does not see, Forbidden for taking one away that they do not see.
    """
    if wanted == present:
        return wanted
    if present is not None:
        row = conn.execute(_by_id, {"wanted": present}).first()
        if row is not None and not _is_seen(caller, row):
            message = f"Failed to remove provided policy {present} because you are not authorized."
            raise Forbidden(message, type="PolicyRemoveAuthorizationError")
    if wanted is not None:
        row = conn.execute(_pinned_by_id, {"wanted": wanted}).first()
        if row is None or not _is_seen(caller, row):
            raise not_found(wanted)
    return wanted


def default_of(conn: Connection, project_id: str) -> str | None:
    """The id of the policy that new networks of a project get; it now cannot go before this transaction ends."""
    return conn.scalar(_pinned_default, {"project": project_id})


# -- changes


def create(conn: Connection, project_id: str, wanted: NewPolicy, now: datetime) -> QosPolicy:
    """A policy without rules. Raises Conflict for a second default of the project."""
    if wanted.is_default:
        _check_default(conn, project_id)
    values = standard.new(project_id, now, wanted.description)
    conn.execute(
        insert(QosPolicy).values(**values, name=wanted.name, shared=wanted.shared, is_default=wanted.is_default)
    )
    return _get(conn, values["id"])


def change(conn: Connection, row: QosPolicy, changes: dict[str, Any], now: datetime) -> QosPolicy:
    """Set columns of a locked policy. Raises Conflict."""
    if changes.get("is_default") and not row.is_default:
        _check_default(conn, row.project_id)
    if row.shared and changes.get("shared") is False:
        _check_unsharing(conn, row)
    standard.change(conn, QosPolicy.table, row.id, now, **changes)
    return _get(conn, row.id)


def remove(conn: Connection, row: QosPolicy) -> None:
    """Delete a locked policy with its rules. Raises Conflict while a network or a port has it."""
    for kind, holders in HOLDERS:
        user = conn.scalar(select(holders.c.id).where(holders.c.qos_policy_id == row.id).limit(1))
        if user is not None:
            raise Conflict(f"QoS Policy {row.id} is used by {kind} {user}.", type="QosPolicyInUse")
    conn.execute(delete(BandwidthLimit).where(BandwidthLimit.policy_id == row.id))
    tags.forget(conn, row.id)
    conn.execute(delete(QosPolicy).where(QosPolicy.id == row.id))


def _get(conn: Connection, policy_id: str) -> QosPolicy:
    return conn.execute(_by_id, {"wanted": policy_id}).one()


def _check_default(conn: Connection, project_id: str) -> None:
    """Raises Conflict if the project has a default policy."""
    # Two that are made at once take turns.
    queue.lock_resource(conn, "qos_policy", f"the default one of {project_id}")
    if default_of(conn, project_id) is not None:
        message = f"A default QoS policy exists for project {project_id}."
        raise Conflict(message, type="QoSPolicyDefaultAlreadyExists")


def _check_unsharing(conn: Connection, row: QosPolicy) -> None:
    """Raises Conflict while networks or ports of other projects have the policy."""
    for _, holders in HOLDERS:
        if conn.execute(_foreign(holders, row)).first() is not None:
            message = f"Unable to reconfigure sharing settings for QoS policy {row.id}. Multiple tenants are using it."
            raise Conflict(message, type="InvalidSharedSetting")


def _foreign(holders: Table, row: QosPolicy) -> Select[str]:
    here = holders.c.qos_policy_id == row.id, holders.c.project_id != row.project_id
    return select(holders.c.id).where(*here).limit(1)
