"""What `Catalogs` keeps: shared by all who see the same, never older than a change, and bounded."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import update
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.db import Connection
from cloudctl.identity import catalogs, epoch
from cloudctl.identity.catalog import Viewer
from cloudctl.identity.catalogs import Catalogs
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.tables import Endpoint

from .conftest import CHEAP, START, make_keystone
from .test_token_cache import in_this_thread, statements


@pytest.fixture
def kept(keystone: Any) -> Catalogs:
    return Catalogs(keystone.db)


def viewer(user: str = "u", project: str = "p", base_url: str = "http://c", ha_url: str = "http://h") -> Viewer:
    return Viewer(user, project, base_url, ha_url)


def json(kept: Catalogs, wanted: Viewer, known: int | None = None) -> bytes:
    """Everything is synchronous here."""
    found: list[Any] = []
    ensureDeferred(kept.json(wanted, known)).addBoth(found.append)
    return orjson.dumps(found[0])


def point(keystone: Any, url: str) -> None:
    """All endpoints there."""

    def write(conn: Connection) -> None:
        conn.execute(update(Endpoint).values(url=url))

    keystone.db.transact(False, write)


def test_a_catalog_is_read_once_for_all_who_see_the_same(keystone: Any, kept: Catalogs) -> None:
    first = json(kept, viewer())
    seen = statements(keystone.db)
    assert json(kept, viewer("another")) == first
    assert seen == []
    assert b"http://d/identity" in json(kept, viewer(base_url="http://d"))
    assert seen


@pytest.mark.parametrize("name", ["user_id", "project_id", "tenant_id"])
def test_those_whom_a_template_tells_apart_have_catalogs_of_their_own(keystone: Any, kept: Catalogs, name: str) -> None:
    point(keystone, f"{{base_url}}/$({name})s")
    assert b"http://c/me" in json(kept, viewer("me", "me"))
    assert b"http://c/you" in json(kept, viewer("you", "you"))


def test_one_without_a_project_does_not_get_the_catalog_of_one_with(keystone: Any, kept: Catalogs) -> None:
    point(keystone, "{base_url}/$(project_id)s")
    with_project, without = json(kept, viewer()), json(kept, viewer(project=""))
    assert b"http://c/p" in with_project
    assert b"http://c/" not in without


def test_a_project_with_chosen_endpoints_has_a_catalog_of_its_own(keystone: Any) -> None:
    admin = keystone.admin()
    mine = keystone.made.admin_project_id
    endpoints = keystone.ask("GET", "/endpoints", token=admin).json()["endpoints"]

    def shown(token: str) -> int:
        return sum(len(one["endpoints"]) for one in keystone.ask("GET", "/auth/catalog", token=token).json()["catalog"])

    demo = keystone.login("demo", scope="demo")
    assert shown(admin) == shown(demo) == len(endpoints)
    path = f"/OS-EP-FILTER/projects/{mine}/endpoints/{endpoints[0]['id']}"
    assert keystone.ask("PUT", path, token=admin).status == 204
    assert (shown(keystone.admin()), shown(demo)) == (1, len(endpoints))
    assert keystone.ask("DELETE", path, token=keystone.admin()).status == 204
    assert (shown(keystone.admin()), shown(demo)) == (len(endpoints), len(endpoints))


def test_a_commit_that_changes_an_endpoint_ends_what_was_kept(keystone: Any, kept: Catalogs) -> None:
    assert b"http://new" not in json(kept, viewer())
    point(keystone, "http://new/x")
    assert b"http://new" in json(kept, viewer())


def test_what_is_kept_is_bounded_with_its_keys(keystone: Any, kept: Catalogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "MOST_BYTES", 100_000)
    monkeypatch.setattr(catalogs, "LARGEST", 50_000)
    for number in range(100):
        json(kept, viewer(base_url=f"http://c{number}"))
        assert kept._size <= 100_000
    assert 1 < len(kept._kept) < 100
    assert kept._size == sum(catalogs._bytes(key, one) for key, one in kept._kept.items())
    before = len(kept._kept)
    assert json(kept, viewer(base_url="http://" + "x" * 50_000))
    assert len(kept._kept) == before


def test_another_process_sees_a_change_by_the_epoch(postgresql_with_tables: str) -> None:
    clock = Clock()
    clock.advance(START)
    one = in_this_thread(postgresql_with_tables, clock)
    keystone = make_keystone(one, clock, IdentityOptions(argon2=CHEAP))
    admin, other = keystone.admin(), in_this_thread(postgresql_with_tables, clock)
    kept, before = Catalogs(other), one.transact(True, epoch.current)
    assert b"http://new" not in json(kept, viewer(), before)
    seen = statements(other)
    assert json(kept, viewer(), before)
    assert seen == []
    endpoint = keystone.ask("GET", "/endpoints", token=admin).json()["endpoints"][0]["id"]
    changed = keystone.ask("PATCH", f"/endpoints/{endpoint}", {"endpoint": {"url": "http://new/x"}}, admin)
    assert changed.status == 200, changed
    assert b"http://new" in json(kept, viewer(), one.transact(True, epoch.current))
    one.close()
    other.close()
