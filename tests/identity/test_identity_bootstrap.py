"""The first records."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import text

from cloudctl.app import SERVICES
from cloudctl.db.columns import utc
from cloudctl.identity import projects
from cloudctl.identity.bootstrap import Seed, bootstrap, reset_admin
from tests.identity.conftest import password_request


def again(keystone: Any, **changes: Any) -> Any:
    hashing = keystone.hasher.hashing
    offered = tuple(entry for service in SERVICES for entry in service.catalog)
    seed = evolve(Seed(hashing.hash("other"), hashing.hash("other"), catalog=offered), **changes)
    return keystone.db.transact(False, bootstrap, seed, utc(keystone.clock.seconds()))


def rows(keystone: Any) -> dict[str, int]:
    def count(conn: Any) -> dict[str, int]:
        tables = [t for t in conn.dialect.get_table_names(conn.alchemy) if t.startswith("identity_")]
        return {t: conn.execute(text(f"SELECT count(*) FROM {t}")).scalar() for t in tables}

    found: dict[str, int] = keystone.db.transact(True, count)
    return found


def test_a_repetition_changes_nothing(keystone: Any) -> None:
    before = rows(keystone)
    token = keystone.login("admin", scope="admin")
    assert again(keystone) == keystone.made
    assert rows(keystone) == before
    assert keystone.is_valid(token)
    keystone.login("admin")


def test_a_repetition_puts_back_what_was_lost(keystone: Any) -> None:
    before = rows(keystone)
    keystone.db.transact(False, lambda conn: conn.execute(text("DELETE FROM identity_endpoints")) and None)
    keystone.db.transact(False, lambda conn: conn.execute(text("DELETE FROM identity_assignments")) and None)
    again(keystone)
    assert rows(keystone) == before


@pytest.mark.parametrize(
    "locked_out", ["/users/{made.admin_user_id}", "/projects/{made.admin_project_id}", "/domains/default"]
)
def test_the_operator_lets_the_administrator_in_again(keystone: Any, locked_out: str) -> None:
    """Who is the only administrator may disable the domain that all users are in."""
    token = keystone.login("admin", scope="admin")
    path = locked_out.format(made=keystone.made)
    kind = path.split("/")[1][:-1]
    assert keystone.ask("PATCH", path, {kind: {"enabled": False}}, token).status == 200
    assert keystone.ask("POST", "/auth/tokens", password_request("admin", scope="admin")).status == 401
    new = keystone.hasher.hashing.hash("other")
    keystone.db.transact(False, reset_admin, new, utc(keystone.clock.seconds()))
    assert not keystone.is_valid(token)
    again = keystone.login("admin", "other", scope="admin")
    assert keystone.ask("GET", path, token=again).json()[kind]["enabled"]


def test_a_cloud_may_offer_fewer_services(keystone: Any) -> None:
    keystone.db.transact(False, lambda conn: conn.execute(text("DELETE FROM identity_services")) and None)
    again(keystone, catalog=tuple(entry for service in SERVICES[:-1] for entry in service.catalog))
    assert len(keystone.ask("GET", "/services", token=keystone.admin()).json()["services"]) == 9


def test_without_a_password_there_is_no_demo(keystone: Any) -> None:
    for table in ("identity_users", "identity_projects", "identity_assignments"):
        keystone.db.transact(False, lambda conn, t=table: conn.execute(text(f"DELETE FROM {t}")) and None)
    made = again(keystone, demo_password_hash=None)
    assert (made.demo_project_id, made.demo_user_id) == ("", "")


def test_a_project_exists_and_a_domain_is_none(keystone: Any) -> None:
    ids = [keystone.made.demo_project_id, "default", "unknown"]
    assert [keystone.db.transact(True, projects.exists, id) for id in ids] == [True, False, False]
