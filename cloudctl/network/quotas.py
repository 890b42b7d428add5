"""Limits of a project. Reference: network.md, section 12.

Code that needs several rows locks them in this order, to avoid deadlocks: routers; networks; ports, of which those that
carry others come first, then their trunks, and then what they carry; the project's turn (`rest.quota.turn`); and then
subnets, floating IPs, security groups with their rules and address groups, to which creation comes last. Several of one
sort are locked in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
    Standard,
    Subnet,
    SubnetPool,
    Trunk,
)
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas

R = TypeVar("R", bound=Standard)


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


def after_turn(
    conn: Connection,
    caller: Caller,
    id: str,
    visible: Callable[..., R],
    before: Callable[[Connection, R], None] | None = None,
    between: Callable[[Connection, R], None] | None = None,
) -> R:
    """A record that is locked after its project's turn, for deletion and the like. Raises what `visible` raises.

    `before(conn, record)` takes the locks that precede the turn, `between` those between it and the record's.
    SQLite has one writer, who needs no order.
    """
    if conn.dialect.name != "sqlite":
        seen = visible(conn, caller, id)
        if before is not None:
            before(conn, seen)
        gives_back(conn, seen.project_id)
        if between is not None:
            between(conn, seen)
    return visible(conn, caller, id, lock=True)
