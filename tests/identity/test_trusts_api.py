"""Trusts: identity.md, section 11."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.identity.options import IdentityOptions, PasswordOptions
from cloudctl.testing.cloud import empty_database

from .conftest import CHEAP, START, make_keystone

DAY = 86_400


def create(cloud: Any, token: str = "", **fields: Any) -> Any:
    body = {
        "trustor_user_id": cloud.made.demo_user_id,
        "trustee_user_id": cloud.made.admin_user_id,
        "project_id": cloud.made.demo_project_id,
        "impersonation": True,
        "roles": [{"name": "member"}],
        **fields,
    }
    return cloud.ask("POST", "/OS-TRUST/trusts", {"trust": body}, token or cloud.login("demo", scope="demo"))


def made(cloud: Any, **fields: Any) -> Any:
    response = create(cloud, **fields)
    assert response.status == 201, response
    return response.json()["trust"]


def use(cloud: Any, trust: Any, name: str = "admin") -> Any:
    user = {"name": name, "domain": {"id": "default"}, "password": "secret"}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}}
    return cloud.ask("POST", "/auth/tokens", {"auth": {**auth, "scope": {"OS-TRUST:trust": {"id": trust["id"]}}}})


@pytest.mark.parametrize("impersonation", [True, False])
def test_the_trustee_acts_with_the_trustors_roles(keystone: Any, impersonation: bool) -> None:
    trust = made(keystone, impersonation=impersonation)
    response = use(keystone, trust)
    token = response.json()["token"]
    assert token["user"]["name"] == ("demo" if impersonation else "admin")
    assert token["project"]["name"] == "demo"
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert token["OS-TRUST:trust"] == {
        "id": trust["id"],
        "impersonation": impersonation,
        "trustor_user": {"id": keystone.made.demo_user_id},
        "trustee_user": {"id": keystone.made.admin_user_id},
    }
    assert keystone.is_valid(response.headers["X-Subject-Token"])


def test_only_the_trustee_can_use_it(keystone: Any) -> None:
    trust = made(keystone)
    assert use(keystone, trust, "demo").status == 403
    assert use(keystone, {"id": "unknown"}).status == 404


def test_its_tokens_end_with_it_and_with_both_users(keystone: Any) -> None:
    demo = keystone.login("demo", scope="demo")
    trust = made(keystone)
    token = use(keystone, trust).headers["X-Subject-Token"]
    assert keystone.ask("DELETE", f"/OS-TRUST/trusts/{trust['id']}", token=demo).status == 204
    assert not keystone.is_valid(token)
    assert use(keystone, trust).status == 404
    keystone.make_user("jane")
    jane = keystone.ask("GET", "/users?name=jane", token=keystone.admin()).json()["users"][0]["id"]
    token = use(keystone, made(keystone, trustee_user_id=jane), "jane").headers["X-Subject-Token"]
    assert keystone.is_valid(token)
    keystone.ask("PATCH", f"/users/{jane}", {"user": {"enabled": False}}, keystone.admin())
    assert not keystone.is_valid(token)


def test_a_role_that_the_trustor_loses_ends_its_tokens(keystone: Any) -> None:
    token = use(keystone, made(keystone)).headers["X-Subject-Token"]
    made_ = keystone.made
    grant = f"/projects/{made_.demo_project_id}/users/{made_.demo_user_id}/roles/{made_.role_ids['member']}"
    keystone.grant(keystone.admin(), grant.rpartition("/roles/")[0], "reader")
    assert keystone.ask("DELETE", grant, token=keystone.admin()).status == 204
    assert not keystone.is_valid(token)


def test_it_is_used_as_often_as_it_says(keystone: Any) -> None:
    trust = made(keystone, remaining_uses=2)
    first = use(keystone, trust)
    assert [first.status, use(keystone, trust).status, use(keystone, trust).status] == [201, 201, 403]
    assert keystone.is_valid(first.headers["X-Subject-Token"])
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("GET", f"/OS-TRUST/trusts/{trust['id']}", token=demo).status == 404


def test_it_ends_when_it_expires(keystone: Any) -> None:
    trust = made(keystone, expires_at="2027-01-15T08:30:00.000000Z")
    assert trust["expires_at"] == "2027-01-15T08:30:00.000000Z"
    token = use(keystone, trust)
    assert token.json()["token"]["expires_at"] == "2027-01-15T08:30:00.000000Z"
    keystone.clock.advance(1800)
    assert use(keystone, trust).status == 404
    assert not keystone.is_valid(token.headers["X-Subject-Token"])


def test_its_token_is_not_exchanged_and_manages_no_credentials(keystone: Any) -> None:
    token = use(keystone, made(keystone)).headers["X-Subject-Token"]
    auth = {"identity": {"methods": ["token"], "token": {"id": token}}}
    assert keystone.ask("POST", "/auth/tokens", {"auth": auth}).status == 403
    where = f"/users/{keystone.made.demo_user_id}/application_credentials"
    assert keystone.ask("GET", where, token=token).status == 403
    assert keystone.ask("POST", where, {"application_credential": {"name": "x"}}, token).status == 403


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"trustor_user_id": "somebody"}, 403),
        ({"trustee_user_id": "nobody"}, 404),
        ({"project_id": "other"}, 403),
        ({"roles": []}, 403),
        ({"roles": [{"name": "admin"}]}, 403),
        ({"roles": [{"name": "member", "domain": {"id": "default"}}]}, 403),
        # As Keystone answers, so that who orchestrates can say which role is to be made.
        ({"roles": [{"name": "unheard"}]}, 404),
        ({"roles": [{"id": "unheard"}]}, 404),
        ({"roles": [{}]}, 400),
        ({"impersonation": "yes"}, 400),
        ({"remaining_uses": 0}, 400),
        ({"expires_at": "2027-01-15T08:00:00Z"}, 400),
        ({"expires_at": "soon"}, 400),
        ({"redelegation_count": 1}, 403),
    ],
)
def test_a_trust_that_cannot_be_is_refused(keystone: Any, fields: Any, status: int) -> None:
    assert create(keystone, **fields).status == status


def test_a_trust_is_for_any_project_in_which_the_trustor_has_the_roles(keystone: Any) -> None:
    """As in Keystone: the token need not be for that project, nor for any."""
    admin, made_by = keystone.admin(), keystone.made
    other = keystone.make(admin, "projects", "project", name="other")["id"]
    tokens = [keystone.login("demo", scope="demo"), keystone.login("demo")]
    assert [create(keystone, token, project_id=other).status for token in tokens] == [403, 403]
    role = f"/projects/{other}/users/{made_by.demo_user_id}/roles/{made_by.role_ids['member']}"
    assert keystone.ask("PUT", role, token=admin).status == 204
    for token in tokens:
        answer = create(keystone, token, project_id=other)
        assert answer.status == 201, answer
        assert use(keystone, answer.json()["trust"]).json()["token"]["project"]["id"] == other
    disabled = {"project": {"enabled": False}}
    assert keystone.ask("PATCH", f"/projects/{other}", disabled, admin).status == 200
    assert create(keystone, keystone.login("demo"), project_id=other).status == 403


def test_the_token_of_a_trust_passes_on_its_own_project_only() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2)
    keystone = make_keystone(empty_database(clock), clock, options)
    admin, made_by = keystone.admin(), keystone.made
    other = keystone.make(admin, "projects", "project", name="other")["id"]
    role = f"/projects/{other}/users/{made_by.demo_user_id}/roles/{made_by.role_ids['member']}"
    assert keystone.ask("PUT", role, token=admin).status == 204
    token = use(keystone, made(keystone, allow_redelegation=True)).headers["X-Subject-Token"]
    assert create(keystone, token, project_id=other, redelegation_count=1).status == 403


def test_trustor_and_trustee_see_it_and_others_do_not(keystone: Any) -> None:
    trust = made(keystone)
    demo = keystone.login("demo", scope="demo")
    keystone.make_user("jane", "member", on=keystone.made.demo_project_id)
    jane = keystone.login("jane", scope="demo")
    one = f"/OS-TRUST/trusts/{trust['id']}"
    listed = f"/OS-TRUST/trusts?trustor_user_id={keystone.made.demo_user_id}"
    for path in (one, f"{one}/roles", listed):
        assert keystone.ask("GET", path, token=demo).status == 200
        assert keystone.ask("GET", path, token=keystone.admin()).status == 200
        assert keystone.ask("GET", path, token=jane).status == 403
    assert keystone.ask("GET", "/OS-TRUST/trusts", token=demo).status == 403
    assert keystone.ask("DELETE", one, token=jane).status == 403
    roles = keystone.ask("GET", f"{one}/roles", token=demo).json()["roles"]
    assert [role["name"] for role in roles] == ["member"]
    assert keystone.ask("GET", f"{one}/roles/{roles[0]['id']}", token=demo).json()["role"]["name"] == "member"
    assert keystone.ask("HEAD", f"{one}/roles/unknown", token=demo).status == 404


def test_a_trust_is_passed_on_only_where_that_is_allowed() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2)
    keystone = make_keystone(empty_database(clock), clock, options)
    trust = made(keystone, allow_redelegation=True)
    assert trust["redelegation_count"] == 2
    token = use(keystone, trust).headers["X-Subject-Token"]
    assert create(keystone, token, redelegation_count=2).status == 403
    assert create(keystone, token, remaining_uses=1).status == 403
    passed = create(keystone, token, redelegation_count=1)
    assert passed.status == 201, passed
    assert passed.json()["trust"]["redelegated_trust_id"] == trust["id"]
    again = use(keystone, passed.json()["trust"]).headers["X-Subject-Token"]
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("DELETE", f"/OS-TRUST/trusts/{trust['id']}", token=demo).status == 204
    assert not keystone.is_valid(again)


def test_the_tokens_of_all_who_passed_it_on_stay_invalid_after_one_of_them_was_disabled() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2)
    keystone = make_keystone(empty_database(clock), clock, options)
    jane, bob = keystone.make_user("jane"), keystone.make_user("bob")
    first = use(keystone, made(keystone, trustee_user_id=jane, allow_redelegation=True), "jane")
    second = create(keystone, first.headers["X-Subject-Token"], trustee_user_id=bob).json()["trust"]
    tokens = [answer.headers["X-Subject-Token"] for answer in (first, use(keystone, second, "bob"))]
    assert all(map(keystone.is_valid, tokens))
    for enabled in (False, True):
        body = {"user": {"enabled": enabled}}
        assert keystone.ask("PATCH", f"/users/{jane}", body, keystone.admin()).status == 200
        assert not any(map(keystone.is_valid, tokens))
    assert use(keystone, second, "bob").status == 201


def test_trusts_that_ended_do_not_count_towards_the_limit() -> None:
    """Nobody sees them, so nobody could delete them to make room."""
    clock = Clock()
    clock.advance(START)
    cloud = make_keystone(empty_database(clock), clock, IdentityOptions(argon2=CHEAP, trust_limit=2))
    expiring = made(cloud, expires_at="2027-01-15T08:30:00Z")
    assert use(cloud, made(cloud, remaining_uses=1)).status == 201
    made(cloud)
    assert create(cloud).status == 403
    clock.advance(3600)
    assert use(cloud, expiring).status == 404
    made(cloud)
    assert create(cloud).status == 403


def test_nobody_acts_for_a_trustor_who_has_stayed_away_too_long() -> None:
    """Such a user is shown as disabled, and logs in by no other way either."""
    clock = Clock()
    clock.advance(START)
    rules = PasswordOptions(disable_days_inactive=30)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2, passwords=rules)
    keystone = make_keystone(empty_database(clock), clock, options)
    jane, bob = keystone.make_user("jane"), keystone.make_user("bob")
    first = made(keystone, trustee_user_id=jane, allow_redelegation=True)
    token = use(keystone, first, "jane").headers["X-Subject-Token"]
    second = create(keystone, token, trustee_user_id=bob, impersonation=False).json()["trust"]

    def acting() -> list[int]:
        return [use(keystone, first, "jane").status, use(keystone, second, "bob").status]

    clock.advance(29 * DAY)
    keystone.admin()
    assert acting() == [201, 201]
    clock.advance(2 * DAY)
    assert acting() == [401, 401]
    path = f"/users/{keystone.made.demo_user_id}"
    assert keystone.ask("PATCH", path, {"user": {"enabled": True}}, keystone.admin()).status == 200
    assert acting() == [201, 201]
