"""The rules of QoS policies, and what they make of a port. Reference: network.md, section 10; network-rules.md, 12.

A rule has a type and one number (and how much more may come at once), and most apply to one direction, as the guest
sees it. A limit of 0 is no limit: the direction is as free as without the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import and_, bindparam, delete, insert, not_, or_, select, update
from sqlalchemy.sql import ColumnElement
from zope.interface import Interface

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.drivers.interfaces import IGuaranteedRates, IMarking, IPacketLimits
from cloudctl.drivers.specs import BandwidthLimit, Guarantee, PacketLimit
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import kinds, port_security, shown, standard
from cloudctl.network.tables import FloatingIp, Network, Port, QosPolicy, QosRule, RouterPort
from cloudctl.tasks import Origin

EGRESS, INGRESS, ANY = "egress", "ingress", "any"
BOTH = (EGRESS, INGRESS)


@frozen
class Type:
    """`directions` (): it has none. `needs`: the capability of a driver that obeys it; None: a request to compute.

    `at_most`, `at_least`: the types whose number must not be below, or above, that of a rule for the same direction.
    """

    name: str
    directions: tuple[str, ...] = BOTH
    needs: type[Interface] | None = None
    at_most: str | None = None
    at_least: str | None = None


BANDWIDTH = Type("bandwidth_limit", at_least="minimum_bandwidth")
MARKING = Type("dscp_marking", (), IMarking)
GUARANTEED = Type("minimum_bandwidth", needs=IGuaranteedRates, at_most="bandwidth_limit")
PACKETS = Type("packet_rate_limit", needs=IPacketLimits, at_least="minimum_packet_rate")
GUARANTEED_PACKETS = Type("minimum_packet_rate", (*BOTH, ANY), at_most="packet_rate_limit")
TYPES = {each.name: each for each in (BANDWIDTH, MARKING, GUARANTEED, PACKETS, GUARANTEED_PACKETS)}
# Types by which servers are placed.
PLACED_BY = (GUARANTEED.name, GUARANTEED_PACKETS.name)


@frozen
class NewRule:
    """`value` in 1000 bit/s, 1000 packets/s, or the mark; `burst`: 0 is one that fits the rate."""

    type: Type
    value: int
    burst: int = 0
    direction: str = field(default="")


# Built once: building a statement costs more than running it.
_of_policies = (
    select(QosRule)
    .where(QosRule.policy_id.in_(bindparam("policies", expanding=True)))
    .order_by(QosRule.policy_id, QosRule.type, QosRule.direction)
)
_gateways = (
    select(RouterPort.router_id)
    .join_from(RouterPort, Port, Port.id == RouterPort.port_id)
    .where(Port.qos_policy_id == bindparam("policy"))
    .order_by(RouterPort.router_id)
    .distinct()
)
_floating = (
    select(FloatingIp.router_id)
    .where(FloatingIp.qos_policy_id == bindparam("policy"), FloatingIp.router_id.is_not(None))
    .order_by(FloatingIp.router_id)
    .distinct()
)


# -- rules


def of_policies(conn: Connection, policy_ids: Sequence[str]) -> dict[str, list[QosRule]]:
    """Policy id → its rules, by type and direction. Policies without any are missing."""
    return standard.grouped((row.policy_id, row) for row in standard.rows(conn, _of_policies, policies=policy_ids))


def get(conn: Connection, policy: QosPolicy, type: Type, rule_id: str) -> QosRule:
    """The rule of a policy. Raises NotFound."""
    this = QosRule.id == rule_id, QosRule.policy_id == policy.id, QosRule.type == type.name
    row = conn.execute(select(QosRule).where(*this)).first()
    if row is None:
        raise not_found(rule_id)
    return row


def not_found(rule_id: str) -> NotFound:
    return NotFound(f"QoS rule {rule_id[:64]} could not be found.", type="QosRuleNotFound")


def policy_of(conn: Connection, type: Type, rule_id: str) -> str | None:
    """The id of the policy that a rule belongs to."""
    return conn.scalar(select(QosRule.policy_id).where(QosRule.id == rule_id, QosRule.type == type.name))


# -- changes, each of a locked policy


def lock_ports(conn: Connection, policy_id: str, type: Type) -> None:
    """Lock the ports that show such a rule, by which servers are placed, before the policy: some get one meanwhile."""
    if type.name in PLACED_BY:
        standard.hold(conn, standard.in_order(Port, _have(policy_id)))


def add(conn: Connection, policy: QosPolicy, wanted: NewRule, now: datetime, by: Origin) -> QosRule:
    """Raises Conflict if the policy already has such a rule, or one that contradicts it."""
    made = QosRule(
        id=new_id(),
        policy_id=policy.id,
        type=wanted.type.name,
        direction=wanted.direction,
        value=wanted.value,
        burst=wanted.burst,
    )
    _check(conn, policy, made)
    conn.execute(insert(QosRule).values(**made._asdict()))
    _changed(conn, policy, made, now, by)
    return made


def change(
    conn: Connection, policy: QosPolicy, row: QosRule, changes: Mapping[str, Any], now: datetime, by: Origin
) -> QosRule:
    """Set value, burst, direction. Raises Conflict."""
    changed = row._replace(**changes)
    _check(conn, policy, changed)
    conn.execute(update(QosRule).where(QosRule.id == row.id).values(**changes))
    _changed(conn, policy, changed, now, by)
    return changed


def remove(conn: Connection, policy: QosPolicy, row: QosRule, now: datetime, by: Origin) -> None:
    conn.execute(delete(QosRule).where(QosRule.id == row.id))
    _changed(conn, policy, row, now, by)


def _check(conn: Connection, policy: QosPolicy, wanted: QosRule) -> None:
    type = TYPES[wanted.type]
    for other in of_policies(conn, [policy.id]).get(policy.id, ()):
        if other.id == wanted.id or not _meet(other.direction, wanted.direction):
            continue
        if other.type == wanted.type:
            message = (
                f"Rule {wanted.type} conflicts with rule {other.id} which already exists in QoS Policy {policy.id}."
            )
            raise Conflict(message, type="QoSRulesConflict")
        above = other.type == type.at_most and wanted.value > other.value > 0
        below = other.type == type.at_least and 0 < wanted.value < other.value
        if above or below:
            message = f"Unable to add the rule: {wanted.type} of {wanted.value} contradicts {other.type} {other.value}."
            raise Conflict(message, type="QoSRuleParameterConflict")


def _meet(one: str, other: str) -> bool:
    return one == other or ANY in (one, other)


def _changed(conn: Connection, policy: QosPolicy, rule: QosRule, now: datetime, by: Origin) -> None:
    standard.change(conn, QosPolicy.table, policy.id, now)
    if rule.type in PLACED_BY:
        shown.ports_changed(conn, _have(policy.id))
    _ensure_ports(conn, _have(policy.id), by)
    for router_id in {id for query in (_gateways, _floating) for id in conn.scalars(query, {"policy": policy.id})}:
        if router_id is not None:
            tasks.submit_once(conn, kinds.ENSURE_ROUTER, router_id, by)


# -- the driver


def network_changed(conn: Connection, network_id: str, by: Origin) -> None:
    """A network has another policy now: its ports without one of their own follow."""
    _ensure_ports(conn, and_(Port.network_id == network_id, _follow_their_network()), by)


@frozen
class Obeyed:
    """What a driver shall hold a port to."""

    limits: tuple[BandwidthLimit, ...] = ()
    packet_limits: tuple[PacketLimit, ...] = ()
    guarantees: tuple[Guarantee, ...] = ()
    dscp_mark: int | None = None


def of_port(conn: Connection, port: Port, network_policy_id: str | None) -> Obeyed:
    """What applies to a port: by its own policy, or else by its network's."""
    policy_id = policy_for(port, network_policy_id)
    if policy_id is None:
        return Obeyed()
    found: dict[str, list[QosRule]] = {}
    for row in of_policies(conn, [policy_id]).get(policy_id, ()):
        found.setdefault(row.type, []).append(row)
    marks = found.get(MARKING.name)
    limits, packets = found.get(BANDWIDTH.name, ()), found.get(PACKETS.name, ())
    return Obeyed(
        tuple(BandwidthLimit(row.direction, row.value, row.burst) for row in limits if row.value),
        tuple(PacketLimit(row.direction, row.value, row.burst) for row in packets if row.value),
        tuple(Guarantee(row.direction, row.value) for row in found.get(GUARANTEED.name, ())),
        marks[0].value if marks else None,
    )


