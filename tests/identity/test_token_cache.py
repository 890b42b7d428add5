"""What `Tokens` remembers: never longer than it is true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.db import Database
from cloudctl.errors import Unauthorized
from cloudctl.identity import epoch, subject
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.tokens import Tokens
from cloudctl.testing.cloud import empty_database
from tests.plans import unchecked

from .conftest import CHEAP, START, make_keystone


def authenticate(tokens: Tokens, token: str) -> Any:
    """The identity, or None if it is refused. Everything is synchronous here."""
    found: list[Any] = []
    ensureDeferred(tokens.authenticate(token)).addBoth(found.append)
    (result,) = found
    if hasattr(result, "trap"):
        result.trap(Unauthorized)
        return None
    return result


@pytest.fixture(autouse=True)
def only_what_is_asked() -> Iterator[None]:
    with unchecked():
        yield


def statements(db: Database) -> list[str]:
    """Fills as statements are executed."""
    seen: list[str] = []
    held = db.connections.get()
    if db.is_sqlite:
        held.driver.set_trace_callback(seen.append)
    else:
        execute = held.execute

        def see(text: str, arguments: Any) -> Any:
            seen.append(text)
            return execute(text, arguments)

        held.execute = see
    return seen


def test_the_second_use_of_a_token_asks_the_database_nothing(keystone: Any) -> None:
    token = keystone.login("demo", scope="demo")
    first = authenticate(keystone.tokens, token)
    seen = statements(keystone.db)
    assert authenticate(keystone.tokens, token) is first
    assert seen == []


def test_the_identity_holds_what_services_ask_for(keystone: Any) -> None:
    made = keystone.made
    found = authenticate(keystone.tokens, keystone.login("demo", scope="demo"))
    assert (found.user_id, found.user_name, found.user_domain_id) == (made.demo_user_id, "demo", "default")
    assert (found.project_id, found.project_name, found.project_domain_id) == (made.demo_project_id, "demo", "default")
    assert found.roles == {"member", "reader"}
    assert (found.domain_id, found.system, found.restricted, found.access_rules) == ("", False, False, None)
    assert found.expires_at == START + 3600


def test_a_change_is_seen_at_once(keystone: Any) -> None:
    token = keystone.login("demo", scope="demo")
    assert authenticate(keystone.tokens, token).roles == {"member", "reader"}
    path = f"/projects/{keystone.made.demo_project_id}/users/{keystone.made.demo_user_id}"
    keystone.grant(keystone.admin(), path, "manager")
    assert authenticate(keystone.tokens, token).roles == {"manager", "member", "reader"}


def test_what_was_read_before_a_change_and_arrives_after_it_is_not_remembered(
    keystone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keystone.login("demo", scope="demo")
    keystone.tokens.forget()
    real = subject.read

    def slow(conn: Any, *arguments: Any) -> Any:
        found = real(conn, *arguments)
        keystone.tokens.forget()
        return found

    monkeypatch.setattr(subject, "read", slow)
    assert authenticate(keystone.tokens, token) is not None
    monkeypatch.undo()
    seen = statements(keystone.db)
    assert authenticate(keystone.tokens, token) is not None
    assert seen


def test_a_remembered_token_expires_all_the_same(keystone: Any) -> None:
    token = keystone.login("demo", scope="demo")
    assert authenticate(keystone.tokens, token)
    keystone.clock.advance(3590)
    assert authenticate(keystone.tokens, token)
    keystone.clock.advance(10)
    assert authenticate(keystone.tokens, token) is None


def test_a_change_that_another_process_made_is_seen_after_a_while(keystone: Any) -> None:
    """With SQLite no other process serves, but an operator's command may write."""
    token = keystone.login("demo", scope="demo")
    assert authenticate(keystone.tokens, token)
    disable = "UPDATE identity_users SET enabled = 0 WHERE name = 'demo'"
    keystone.db.transact(False, lambda conn: conn.execute(text(disable)) and None)
    keystone.clock.advance(keystone.tokens.options.cache_seconds)
    assert authenticate(keystone.tokens, token) is None


def test_only_so_many_are_remembered_and_the_least_used_goes_first() -> None:
    clock = Clock()
    clock.advance(START)
    keystone = make_keystone(empty_database(clock), clock, IdentityOptions(argon2=CHEAP, cache_size=2))
    one, two, three = (keystone.login("demo", scope="demo") for _ in range(3))
    for token in (one, two, one, three):
        authenticate(keystone.tokens, token)
    assert list(keystone.tokens.memory.kept) == [one, three]


def test_a_token_of_many_roles_counts_for_several() -> None:
    clock = Clock()
    clock.advance(START)
    keystone = make_keystone(empty_database(clock), clock, IdentityOptions(argon2=CHEAP, cache_size=3))
    path, admin = f"/projects/{keystone.made.demo_project_id}/users/{keystone.made.demo_user_id}", keystone.admin()
    many = keystone.login("demo", scope="demo")
    for number in range(40):
        role = keystone.make(admin, "roles", "role", name=f"role-{number}")["id"]
        assert keystone.ask("PUT", f"{path}/roles/{role}", token=admin).status == 204
    keystone.tokens.forget()
    for token in (admin, many):
        assert authenticate(keystone.tokens, token)
    # One of 42 roles counts for three.
    assert list(keystone.tokens.memory.kept) == [many]
    assert authenticate(keystone.tokens, admin)
    assert list(keystone.tokens.memory.kept) == [admin]


def test_a_token_that_is_none_is_not_remembered(keystone: Any) -> None:
    for token in ("", "x", "gAAAA" + "x" * 100, "x" * 10_000, "ü"):
        assert authenticate(keystone.tokens, token) is None
    assert not keystone.tokens.memory.kept


# -- several processes on PostgreSQL


@pytest.fixture
def shared(postgresql_with_tables: str) -> Any:
    """Two processes of one cloud, as (Keystone, the Tokens of the other process)."""
    clock = Clock()
    clock.advance(START)
    one = in_this_thread(postgresql_with_tables, clock)
    keystone = make_keystone(one, clock, IdentityOptions(argon2=CHEAP))
    other = in_this_thread(postgresql_with_tables, clock)
    yield keystone, Tokens(other, keystone.tokens.keys, keystone.tokens.options)
    one.close()
    other.close()


def in_this_thread(url: str, clock: Clock) -> Database:
    from cloudctl.db.driver import create
    from cloudctl.db.threads import Inline

    inline: Any = Inline()
    db = Database(create(url), inline, inline, clock)
    # Clock and database would disagree on the time otherwise.
    db.now = lambda conn: clock.seconds()  # type: ignore[method-assign]  # the test's own clock
    return db


def test_a_revocation_in_one_process_is_seen_by_the_next_request_in_another(shared: Any) -> None:
    keystone, other = shared
    token = keystone.login("demo", scope="demo")
    assert authenticate(other, token)
    seen = statements(other.db)
    assert authenticate(other, token)
    assert len([text for text in seen if "identity_epoch" in text]) == len(seen) == 1
    assert keystone.ask("DELETE", "/auth/tokens", token=token, X_Subject_Token=token).status == 204
    assert authenticate(other, token) is None


def test_the_epoch_is_one_row_that_every_change_raises(keystone: Any) -> None:
    before = keystone.db.transact(True, epoch.current)
    keystone.make_user("jane", "member", on=keystone.made.demo_project_id)
    assert keystone.db.transact(True, epoch.current) > before
