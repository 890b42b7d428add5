"""Passwords: how they are hashed and checked, changed, expire, and lock out."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import evolve
from sqlalchemy import text
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.db.threads import Inline
from cloudctl.errors import ConfigError, Unavailable
from cloudctl.identity.options import Argon2, IdentityOptions, PasswordOptions
from cloudctl.identity.passwords import Hasher, Hashing
from cloudctl.options import structure
from cloudctl.testing.cloud import empty_database

from .conftest import CHEAP, START, Keystone, make_keystone

DAY = 86_400


def with_rules(**rules: Any) -> Keystone:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, passwords=PasswordOptions(**rules))
    return make_keystone(empty_database(clock), clock, options)


def attempt(keystone: Keystone, password: str, name: str = "demo") -> int:
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return keystone.ask("POST", "/auth/tokens", auth).status


def change(keystone: Keystone, old: str, new: str) -> int:
    body = {"user": {"original_password": old, "password": new}}
    return keystone.ask("POST", f"/users/{keystone.made.demo_user_id}/password", body).status


def patch(keystone: Keystone, **fields: Any) -> int:
    path = f"/users/{keystone.made.demo_user_id}"
    return keystone.ask("PATCH", path, {"user": fields}, keystone.admin()).status


# -- hashing


def test_a_hash_matches_its_password_only() -> None:
    hashing = Hashing(CHEAP)
    stored = hashing.hash("pässword")
    assert stored.startswith("$argon2id$")
    assert hashing.verify(stored, "pässword")
    assert not hashing.verify(stored, "password")
    assert not hashing.verify(None, "")
    assert not hashing.verify("nonsense", "nonsense")


def test_the_defaults_are_those_of_owasp() -> None:
    stored = Hashing(Argon2()).hash("x")
    assert "$m=19456,t=2,p=1$" in stored


def test_a_user_that_does_not_exist_costs_as_much_as_one_that_does() -> None:
    """The hash that nothing matches has the same parameters and lengths as a real one."""
    hashing = Hashing(CHEAP)
    real, nothing = hashing.hash("x"), hashing._nothing
    assert [len(part) for part in real.split("$")] == [len(part) for part in nothing.split("$")]
    assert real.split("$")[:4] == nothing.split("$")[:4]


def test_a_hash_of_other_parameters_is_replaced_at_the_next_login(keystone: Any) -> None:
    stronger = evolve(CHEAP, time_cost=2)
    keystone.hasher.hashing = Hashing(stronger)
    query = "SELECT password_hash FROM identity_users WHERE name = 'demo'"

    def stored() -> str:
        return str(keystone.db.transact(True, lambda conn: conn.execute(text(query)).scalar()))

    assert "t=1" in stored()
    assert attempt(keystone, "wrong") == 401
    assert "t=1" in stored()
    assert attempt(keystone, "secret") == 201
    assert "t=2" in stored()
    assert attempt(keystone, "secret") == 201


def test_logins_beyond_the_queue_are_refused_and_the_others_finish() -> None:
    class Stuck(Inline):
        waiting: list[Any]

        def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None:
            self.waiting.append(lambda: onResult(True, func(*args, **kw)))

    threads = Stuck()
    threads.waiting = []
    hasher = Hasher(Hashing(CHEAP), threads, threads, queue=2)  # type: ignore[arg-type]  # the reactor's one method
    started = [ensureDeferred(hasher.hash("x")) for _ in range(3)]
    assert started[2].called
    refused: list[Any] = []
    started[2].addErrback(refused.append)
    assert isinstance(refused[0].value, Unavailable) and refused[0].value.headers == {"Retry-After": "1"}
    for finish in threads.waiting:
        finish()
    assert all(each.called for each in started)
    again = ensureDeferred(hasher.hash("x"))
    threads.waiting[-1]()
    assert again.called


def test_too_many_logins_are_answered_503(keystone: Any) -> None:
    keystone.hasher.turns.most = 0
    assert attempt(keystone, "secret") == 503


# -- changing one's own


def test_one_changes_the_own_password_with_the_old_one(keystone: Any) -> None:
    assert change(keystone, "wrong", "new") == 401
    assert change(keystone, "secret", "new") == 204
    assert (attempt(keystone, "secret"), attempt(keystone, "new")) == (401, 201)


def test_the_password_of_an_unknown_or_disabled_user_cannot_be_changed(keystone: Any) -> None:
    body = {"user": {"original_password": "secret", "password": "new"}}
    assert keystone.ask("POST", "/users/unknown/password", body).status == 401
    assert patch(keystone, enabled=False) == 200
    assert change(keystone, "secret", "new") == 401


def test_a_locked_password_is_changed_by_an_administrator_only(keystone: Any) -> None:
    assert patch(keystone, options={"lock_password": True}) == 200
    assert change(keystone, "secret", "new") == 400
    assert patch(keystone, password="new") == 200
    assert attempt(keystone, "new") == 201


def test_without_a_password_there_is_no_login_by_password(keystone: Any) -> None:
    assert patch(keystone, password=None) == 200
    for password in ("secret", "", "None"):
        assert attempt(keystone, password) == 401


# -- rules


def test_a_new_password_must_match_the_expression_and_the_refusal_explains_it() -> None:
    keystone = with_rules(regex=r".{8,}", regex_description="at least 8 characters")
    assert change(keystone, "secret", "short") == 400
    response = keystone.ask("POST", "/users", {"user": {"name": "x", "password": "short"}}, keystone.admin())
    assert response.status == 400
    assert "at least 8 characters" in response.json()["error"]["message"]
    assert patch(keystone, password="short") == 400
    assert change(keystone, "secret", "long enough") == 204
    shown = keystone.ask(
        "GET", "/domains/default/config/security_compliance", token=keystone.login("demo", "long enough")
    )
    assert shown.json()["config"]["security_compliance"]["password_regex"] == ".{8,}"


def test_an_expired_password_is_told_only_to_who_knows_it_and_can_still_be_changed() -> None:
    keystone = with_rules(expires_days=10)
    assert change(keystone, "secret", "one") == 204
    keystone.clock.advance(10 * DAY)
    user = {"name": "demo", "domain": {"id": "default"}, "password": "one"}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    told = keystone.ask("POST", "/auth/tokens", auth)
    assert told.status == 401
    assert told.json()["error"]["message"] == (
        f"The password is expired and needs to be changed for user: {keystone.made.demo_user_id}."
    )
    user["password"] = "wrong"
    assert "expired" not in keystone.ask("POST", "/auth/tokens", auth).json()["error"]["message"]
    assert change(keystone, "one", "two") == 204
    assert attempt(keystone, "two") == 201


def test_whoever_ignores_expiry_logs_in() -> None:
    keystone = with_rules(expires_days=10)
    assert change(keystone, "secret", "one") == 204
    assert patch(keystone, options={"ignore_password_expiry": True}) == 200
    keystone.clock.advance(10 * DAY)
    assert attempt(keystone, "one") == 201


def test_a_password_that_an_administrator_set_must_be_changed_first() -> None:
    keystone = with_rules(change_upon_first_use=True)
    assert patch(keystone, password="given") == 200
    assert attempt(keystone, "given") == 401
    assert change(keystone, "given", "own") == 204
    assert attempt(keystone, "own") == 201


def test_the_last_passwords_are_not_used_again() -> None:
    keystone = with_rules(unique_last_count=2)
    assert change(keystone, "secret", "secret") == 400
    assert change(keystone, "secret", "one") == 204
    assert change(keystone, "one", "secret") == 400
    assert change(keystone, "one", "two") == 204
    assert change(keystone, "two", "secret") == 204


def test_a_password_stays_for_its_minimum_age() -> None:
    keystone = with_rules(minimum_age_days=1)
    assert change(keystone, "secret", "one") == 400
    keystone.clock.advance(DAY + 1)
    assert change(keystone, "secret", "one") == 204
    assert change(keystone, "one", "two") == 400


@pytest.mark.parametrize(
    "rules",
    [{"regex": "("}, {"unique_last_count": -1}, {"disable_days_inactive": -1}, {"expires_days": -1}],
)
def test_rules_that_no_password_or_user_could_meet_are_refused_at_start(rules: Any) -> None:
    with pytest.raises(ConfigError):
        structure(PasswordOptions, rules, "identity.passwords")


# -- lockout


def test_too_many_failures_lock_out_until_the_time_is_over() -> None:
    keystone = with_rules(lockout_failure_attempts=3, lockout_duration=60)
    for _ in range(3):
        assert attempt(keystone, "wrong") == 401
    assert attempt(keystone, "secret") == 401
    keystone.clock.advance(59)
    # Trying while locked out does not make it longer.
    assert attempt(keystone, "wrong") == 401
    keystone.clock.advance(1)
    assert attempt(keystone, "secret") == 201


def test_passwords_cannot_be_tried_for_ever_by_default(keystone: Any) -> None:
    assert [attempt(keystone, "wrong") for _ in range(10)] == [401] * 10
    assert attempt(keystone, "secret") == 401
    assert attempt(keystone, "secret", "admin") == 201
    keystone.clock.advance(1800)
    assert attempt(keystone, "secret") == 201


def test_a_good_login_forgets_failures() -> None:
    keystone = with_rules(lockout_failure_attempts=3)
    for _ in range(4):
        assert [attempt(keystone, p) for p in ("wrong", "wrong", "secret")] == [401, 401, 201]


@pytest.mark.parametrize("fields", [{"enabled": True}, {"password": "secret"}])
def test_an_administrator_unlocks(fields: Any) -> None:
    keystone = with_rules(lockout_failure_attempts=1)
    assert attempt(keystone, "wrong") == 401
    assert attempt(keystone, "secret") == 401
    assert patch(keystone, **fields) == 200
    assert attempt(keystone, "secret") == 201


def test_who_ignores_lockout_is_not_locked_out() -> None:
    keystone = with_rules(lockout_failure_attempts=1)
    assert patch(keystone, options={"ignore_lockout_failure_attempts": True}) == 200
    assert attempt(keystone, "wrong") == 401
    assert attempt(keystone, "secret") == 201


def test_who_stays_away_too_long_is_shown_disabled_until_enabled_again() -> None:
    keystone = with_rules(disable_days_inactive=30)
    assert attempt(keystone, "secret") == 201
    keystone.clock.advance(20 * DAY)
    assert attempt(keystone, "secret") == 201
    assert attempt(keystone, "secret", "admin") == 201
    keystone.clock.advance(20 * DAY)
    assert attempt(keystone, "secret") == 201
    assert attempt(keystone, "secret", "admin") == 201
    keystone.clock.advance(29 * DAY)
    admin = keystone.admin()
    keystone.clock.advance(2 * DAY)
    assert attempt(keystone, "secret") == 401
    again = keystone.ask("POST", "/auth/tokens", {"auth": {"identity": {"methods": ["token"], "token": {"id": admin}}}})
    assert again.status == 401
    assert attempt(keystone, "secret", "admin") == 201
    path = f"/users/{keystone.made.demo_user_id}"
    assert keystone.ask("GET", path, token=keystone.admin()).json()["user"]["enabled"] is False
    assert patch(keystone, enabled=True) == 200
    assert attempt(keystone, "secret") == 201


@pytest.mark.parametrize("use", [attempt, lambda keystone, password: change(keystone, password, "new")])
def test_who_guesses_while_a_good_password_is_compared_locks_that_use_of_it_out_too(use: Any) -> None:
    keystone = with_rules(lockout_failure_attempts=1)
    real = keystone.hasher.hashing.verify

    def slow(stored: Any, secret: str) -> bool:
        if secret == "secret":
            assert attempt(keystone, "wrong") == 401
        return real(stored, secret)

    keystone.hasher.turns.most = keystone.hasher.turns.at_once = 2
    cast(Any, keystone.hasher.hashing).verify = slow
    assert use(keystone, "secret") == 401


def test_who_need_not_change_a_first_password_logs_in_with_it() -> None:
    keystone = with_rules(change_upon_first_use=True)
    assert patch(keystone, options={"ignore_change_password_upon_first_use": True}) == 200
    assert patch(keystone, password="given") == 200
    assert attempt(keystone, "given") == 201


def test_who_ignores_inactivity_stays_enabled() -> None:
    keystone = with_rules(disable_days_inactive=30)
    assert patch(keystone, options={"ignore_user_inactivity": True}) == 200
    keystone.clock.advance(31 * DAY)
    assert attempt(keystone, "secret") == 201


def test_who_stays_away_too_long_has_no_application_credential_either() -> None:
    keystone = with_rules(disable_days_inactive=30)
    made = keystone.make(
        keystone.login("demo", scope="demo"),
        f"users/{keystone.made.demo_user_id}/application_credentials",
        "application_credential",
        name="robot",
    )
    how = {"methods": ["application_credential"], "application_credential": {k: made[k] for k in ("id", "secret")}}

    def log_in() -> int:
        return keystone.ask("POST", "/auth/tokens", {"auth": {"identity": how}}).status

    keystone.clock.advance(29 * DAY)
    assert log_in() == 201
    # A program that logs in does not keep its user active.
    keystone.clock.advance(2 * DAY)
    assert log_in() == 401


def test_a_list_of_who_is_enabled_has_those_who_are_shown_so() -> None:
    keystone = with_rules(disable_days_inactive=30)
    keystone.make_user("jane", options={"ignore_user_inactivity": True})
    keystone.make_user("ann", enabled=False)
    for days in (20, 11):
        keystone.clock.advance(days * DAY)
        keystone.admin()

    group = keystone.make(keystone.admin(), "groups", "group", name="g")["id"]
    for each in keystone.ask("GET", "/users", token=keystone.admin()).json()["users"]:
        keystone.ask("PUT", f"/groups/{group}/users/{each['id']}", token=keystone.admin())

    def listed(path: str, enabled: bool) -> dict[str, bool]:
        found = keystone.ask("GET", f"{path}?enabled={enabled}", token=keystone.admin()).json()["users"]
        return {each["name"]: each["enabled"] for each in found}

    for path in ("/users", f"/groups/{group}/users"):
        assert listed(path, True) == {"admin": True, "jane": True}
        assert listed(path, False) == {"ann": False, "demo": False}
