"""A transaction that the database gives up, as for a deadlock, is run again: with all that the request said.

Here each is run twice, and what the first run did is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from cloudctl.db.connection import Connection
from cloudctl.db.database import Database
from cloudctl.rest.call import Call
from tests.generated.world import World
from tests.hostile.tenants import Tenant, ask, settled
from tests.hostile.wishes import WISHES


def said(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """What a transaction is given, as it is now."""
    found = [each for each in (*args, *kwargs.values()) if not isinstance(each, Call)]
    return [repr(each) for each in found if isinstance(each, dict | list | tuple | set) or attrs.has(type(each))]


@pytest.fixture(scope="module")
def spoilt() -> Iterator[list[str]]:
    """Transactions that have changed what they were given, since the test took the last ones away."""
    found: list[str] = []
    once = Database._once

    def twice(db: Database, read_only: bool, fn: Any, args: Any, kwargs: Any) -> Any:
        if not read_only and not isinstance(fn, partial):
            held = db.connections.get()
            before = said(args, kwargs)
            held.begin(read_only)
            try:
                fn(Connection(held, db.clock, read_only, db.wishes), *args, **kwargs)
            finally:
                held.rollback()
            found.extend(
                f"{fn.__qualname__}: {old} → {new}"
                for old, new in zip(before, said(args, kwargs), strict=True)
                if old != new
            )
        return once(db, read_only, fn, args, kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_once", twice)
        yield found


@pytest.fixture(scope="module")
def world(spoilt: list[str]) -> World:
    return World()


@pytest.fixture(scope="module")
def mine(world: World) -> Tenant:
    return settled(world)[0]


def test_one_of_each_kind_is_made(spoilt: list[str], world: World) -> None:
    assert spoilt == []


def test_what_tenants_wish_for_is_granted(spoilt: list[str], world: World, mine: Tenant) -> None:
    for wish in WISHES:
        answer = ask(mine, wish)
        assert answer.status < 300 or not wish.granted, (wish, answer)
        world.restore()
    assert spoilt == []


def test_what_administrators_change_is_changed(spoilt: list[str], world: World) -> None:
    for path, key, change in (
        (f"/identity/v3/domains/{world.elsewhere}", "domain", {"tags": ["red"], "description": "x"}),
        (
            world.fill("networking", "/v2.0/flavors/<flavor_id>"),
            "flavor",
            {"service_profiles": [world.ids["networking", "service_profile_id"]], "name": "x"},
        ),
    ):
        answer = world.admin.request("PATCH" if key == "domain" else "PUT", path, {key: change})
        assert {name: answer.json()[key][name] for name in change} == change
        assert spoilt == []