def limits_of(conn: Connection, policy_id: str | None) -> tuple[BandwidthLimit, ...]:
    """The bandwidth limits of a policy."""
    if policy_id is None:
        return ()
    return tuple(
        BandwidthLimit(row.direction, row.value, row.burst)
        for row in of_policies(conn, [policy_id]).get(policy_id, ())
        if row.type == BANDWIDTH.name and row.value
    )


def policy_for(port: Port, network_policy_id: str | None) -> str | None:
    """A network's policy applies to what is plugged into it, and not to the network's own devices."""
    if port.qos_policy_id is not None or port_security.is_network_owned(port.device_owner):
        return port.qos_policy_id
    return network_policy_id


def _have(policy_id: str) -> ColumnElement[bool]:
    on_networks = Port.network_id.in_(select(Network.id).where(Network.qos_policy_id == policy_id))
    return or_(Port.qos_policy_id == policy_id, and_(_follow_their_network(), on_networks))


def _follow_their_network() -> ColumnElement[bool]:
    prefixes = port_security.OWNED_BY_THE_NETWORK
    network_owned = or_(*(Port.device_owner.startswith(prefix, autoescape=True) for prefix in prefixes))
    return and_(Port.qos_policy_id.is_(None), not_(network_owned))


def _ensure_ports(conn: Connection, which: ColumnElement[bool], by: Origin) -> None:
    """Update the ports that a driver holds, or is about to."""
    query = select(Port.id).where(which, or_(Port.realised.is_(True), Port.host != "")).order_by(Port.id)
    for port_id in conn.scalars(query):
        tasks.submit_once(conn, kinds.ENSURE_PORT, port_id, by)
