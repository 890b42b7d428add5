"""Rows of any table of networking, as many as wanted: each refers to those of the same number in other tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, ColumnDefault, DateTime, Integer, Table, UniqueConstraint, insert

from cloudctl.db import Connection
from cloudctl.rest.ways import USUAL

WHEN = datetime(2026, 1, 1)
# What all rows have in a column, where nothing else is needed and no usual value is declared: as in real life.
COMMON: dict[str, Any] = {
    "description": "",
    "status": "ACTIVE",
    "mtu": 1450,
    "network_type": "vxlan",
    "direction": "ingress",
    "ethertype": "IPv4",
    "physical_network": "",
    "cidr": "10.0.0.0/24",
    "gateway_ip": "10.0.0.1",
    "protocol": "tcp",
    "device_owner": "compute:nova",
    "host": "h",
    "name": "common",
    "network_project_id": "",
    "revision": 1,
}  # fmt: skip
# What each has of its own, although nothing says that two may not have the same.
OWN = {"network_agents": {"host"}, "ports": {"device_id", "mac_address"}, "rbac_policies": {"object_id"}}


def common(column: Column[Any]) -> Any:
    """What very many rows have in a column. None: nothing is known of it, or nothing is there."""
    usual = column.info.get(USUAL)
    return COMMON.get(column.name) if usual is None else usual


def identifier(number: int) -> str:
    """Ids that lie about in any order, the 63rd in the middle."""
    return f"{number * 7919 % 1_000_003:036d}"


def crowd(conn: Connection, tables: Iterable[Table], first: int, most: int) -> None:
    """Rows of these tables, which are in the order of their references; half of project demo, half of others."""
    for table in tables:
        unique = {
            column.name for each in table.constraints if isinstance(each, UniqueConstraint) for column in each.columns
        } | OWN.get(table.name, set())
        conn.execute(insert(table), [_row(table, unique, number) for number in range(first, most)])


def _row(table: Table, unique: set[str], number: int) -> dict[str, Any]:
    return {column.name: _value(table, column, column.name in unique, number) for column in table.c}


def _value(table: Table, column: Column[Any], unique: bool, number: int) -> Any:
    if column.name == "project_id":
        return "demo" if number % 2 else f"p{number % 97}"
    if column.primary_key or (column.foreign_keys and not column.nullable):
        return identifier(number)
    if unique:
        return number if isinstance(column.type, Integer) else f"{column.name}{number}"
    if (usual := common(column)) is not None:
        return usual
    if isinstance(column.type, DateTime):
        return WHEN + timedelta(seconds=number)
    if isinstance(default := column.default, ColumnDefault):
        return default.arg(None) if default.is_callable else default.arg
    return None if column.nullable else 1 if isinstance(column.type, Integer) else "x"
