"""A page of servers costs the same number of statements however many servers it shows."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.work import Work, counted


def asked(work: Work) -> list[str]:
    """Without what the token takes."""
    return [statement for statement in work.statements if "identity" not in statement]


def test_the_number_of_statements_does_not_depend_on_the_number_of_servers(demo: Asking, cloud: MemoryCloud) -> None:
    counts = []
    for number in range(3):
        demo.boot(name=f"vm{number}")
        with counted(cloud) as work:
            assert len(demo.get("/servers/detail", LATEST).json()["servers"]) == number + 1
        counts.append(len(asked(work)))
    assert len(set(counts)) == 1
    # The page, its ports and their editions; of those that are new the rows, addresses, groups and volumes.
    assert 1 <= counts[0] <= 8
    with counted(cloud) as work:
        demo.get("/servers/detail?limit=100", LATEST)
    assert len(asked(work)) == 2


def test_one_server_is_at_most_eight_statements(demo: Asking, cloud: MemoryCloud) -> None:
    server_id = demo.boot()
    with counted(cloud) as work:
        demo.server(server_id, "2.101")
    assert 1 <= len(asked(work)) <= 8, work
    with counted(cloud) as work:
        demo.get(f"/servers/{server_id}?again", "2.101")
    assert len(asked(work)) == 2


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("project_id = 'p' AND deleted_at IS NULL ORDER BY created_at DESC, id DESC", "ix_servers_project"),
        ("deleted_at IS NULL ORDER BY created_at DESC, id DESC", "ix_servers_created"),
        ("project_id = 'p' AND updated_at >= '2026' AND id <> ''", "ix_servers_updated"),
        ("host = 'h' AND deleted_at IS NULL", "ix_servers_host"),
    ],
)
def test_lists_are_read_from_an_index(cloud: MemoryCloud, query: str, index: str) -> None:
    plan = cloud.db.transact(
        True,
        lambda conn: [
            row[-1]
            for row in conn.execute(text(f"EXPLAIN QUERY PLAN SELECT id, name FROM servers WHERE {query} LIMIT 10"))
        ],
    )
    assert any(index in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
