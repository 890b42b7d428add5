"""What ends tokens: identity.md, «What revokes tokens»."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def demo(keystone: Any) -> str:
    token: str = keystone.login("demo", scope="demo")
    assert keystone.is_valid(token)
    return token


def patch(keystone: Any, path: str, kind: str, **fields: Any) -> None:
    response = keystone.ask("PATCH", path, {kind: fields}, keystone.admin())
    assert response.status == 200, response


@pytest.mark.parametrize("what", ["user", "project", "domain"])
def test_what_was_disabled_once_keeps_old_tokens_invalid_after_it_is_enabled_again(
    keystone: Any, demo: str, what: str
) -> None:
    made = keystone.made
    if what == "domain":
        admin = keystone.admin()
        domain = keystone.make(admin, "domains", "domain", name="other")
        project = keystone.make(admin, "projects", "project", name="p", domain_id=domain["id"])
        keystone.grant(admin, f"/projects/{project['id']}/users/{made.demo_user_id}", "member")
        demo = keystone.login("demo", scope={"project": {"id": project["id"]}})
        path = f"/domains/{domain['id']}"
    else:
        path = {"user": f"/users/{made.demo_user_id}", "project": f"/projects/{made.demo_project_id}"}[what]
    patch(keystone, path, what, enabled=False)
    assert not keystone.is_valid(demo)
    patch(keystone, path, what, enabled=True)
    assert not keystone.is_valid(demo)
    assert keystone.is_valid(keystone.login("demo", scope="demo"))


def test_a_new_password_ends_the_tokens_made_before_it_and_none_made_after_it_in_the_same_second(
    keystone: Any, demo: str
) -> None:
    body = {"user": {"original_password": "secret", "password": "other"}}
    path = f"/users/{keystone.made.demo_user_id}/password"
    assert keystone.ask("POST", path, body).status == 204
    assert not keystone.is_valid(demo)
    assert keystone.is_valid(keystone.login("demo", "other", scope="demo"))


def test_an_administrator_who_sets_a_password_ends_the_users_tokens(keystone: Any, demo: str) -> None:
    patch(keystone, f"/users/{keystone.made.demo_user_id}", "user", password="other")
    assert not keystone.is_valid(demo)
    assert keystone.is_valid(keystone.login("demo", "other"))


def test_a_deleted_user_and_a_deleted_project_end_tokens(keystone: Any) -> None:
    admin = keystone.admin()
    project = keystone.make(admin, "projects", "project", name="p")
    for path in ("users", "projects"):
        user_id = keystone.make_user(f"one-{path}", "member", on=project["id"])
        token = keystone.login(f"one-{path}", scope="p")
        assert keystone.is_valid(token)
        victim = user_id if path == "users" else project["id"]
        assert keystone.ask("DELETE", f"/{path}/{victim}", token=admin).status == 204
        assert not keystone.is_valid(token)


def test_a_role_that_is_taken_away_is_gone_from_the_token_and_the_last_one_ends_it(keystone: Any) -> None:
    user_id = keystone.make_user("one", "manager", on=keystone.made.demo_project_id)
    admin = keystone.admin()
    path = f"/projects/{keystone.made.demo_project_id}/users/{user_id}"
    keystone.grant(admin, path, "reader")
    token = keystone.login("one", scope="demo")

    def roles() -> Any:
        shown = keystone.ask("GET", "/auth/tokens", token=token, X_Subject_Token=token)
        return [role["name"] for role in shown.json()["token"]["roles"]] if shown.status == 200 else None

    assert roles() == ["manager", "member", "reader"]
    for role, left in (("manager", ["reader"]), ("reader", None)):
        assert keystone.ask("DELETE", f"{path}/roles/{keystone.made.role_ids[role]}", token=admin).status == 204
        assert roles() == left


def test_leaving_a_group_takes_its_roles(keystone: Any) -> None:
    admin = keystone.admin()
    user_id = keystone.make_user("one")
    group = keystone.make(admin, "groups", "group", name="g")
    keystone.grant(admin, f"/projects/{keystone.made.demo_project_id}/groups/{group['id']}", "member")
    member = f"/groups/{group['id']}/users/{user_id}"
    for end in (member, f"/groups/{group['id']}"):
        assert keystone.ask("PUT", member, token=admin).status == 204
        token = keystone.login("one", scope="demo")
        assert keystone.ask("DELETE", end, token=admin).status == 204
        assert not keystone.is_valid(token)


def test_a_deleted_role_is_gone_from_tokens(keystone: Any) -> None:
    admin = keystone.admin()
    role = keystone.make(admin, "roles", "role", name="auditor")
    user_id = keystone.make_user("one")
    grant = f"/projects/{keystone.made.demo_project_id}/users/{user_id}/roles/{role['id']}"
    assert keystone.ask("PUT", grant, token=admin).status == 204
    token = keystone.login("one", scope="demo")
    assert keystone.ask("DELETE", f"/roles/{role['id']}", token=admin).status == 204
    assert not keystone.is_valid(token)


def test_the_revoked_list_and_the_events(keystone: Any, demo: str) -> None:
    admin = keystone.admin()
    shown = keystone.ask("GET", "/auth/tokens", token=demo, X_Subject_Token=demo).json()["token"]
    assert keystone.ask("DELETE", "/auth/tokens", token=demo, X_Subject_Token=demo).status == 204
    patch(keystone, f"/users/{keystone.made.demo_user_id}", "user", enabled=False)
    for path in ("/OS-PKI/revoked", "/auth/tokens/OS-PKI/revoked"):
        assert keystone.ask("GET", path, token=admin).json() == {
            "revoked": [
                {
                    "id": shown["audit_ids"][0],
                    "audit_id": shown["audit_ids"][0],
                    "expires": "2027-01-15T09:00:00.000000Z",
                    "revoked_at": "2027-01-15T08:00:00.000000Z",
                }
            ]
        }
    events = keystone.ask("GET", "/OS-REVOKE/events", token=admin).json()["events"]
    assert [event.get("audit_id") or event.get("user_id") for event in events] == [
        shown["audit_ids"][0],
        keystone.made.demo_user_id,
    ]
    later = keystone.ask("GET", "/OS-REVOKE/events?since=2027-01-15T08:00:01Z", token=admin)
    assert later.json()["events"] == []
    assert keystone.ask("GET", "/OS-REVOKE/events?since=never", token=admin).status == 400


def test_the_revoked_list_is_for_administrators(keystone: Any, demo: str) -> None:
    for path in ("/OS-PKI/revoked", "/auth/tokens/OS-PKI/revoked", "/OS-REVOKE/events"):
        assert keystone.ask("GET", path, token=demo).status == 403
        assert keystone.ask("GET", path).status == 401


def test_an_expired_token_leaves_the_revoked_list(keystone: Any, demo: str) -> None:
    assert keystone.ask("DELETE", "/auth/tokens", token=demo, X_Subject_Token=demo).status == 204
    keystone.clock.advance(3600)
    assert keystone.ask("GET", "/OS-PKI/revoked", token=keystone.admin()).json() == {"revoked": []}
