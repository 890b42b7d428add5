"""Limits of a project. Reference: network.md, section 12."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Table, bindparam, func, select

from cloudctl.db import Connection
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
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas


def _rows(table: Table) -> Callable[[Connection, str], int]:
    # Built once: building a statement costs more than running it.
    query = select(func.count()).select_from(table).where(table.c.project_id == bindparam("project"))

    def used(conn: Connection, project_id: str) -> int:
        return int(conn.execute(query, {"project": project_id}).scalar_one())

    return used


def _told(resource: str, asked: int, used: int, limit: int) -> str:
    return f"Quota exceeded for resources: ['{resource}']."


QUOTAS = Quotas(
    "network",
    (
        Limited("network", 100, _rows(Network.table)),
        Limited("subnet", 100, _rows(Subnet.table)),
        Limited("port", 500, _rows(Port.table)),
        Limited("router", 10, _rows(Router.table)),
        Limited("floatingip", 50, _rows(FloatingIp.table)),
        Limited("security_group", 10, _rows(SecurityGroup.table)),
        Limited("security_group_rule", 100, _rows(SecurityGroupRule.table)),
        Limited("rbac_policy", 10, _rows(RbacPolicy.table)),
        Limited("trunk", UNLIMITED, _rows(Trunk.table)),
        Limited("subnetpool", UNLIMITED, _rows(SubnetPool.table)),
    ),
    _told,
)
