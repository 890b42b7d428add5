"""What is kept of servers for their pages is never older than the servers."""

from __future__ import annotations

import orjson
import pytest
from sqlalchemy import select, update

from cloudctl.compute.api import server_pages
from cloudctl.compute.api.server_pages import ServerPages
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.work import counted


def rows_read(cloud: MemoryCloud, demo: Asking) -> list[str]:
    with counted(cloud) as work:
        demo.get("/servers/detail", LATEST)
    return [statement for statement in work.statements if "servers.hostname" in statement]


def test_a_row_is_read_again_only_after_it_has_changed(demo: Asking, cloud: MemoryCloud) -> None:
    first, second = demo.boot(name="first"), demo.boot(name="second")
    assert len(rows_read(cloud, demo)) == 1
    assert rows_read(cloud, demo) == []
    demo.put(f"/servers/{first}", {"server": {"name": "other"}})
    (read,) = rows_read(cloud, demo)
    assert first in read
    assert second not in read


def test_a_page_shows_each_server_as_it_is_shown_alone(demo: Asking, admin: Asking) -> None:
    server_id = demo.boot()
    for asking, query in ((demo, ""), (admin, "?all_tenants=1")):
        for version in ("2.1", "2.16", LATEST):
            for _ in range(2):
                (shown,) = asking.get(f"/servers/detail{query}", version).json()["servers"]
                alone = asking.get(f"/servers/{server_id}", version).json()["server"]
                alone.pop("server_groups", None)
                assert shown == alone


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"description": "new"},
        {"accessIPv4": "192.0.2.1"},
    ],
)
def test_a_change_is_seen_at_once(demo: Asking, change: dict[str, str]) -> None:
    server_id = demo.boot()
    demo.get("/servers/detail", LATEST)
    demo.put(f"/servers/{server_id}", {"server": change}, LATEST)
    (shown,) = demo.get("/servers/detail", LATEST).json()["servers"]
    assert change.items() <= shown.items()


def test_every_update_raises_the_revision(demo: Asking, cloud: MemoryCloud) -> None:
    demo.boot()

    def revision(conn: Connection) -> int:
        return conn.execute(select(Server.revision)).scalar_one()

    before = cloud.db.transact(True, revision)
    cloud.db.transact(False, lambda conn: conn.execute(update(Server).values(power_state=4)))
    assert cloud.db.transact(True, revision) == before + 1


def test_what_is_kept_has_a_bound() -> None:
    pages, shape = ServerPages(3000), server_pages.Shape("http://here", (2, 1), False, False)
    for number in range(100):
        pages._keep(shape, {str(number): (0, orjson.dumps("x" * 100))})
        assert pages.size <= 3000
        assert pages.size == sum(
            len(text) + server_pages.KEY_BYTES for kept in pages._kept.values() for _, text in kept.values()
        )
    pages._keep(shape, {"99": (1, b"y")})
    assert pages.size == sum(
        len(text) + server_pages.KEY_BYTES for kept in pages._kept.values() for _, text in kept.values()
    )
