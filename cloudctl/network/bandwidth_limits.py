"""Bandwidth limits: the rules of QoS policies, and what they make of a port. Reference: network.md, section 10;
network-rules.md, section 12.

A limit of 0 kbit/s is none: the direction is as free as without the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import and_, bindparam, delete, insert, not_, or_, select, update
from sqlalchemy.sql import ColumnElement

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.drivers.specs import BandwidthLimit
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import kinds, port_security, standard
from cloudctl.network.tables import BandwidthLimit as BandwidthLimitRecord
from cloudctl.network.tables import Network, Port, QosPolicy
from cloudctl.tasks import Origin


@frozen
class NewLimit:
    """`max_kbps` in 1000 bit/s; `max_burst_kbps`, whatever its name, in 1000 bit, 0: what fits to the rate.

    `direction` as the guest sees it: egress, ingress.
    """

    max_kbps: int
    max_burst_kbps: int = 0
    direction: str = "egress"


# Built once: building a statement costs more than running it.
_of_policies = (
    select(BandwidthLimitRecord)
    .where(BandwidthLimitRecord.policy_id.in_(bindparam("policies", expanding=True)))
    .order_by(BandwidthLimitRecord.policy_id, BandwidthLimitRecord.direction)
)


def of_policies(conn: Connection, policy_ids: Sequence[str]) -> dict[str, list[BandwidthLimitRecord]]:
    """Policy id → its limits, by direction. Policies without any are missing."""
    found: dict[str, list[BandwidthLimitRecord]] = {}
    for some in standard.batches(policy_ids):
        for row in conn.execute(_of_policies, {"policies": some}):
            found.setdefault(row.policy_id, []).append(row)
    return found


def get(conn: Connection, policy: QosPolicy, limit_id: str) -> BandwidthLimitRecord:
    """The limit of a policy. Raises NotFound."""
    row = conn.execute(
        select(BandwidthLimitRecord).where(
            BandwidthLimitRecord.id == limit_id, BandwidthLimitRecord.policy_id == policy.id
        )
    ).first()
    if row is None:
        raise not_found(limit_id)
    return row


def not_found(limit_id: str) -> NotFound:
    return NotFound(f"QoS rule {limit_id[:64]} could not be found.", type="QosRuleNotFound")


def policy_of(conn: Connection, limit_id: str) -> str | None:
    """The id of the policy that a limit belongs to."""
    return conn.scalar(select(BandwidthLimitRecord.policy_id).where(BandwidthLimitRecord.id == limit_id))


# -- changes, each of a locked policy


def add(conn: Connection, policy: QosPolicy, wanted: NewLimit, now: datetime, by: Origin) -> BandwidthLimitRecord:
    """Raises Conflict if the policy limits this direction already."""
    _check_direction(conn, policy, wanted.direction)
    id = new_id()
    values = {"max_kbps": wanted.max_kbps, "max_burst_kbps": wanted.max_burst_kbps, "direction": wanted.direction}
    conn.execute(insert(BandwidthLimitRecord).values(id=id, policy_id=policy.id, **values))
    _changed(conn, policy, now, by)
    return get(conn, policy, id)


def change(
    conn: Connection,
    policy: QosPolicy,
    row: BandwidthLimitRecord,
    changes: dict[str, Any],
    now: datetime,
    by: Origin,
) -> BandwidthLimitRecord:
    """Set max_kbps, max_burst_kbps, direction. Raises Conflict."""
    if changes.get("direction", row.direction) != row.direction:
        _check_direction(conn, policy, changes["direction"])
    conn.execute(update(BandwidthLimitRecord).where(BandwidthLimitRecord.id == row.id).values(**changes))
    _changed(conn, policy, now, by)
    return get(conn, policy, row.id)


def remove(conn: Connection, policy: QosPolicy, row: BandwidthLimitRecord, now: datetime, by: Origin) -> None:
    conn.execute(delete(BandwidthLimitRecord).where(BandwidthLimitRecord.id == row.id))
    _changed(conn, policy, now, by)


def _check_direction(conn: Connection, policy: QosPolicy, direction: str) -> None:
    same = select(BandwidthLimitRecord.id).where(
        BandwidthLimitRecord.policy_id == policy.id, BandwidthLimitRecord.direction == direction
    )
    existing = conn.scalar(same)
    if existing is not None:
        message = f"Rule bandwidth_limit conflicts with rule {existing} which already exists in QoS Policy {policy.id}."
        raise Conflict(message, type="QoSRulesConflict")


def _changed(conn: Connection, policy: QosPolicy, now: datetime, by: Origin) -> None:
    standard.change(conn, QosPolicy.table, policy.id, now)
    on_networks = Port.network_id.in_(select(Network.id).where(Network.qos_policy_id == policy.id))
    have_it = or_(Port.qos_policy_id == policy.id, and_(_follow_their_network(), on_networks))
    _ensure_ports(conn, have_it, by)


# -- the driver


def network_changed(conn: Connection, network_id: str, by: Origin) -> None:
    """A network has another policy now: its ports without one of their own follow."""
    _ensure_ports(conn, and_(Port.network_id == network_id, _follow_their_network()), by)


def of_port(conn: Connection, port: Port, network_policy_id: str | None) -> tuple[BandwidthLimit, ...]:
    """What a driver shall hold a port to: by its own policy, or else by its network's.

    A network's policy is for what is plugged into it, and not for the network's own devices.
    """
    policy_id = port.qos_policy_id
    if policy_id is None and not port_security.is_network_owned(port.device_owner):
        policy_id = network_policy_id
    if policy_id is None:
        return ()
    return tuple(
        BandwidthLimit(row.direction, row.max_kbps, row.max_burst_kbps)
        for row in of_policies(conn, [policy_id]).get(policy_id, ())
        if row.max_kbps
    )


def _follow_their_network() -> ColumnElement[bool]:
    prefixes = port_security.OWNED_BY_THE_NETWORK
    network_owned = or_(*(Port.device_owner.startswith(prefix, autoescape=True) for prefix in prefixes))
    return and_(Port.qos_policy_id.is_(None), not_(network_owned))


def _ensure_ports(conn: Connection, which: ColumnElement[bool], by: Origin) -> None:
    """Those that a driver holds, or is about to."""
    query = select(Port.id).where(which, or_(Port.realised.is_(True), Port.host != "")).order_by(Port.id)
    for port_id in conn.scalars(query):
        tasks.submit_once(conn, kinds.ENSURE_PORT, port_id, by)
