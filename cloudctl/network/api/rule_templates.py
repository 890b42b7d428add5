"""`/default-security-group-rules`. Reference: network.md, section 9."""

from __future__ import annotations

from typing import Any, Literal

from cloudctl.db import Connection
from cloudctl.network import address_groups, rule_templates, security_groups
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import NAMED_OWNER, Flag, LongText
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.security_group_rules import Port, Word
from cloudctl.network.rule_templates import PARENT, NewTemplate
from cloudctl.network.rules import NewRule
from cloudctl.network.tables import RuleTemplate
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> RuleTemplate:
    for_default, for_others = values.pop("used_in_default_sg"), values.pop("used_in_non_default_sg")
    if values["remote_group_id"] not in (None, PARENT):
        security_groups.RECORDS.usable(conn, call.caller, values["remote_group_id"])
    if values["remote_address_group_id"] is not None:
        address_groups.RECORDS.usable(conn, call.caller, values["remote_address_group_id"])
    ethertype = "IPv4" if values["ethertype"] is None else values["ethertype"]
    rule = NewRule(**{**values, "ethertype": ethertype, "description": values["description"] or ""})
    return rule_templates.create(conn, NewTemplate(rule, for_default, for_others), call.now)


def remove(conn: Connection, call: Call, template: RuleTemplate) -> None:
    rule_templates.remove(conn, template)


def may_remove(call: Call, template: RuleTemplate) -> None:
    """It belongs to no project: only the Operation's own rule counts."""
    call.require("network:default_security_group_rules:delete")


_c = RuleTemplate
RULE_TEMPLATES = Declared(
    name="default_security_group_rule",
    path="/default-security-group-rules",
    noun="a rule that new security groups have",
    id="template_id",
    record=RuleTemplate,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("direction", _c.direction, Literal["ingress", "egress"], post=REQUIRED, filter=any_of, sort=True),
        Attribute("ethertype", _c.ethertype, Word | None, post=None, filter=any_of, sort=True),
        Attribute("protocol", _c.protocol, Word | int | None, post=None, filter=any_of, sort=True),
        Attribute("port_range_min", _c.port_range_min, Port | None, post=None, filter=number, sort=True),
        Attribute("port_range_max", _c.port_range_max, Port | None, post=None, filter=number, sort=True),
        Attribute("remote_ip_prefix", _c.remote_ip_prefix, Word | None, post=None, filter=any_of, sort=True),
        Attribute("remote_group_id", _c.remote_group_id, Word | None, post=None, filter=any_of, sort=True),
        Attribute(
            "remote_address_group_id", _c.remote_address_group_id, Word | None, post=None, filter=any_of, sort=True
        ),
        Attribute("used_in_default_sg", _c.used_in_default_sg, Flag, post=False, filter=lists.truths, sort=True),
        Attribute("used_in_non_default_sg", _c.used_in_non_default_sg, Flag, post=True, filter=lists.truths, sort=True),
        Attribute("description", _c.description, LongText | None, post="", filter=any_of, sort=True),
        *NAMED_OWNER,
    ),
    visible=rule_templates.visible,
    visible_to=rule_templates.visible_to,
    not_found=rule_templates.not_found,
    create=create,
    may_remove=may_remove,
    remove=remove,
    says={
        "list": "List the rules that new security groups have.",
        "delete": "Delete a rule that new security groups have; those that there are keep theirs.",
    },
)
