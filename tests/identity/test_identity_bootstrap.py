"""The first records."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from sqlalchemy import text

from cloudctl.app import SERVICES
from cloudctl.db.columns import utc
from cloudctl.identity import projects
from cloudctl.identity.bootstrap import Seed, bootstrap


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


def test_a_reset_lets_the_administrator_in_again_and_ends_old_tokens(keystone: Any) -> None:
    token = keystone.login("admin", scope="admin")
    keystone.ask("PATCH", f"/users/{keystone.made.admin_user_id}", {"user": {"enabled": False}}, token)
    again(keystone, reset_admin_password=True)
    assert not keystone.is_valid(token)
    keystone.login("admin", "other", scope="admin")


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
