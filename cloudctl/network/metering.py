"""Metering: which traffic through a project's routers is counted. Neutron's extension `metering`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_network

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, or_, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.network_specs import Meter, MeterRule
from cloudctl.errors import Conflict
from cloudctl.network import kinds, standard
from cloudctl.network.extension_tables import MeteringLabel, MeteringRule
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Router
from cloudctl.tasks import Origin

LABELS = Owned(MeteringLabel, "Metering label {} does not exist", "MeteringLabelNotFound")
RULES = Owned(MeteringRule, "Metering label rule {} does not exist", "MeteringLabelRuleNotFound")

# Built once: building a statement costs more than running it.
_rules = select(MeteringRule).where(MeteringRule.metering_label_id == bindparam("label")).order_by(MeteringRule.id)
_drop_rules = delete(MeteringRule).where(MeteringRule.metering_label_id == bindparam("label"))
_labels = (
    select(MeteringLabel)
    .where(or_(MeteringLabel.project_id == bindparam("project"), MeteringLabel.shared.is_(True)))
    .order_by(MeteringLabel.id)
)
# Whether anything is counted on a router: to be queried together with the router.
any_of_router = (
    select(MeteringLabel.id)
    .where(or_(MeteringLabel.project_id == Router.project_id, MeteringLabel.shared.is_(True)))
    .exists()
)
_routers = select(Router.id).order_by(Router.id)


@frozen
class NewLabel:
    name: str = ""
    description: str = ""
    shared: bool = False


@frozen
class NewRule:
    """Traffic from or to outside addresses: in `remote`, or from `source` to `destination`; any where none is given."""

    direction: str
    remote_ip_prefix: str | None = None
    source_ip_prefix: str | None = None
    destination_ip_prefix: str | None = None
    excluded: bool = False


def create(conn: Connection, project_id: str, new: NewLabel, now: datetime) -> MeteringLabel:
    return standard.insert(conn, MeteringLabel(**standard.new(project_id, now, **asdict(new))))


def remove(conn: Connection, label: MeteringLabel, by: Origin) -> None:
    """Delete a locked label with its rules."""
    conn.execute(_drop_rules, {"label": label.id})
    LABELS.delete(conn, label)
    _follow(conn, label, by)


def add_rule(conn: Connection, label: MeteringLabel, new: NewRule, now: datetime, by: Origin) -> MeteringRule:
    """Add a rule to a locked label. Raises Conflict if it overlaps with another one of the same kind."""
    made = MeteringRule(
        **standard.new(label.project_id, now, **asdict(new)),
        metering_label_id=label.id,
    )
    for row in conn.execute(_rules, {"label": label.id}):
        same = (row.direction, row.excluded) == (made.direction, made.excluded)
        if same and all(_meet(one, other) for one, other in zip(_prefixes(row), _prefixes(made), strict=True)):
            message = f"Metering label rule with remote_ip_prefix '{made.remote_ip_prefix}' overlaps another."
            raise Conflict(message, type="MeteringLabelRuleOverlaps")
    standard.insert(conn, made)
    _follow(conn, label, by)
    return made


def remove_rule(conn: Connection, rule: MeteringRule, by: Origin) -> None:
    """Delete a locked rule."""
    RULES.delete(conn, rule)
    _follow(conn, LABELS.get(conn, rule.metering_label_id), by)


def _prefixes(rule: MeteringRule) -> tuple[str | None, str | None, str | None]:
    return rule.remote_ip_prefix, rule.source_ip_prefix, rule.destination_ip_prefix


def _meet(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one == other
    first, second = ip_network(one), ip_network(other)
    return first.version == second.version and first.overlaps(second)


def _follow(conn: Connection, label: MeteringLabel, by: Origin) -> None:
    """Update the routers that the label counts on."""
    query = _routers if label.shared else _routers.where(Router.project_id == label.project_id)
    for router_id in conn.scalars(query).all():
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, router_id, by)


# -- the driver


def driver_specs(conn: Connection, project_id: str) -> tuple[Meter, ...]:
    """What is counted on a project's routers. Labels without rules count nothing."""
    found = []
    for label in conn.execute(_labels, {"project": project_id}).all():
        rules: Sequence[MeteringRule] = conn.execute(_rules, {"label": label.id}).all()
        if rules:
            found.append(Meter(label.id, tuple(MeterRule(r.direction, *_prefixes(r), r.excluded) for r in rules)))
    return tuple(found)
