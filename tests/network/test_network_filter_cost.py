"""No filter and no sort key makes a page go through all there is, whoever asks. SQLite's own steps are counted.

Generated from the declarations. What is left out, and why, is in docs/internals.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Boolean, DateTime, Integer, Table

from cloudctl.network import list_indexes as list_indexes  # which are there once they are declared
from cloudctl.network.api.resource import Declared
from tests.network.conftest import Neutron
from tests.network.crowds import common, crowd
from tests.network.test_network_lists import RESOURCES
from tests.network.test_network_page_cost import counted

# What the configuration and the hosts have is no table that grows.
LISTED = [each for each in RESOURCES if each.plural not in ("agents", "network_segment_ranges")]
ROWS = 2_000
# To look at a row takes SQLite three steps or more.
MOST = 2 * ROWS
EXEMPT = {
    "": {"changed_since", "revision_number", "updated_at"},
    "networks": {"availability_zone_hints"},
    "subnets": {"router:external", "shared"},
    "security_group_rules": {"belongs_to_default_sg", "normalized_cidr"},
}

# Filters that belong to no column.
OF_NO_COLUMN = {"shared": "true", "fixed_ips": "ip_address=10.0.0.2", "ip_version": "7"}


def with_parents(table: Table) -> list[Table]:
    """The table behind those that its rows refer to."""
    found: list[Table] = []
    for column in table.c:
        for reference in column.foreign_keys:
            if reference.column.table is not table and not column.nullable:
                found += [each for each in with_parents(reference.column.table) if each not in found]
    return [*found, table]


def values(declared: Declared[Any], name: str) -> list[str]:
    """Of a filter: what no row has, and what very many have."""
    column = next((each.column for each in declared.attributes if each.name == name), None)
    if column is None:
        return [OF_NO_COLUMN.get(name, "nobody")]
    if isinstance(column.type, Boolean):
        return ["true", "false"]
    if isinstance(column.type, DateTime):
        return ["2025-01-01T00:00:00", "2026-01-01T00:01:03"]
    many = [] if common(column) is None else [str(common(column))]
    return [*(["7"] if isinstance(column.type, Integer) else ["nobody"]), *many]


def queries(declared: Declared[Any]) -> Iterator[str]:
    exempt = EXEMPT[""] | EXEMPT.get(declared.plural, set())
    described = declared.collection
    yield ""
    for name in (*described.listing.filters, *described.of_caller):
        if name not in exempt:
            yield from (f"&{name}={value}" for value in values(declared, name))
    for number, name in enumerate(described.listing.sort_keys):
        if name not in exempt:
            yield f"&sort_key={name}&sort_dir={('asc', 'desc')[number % 2]}"


@pytest.mark.parametrize("declared", LISTED, ids=lambda each: each.plural)
def test_a_page_does_not_go_through_the_table(neutron: Neutron, declared: Declared[Any]) -> None:
    neutron.get("/security-groups")
    neutron.get("/security-groups", "admin")
    # Something that everybody sees: what one sees has two reasons.
    neutron.external()
    tables = with_parents(declared.record.table)
    neutron.transact(crowd, tables, 0, ROWS)
    slow = {}
    for user in ("admin", "demo"):
        if neutron.ask("GET", declared.path, user=user).status == 403:
            continue
        for query in queries(declared):
            path = f"{declared.path}?limit=5{query}"
            found = counted(neutron, partial(neutron.get, path, user), 20)
            if found * 20 > MOST:
                slow[path, user] = found * 20
    assert not slow, f"declare indexes of {declared.record.__name__} in network/list_indexes.py: {slow}"
