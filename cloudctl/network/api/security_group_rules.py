"""`/security-group-rules`. Reference: network.md, section 9, «Rules»; there is no PUT."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from sqlalchemy import and_, bindparam, or_, select

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.network import address_groups, rules, security_groups
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import LATER_TAGS, Id, Text, standard
from cloudctl.network.api.resource import Declared, Wanted
from cloudctl.network.rules import NewRule
from cloudctl.network.standard import owner_of_new, rows
from cloudctl.network.tables import SecurityGroup, SecurityGroupRule
from cloudctl.rest.body import Length, Loose
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute, of_each

Word = Annotated[str, Length(0, 255)]
# A port number as sent; the domain reports what is wrong with it.
Port = Annotated[int, Loose()]

# Built once: building a statement costs more than running it.
_defaults = select(SecurityGroup.id).where(
    SecurityGroup.id.in_(bindparam("groups", expanding=True)), SecurityGroup.is_default
)


def of_default(conn: Connection, call: Call, records: Sequence[SecurityGroupRule]) -> list[bool]:
    group_ids = sorted({rule.security_group_id for rule in records})
    defaults = {id for (id,) in rows(conn, _defaults, groups=group_ids)}
    return [rule.security_group_id in defaults for rule in records]


_rule = SecurityGroupRule


def _of_network(values: Sequence[str]) -> Condition:
    """By the prefix with its host bits cleared: a rule's meaning ends with it, unless it matches every address."""
    found = [
        and_(_rule.ethertype == f"IPv{ip_network(value).version}", _rule.remote_ip_prefix.endswith("/0"))
        if value in rules.ANYWHERE
        else _rule.meaning.endswith(f" {value}", autoescape=True)
        for value in values
    ]
    return and_(_rule.remote_ip_prefix.is_not(None), or_(*found))


def _of_default_group(wanted: bool) -> Condition:
    defaults = select(SecurityGroup.id).where(SecurityGroup.is_default)
    return _rule.security_group_id.in_(defaults) if wanted else _rule.security_group_id.not_in(defaults)


ATTRIBUTES = (
    Attribute("id", _rule.id, filter=any_of, sort=True),
    Attribute("security_group_id", _rule.security_group_id, Id, post=REQUIRED, filter=any_of, sort=True),
    Attribute("direction", _rule.direction, Literal["ingress", "egress"], post=REQUIRED, filter=any_of, sort=True),
    Attribute("ethertype", _rule.ethertype, Word | None, post=None, filter=any_of, sort=True),
    Attribute("protocol", _rule.protocol, Word | int | None, post=None, filter=any_of, sort=True),
    Attribute("port_range_min", _rule.port_range_min, Port | None, post=None, filter=number, sort=True),
    Attribute("port_range_max", _rule.port_range_max, Port | None, post=None, filter=number, sort=True),
    Attribute("remote_ip_prefix", _rule.remote_ip_prefix, Word | None, post=None, filter=any_of, sort=True),
    Attribute("normalized_cidr", view=of_each(lambda rule: rules.normalized(rule.remote_ip_prefix))),
    # Anything that is not a UUID is unknown, like any other.
    Attribute("remote_group_id", _rule.remote_group_id, Word | None, post=None, filter=any_of, sort=True),
    Attribute(
        "remote_address_group_id", _rule.remote_address_group_id, Word | None, post=None, filter=any_of, sort=True
    ),
    Attribute("belongs_to_default_sg", view=of_default),
    *standard(_rule, description=Text | None, changeable=False, tags=LATER_TAGS),
)


def create_all(conn: Connection, call: Call, wanted: Sequence[Wanted]) -> list[SecurityGroupRule]:
    """Add rules to one group, all or none."""
    if len({each.values["security_group_id"] for each in wanted}) > 1:
        message = "Only allowed to update rules for one security profile at a time"
        raise Invalid(message, type="SecurityGroupNotSingleGroupRules")
    remote = [id for each in wanted if (id := each.values["remote_group_id"]) is not None]
    group = security_groups.in_turn(conn, call.caller, wanted[0].values["security_group_id"], remote)
    call.require(project_id=group.project_id)
    for each in wanted:
        if each.owner is not None:
            owner_of_new(call.caller, each.owner)
        if each.values["remote_group_id"] is not None:
            security_groups.RECORDS.usable(conn, call.caller, each.values["remote_group_id"])
        if each.values["remote_address_group_id"] is not None:
            address_groups.RECORDS.usable(conn, call.caller, each.values["remote_address_group_id"])
    return security_groups.add_rules(conn, group, [_new(each.values) for each in wanted], call.now, call.caller)


def _new(values: dict[str, Any]) -> NewRule:
    ethertype = "IPv4" if values["ethertype"] is None else values["ethertype"]
    said = {name: value for name, value in values.items() if name != "security_group_id"}
    return NewRule(**{**said, "ethertype": ethertype, "description": values["description"] or ""})


def remove(conn: Connection, call: Call, rule: SecurityGroupRule) -> None:
    security_groups.remove_rule(conn, rule, call.now, call.caller)


SECURITY_GROUP_RULES = Declared(
    name="security_group_rule",
    path="/security-group-rules",
    id="rule_id",
    record=SecurityGroupRule,
    attributes=ATTRIBUTES,
    filters={
        "normalized_cidr": _of_network,
        "belongs_to_default_sg": lists.truths_of("belongs_to_default_sg", _of_default_group),
    },
    visible=security_groups.visible_rule,
    visible_to=security_groups.rules_visible_to,
    not_found=security_groups.rule_not_found,
    create_all=create_all,
    to_remove=security_groups.rule_in_turn,
    remove=remove,
    says={
        "list": "List the rules of one's security groups.",
        "create": "Add a rule to a security group, or several to one.",
        "show": "Show a rule.",
        "delete": "Take a rule out of its group.",
    },
    pure=False,
)
