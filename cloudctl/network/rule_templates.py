"""Which rules a new security group has: templates set by administrators. Reference: network.md, section 9.

`PARENT` as the remote group means the group that the rule is made in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import bindparam, delete, false, or_, select, true

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.network import standard
from cloudctl.network.owned import Owned
from cloudctl.network.rules import NewRule, columns
from cloudctl.network.tables import RuleTemplate, SecurityGroup
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition

PARENT = "PARENT"
RECORDS = Owned(RuleTemplate, "Default security group rule {} does not exist", "DefaultSecurityGroupRuleNotFound")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found

# Built once: building a statement costs more than running it.
_all = select(RuleTemplate).order_by(RuleTemplate.created_at, RuleTemplate.id)
_group = select(SecurityGroup.id).limit(1)
_forget = delete(RuleTemplate).where(RuleTemplate.remote_group_id == bindparam("group"))


@frozen
class NewTemplate:
    """For the `default` group of projects, for their other groups, or for both."""

    rule: NewRule
    used_in_default_sg: bool = False
    used_in_non_default_sg: bool = True


_OUT, _IN = "Legacy default SG rule for egress traffic", "Legacy default SG rule for ingress traffic"
SHIPPED = (
    *(NewTemplate(NewRule("egress", family, description=_OUT), True, True) for family in ("IPv4", "IPv6")),
    *(
        NewTemplate(NewRule("ingress", family, remote_group_id=PARENT, description=_IN), True, False)
        for family in ("IPv4", "IPv6")
    ),
)
"""Of a new cloud: everything goes out, and the members of a project's `default` group let each other in."""


def visible_to(conn: Connection, caller: Caller) -> Condition:
    """Everybody sees which rules their groups will get."""
    return true()


def visible(conn: Connection, caller: Caller, id: str, lock: bool = False) -> RuleTemplate:
    """Raises NotFound. `lock`: nobody else removes it in this transaction."""
    return get(conn, id, lock=lock)


def create(conn: Connection, new: NewTemplate, now: datetime) -> RuleTemplate:
    """Raises Invalid, and Conflict if an equivalent one exists for the same groups."""
    said = columns(new.rule)
    used = new.used_in_default_sg, new.used_in_non_default_sg
    columns_used = RuleTemplate.used_in_default_sg, RuleTemplate.used_in_non_default_sg
    same = [column.is_(True) for column, wanted in zip(columns_used, used, strict=True) if wanted]
    alike = select(RuleTemplate.id).where(RuleTemplate.meaning == said["meaning"], or_(false(), *same)).limit(1)
    existing = conn.scalar(alike)
    if existing is not None:
        message = f"Default security group rule already exists. Rule id is {existing}."
        raise Conflict(message, type="DefaultSecurityGroupRuleExists")
    made = RuleTemplate(
        **standard.new("", now, **said),
        used_in_default_sg=new.used_in_default_sg,
        used_in_non_default_sg=new.used_in_non_default_sg,
    )
    return standard.insert(conn, made)


def remove(conn: Connection, template: RuleTemplate) -> None:
    """Delete a template; existing groups keep their rules."""
    RECORDS.delete(conn, template)


def forget_group(conn: Connection, group_id: str) -> None:
    """The locked group is about to be deleted: no new group can have a rule that names it."""
    conn.execute(_forget, {"group": group_id})


def write_shipped(conn: Connection, now: datetime) -> None:
    """Write the templates of a new cloud."""
    if conn.scalar(_group) is None and conn.execute(_all).first() is None:
        for each in SHIPPED:
            create(conn, each, now)


def rules_of_new(conn: Connection, group_id: str, is_default: bool) -> Sequence[dict[str, Any]]:
    """The columns of the rules of a new group."""
    used = (row for row in conn.execute(_all) if (row.used_in_default_sg if is_default else row.used_in_non_default_sg))
    return [columns(_of_group(rule_of(row), group_id)) for row in used]


def rule_of(row: RuleTemplate) -> NewRule:
    return NewRule(
        row.direction,
        row.ethertype,
        row.protocol,
        row.port_range_min,
        row.port_range_max,
        row.remote_ip_prefix,
        row.remote_group_id,
        row.remote_address_group_id,
        row.description,
    )


def _of_group(rule: NewRule, group_id: str) -> NewRule:
    return evolve(rule, remote_group_id=group_id) if rule.remote_group_id == PARENT else rule
