"""Limits of a project. Reference: network.md, section 12."""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.db.totals import total
from cloudctl.network.tables import (
    FloatingIp,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
    Trunk,
)
from cloudctl.rest import quota
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas


def _told(resource: str, asked: int, used: int, limit: int) -> str:
    return f"Quota exceeded for resources: ['{resource}']."


QUOTAS = Quotas(
    "network",
    (
        Limited("network", 100, total(Network.table.name)),
        Limited("subnet", 100, total(Subnet.table.name)),
        Limited("port", 500, total(Port.table.name)),
        Limited("router", 10, total(Router.table.name)),
        Limited("floatingip", 50, total(FloatingIp.table.name)),
        Limited("security_group", 10, total(SecurityGroup.table.name)),
        Limited("security_group_rule", 100, total(SecurityGroupRule.table.name)),
        Limited("rbac_policy", 10, total(RbacPolicy.table.name)),
        Limited("trunk", UNLIMITED, total(Trunk.table.name)),
        Limited("subnetpool", UNLIMITED, total(SubnetPool.table.name)),
    ),
    _told,
)


def gives_back(conn: Connection, project_id: str) -> None:
    """Take the project's turn before deleting something of it: see `rest.quota.turn`. Without a project, none."""
    if project_id:
        quota.turn(conn, QUOTAS, project_id)
