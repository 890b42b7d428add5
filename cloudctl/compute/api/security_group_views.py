"""Security groups and their rules, as the compute API has always shown them. Reference: compute.md, 8.6 and 17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudctl.db import Connection
from cloudctl.network import security_groups
from cloudctl.network.tables import SecurityGroup, SecurityGroupRule

WITH_PORTS = ("tcp", "udp")
ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}


def groups(conn: Connection, rows: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    """As the compute API shows them: with the rules for incoming traffic, as it knew no others."""
    rules = security_groups.rules_of(conn, [row.id for row in rows])
    known = _named(conn, [rule for of_group in rules.values() for rule in of_group])
    return [
        {
            "id": row.id,
            "name": row.name,
            "description": row.description,
            "tenant_id": row.project_id,
            "rules": [_rule(each, known) for each in rules.get(row.id, ()) if each.direction == "ingress"],
        }
        for row in rows
    ]


def rule(conn: Connection, record: SecurityGroupRule) -> dict[str, Any]:
    return _rule(record, _named(conn, [record]))


def _named(conn: Connection, rules: Sequence[SecurityGroupRule]) -> Mapping[str, SecurityGroup]:
    """The groups that these rules name as sources, by their ids."""
    return security_groups.by_ids(conn, [each.remote_group_id for each in rules if each.remote_group_id is not None])


def _rule(rule: SecurityGroupRule, known: Mapping[str, SecurityGroup]) -> dict[str, Any]:
    """`known`: the groups that rules name, by their ids."""
    first, last = rule.port_range_min, rule.port_range_max
    if rule.protocol and first is None and last is None:
        first, last = (1, 65535) if rule.protocol in WITH_PORTS else (-1, -1)
    source: dict[str, Any] = {"group": {}, "ip_range": {}}
    if rule.remote_group_id is not None:
        group = known[rule.remote_group_id]
        source["group"] = {"name": group.name, "tenant_id": group.project_id}
    else:
        source["ip_range"] = {"cidr": rule.remote_ip_prefix or ANYWHERE[rule.ethertype]}
    return {
        "id": rule.id,
        "parent_group_id": rule.security_group_id,
        "ip_protocol": rule.protocol,
        "from_port": first,
        "to_port": last,
        **source,
    }
