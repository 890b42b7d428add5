"""Limits of a project. Reference: network.md, section 12."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Table, bindparam, func, select

from cloudctl.network.tables import (
    floating_ips,
    networks,
    ports,
    routers,
    security_group_rules,
    security_groups,
    subnets,
)
from cloudctl.rest.quota import Limited, Quotas


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
        Limited("network", 100, _rows(networks)),
        Limited("subnet", 100, _rows(subnets)),
        Limited("port", 500, _rows(ports)),
        Limited("router", 10, _rows(routers)),
        Limited("floatingip", 50, _rows(floating_ips)),
        Limited("security_group", 10, _rows(security_groups)),
        Limited("security_group_rule", 100, _rows(security_group_rules)),
    ),
    _told,
)
