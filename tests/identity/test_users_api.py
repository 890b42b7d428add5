"""/users: records and lists."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest


def test_a_user_is_shown_as_it_was_created_with_attributes_of_the_clients_own(keystone: Any) -> None:
    admin = keystone.admin()
    made = keystone.make(
        admin, "users", "user", name="Jane", password="pw", email="jane@example.com", description="d", answer={"a": [1]}
    )
    assert made.pop("links") == {"self": f"http://cloud.example.com/identity/v3/users/{made['id']}"}
    assert len(made["id"]) == 32
    assert made == {
        "id": made["id"],
        "name": "Jane",
        "domain_id": "default",
        "enabled": True,
        "description": "d",
        "email": "jane@example.com",
        "answer": {"a": [1]},
        "federated": [],
        "options": {},
        "password_expires_at": None,
    }
    shown = keystone.ask("GET", f"/users/{made['id']}", token=admin).json()["user"]
    assert shown.pop("links")
    assert shown == made


def test_an_update_changes_what_is_given_and_nothing_else(keystone: Any) -> None:
    admin = keystone.admin()
    user_id = keystone.make_user("jane", email="a@example.com", phone="1")
    body = {"user": {"id": user_id, "email": "b@example.com", "options": {"lock_password": True}}}
    updated = keystone.ask("PATCH", f"/users/{user_id}", body, admin).json()["user"]
    assert (updated["email"], updated["phone"], updated["name"]) == ("b@example.com", "1", "jane")
    assert updated["options"] == {"lock_password": True}
    body = {"user": {"options": {"lock_password": None}}}
    assert keystone.ask("PATCH", f"/users/{user_id}", body, admin).json()["user"]["options"] == {}
    keystone.login("jane")


def test_another_id_or_domain_is_refused(keystone: Any) -> None:
    user_id = keystone.make_user("jane")
    for change in ({"id": "other"}, {"domain_id": "other"}):
        assert keystone.ask("PATCH", f"/users/{user_id}", {"user": change}, keystone.admin()).status == 400


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": ""},
        {"name": "  "},
        {"name": 5},
        {"name": "x" * 256},
        {"name": "x", "enabled": "yes"},
        {"name": "x", "password": 5},
        {"name": "x", "password": "y" * 4097},
        {"name": "x", "domain_id": ""},
        {"name": "x", "options": {"unknown": True}},
        {"name": "x", "options": {"lock_password": "yes"}},
        {"name": "x", "default_project_id": "default"},
        {"name": "x", "blob": "y" * 70_000},
        {"name": "x", "deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
    ],
)
def test_a_malformed_user_is_400(keystone: Any, fields: Any) -> None:
    assert keystone.ask("POST", "/users", {"user": fields}, keystone.admin()).status == 400


def test_names_are_unique_in_a_domain_whatever_their_case(keystone: Any) -> None:
    admin = keystone.admin()
    keystone.make_user("jane")
    assert keystone.ask("POST", "/users", {"user": {"name": "JANE"}}, admin).status == 409
    other = keystone.make_user("joe")
    assert keystone.ask("PATCH", f"/users/{other}", {"user": {"name": "Jane"}}, admin).status == 409
    domain = keystone.make(admin, "domains", "domain", name="other")
    keystone.make(admin, "users", "user", name="jane", domain_id=domain["id"])


def test_an_unknown_domain_is_404(keystone: Any) -> None:
    body = {"user": {"name": "x", "domain_id": "nowhere"}}
    assert keystone.ask("POST", "/users", body, keystone.admin()).status == 404


def test_users_are_filtered(keystone: Any) -> None:
    admin = keystone.admin()
    keystone.make_user("Anna_1")
    keystone.make_user("anna%2", enabled=False)
    keystone.make_user("bert")

    def names(query: str) -> Any:
        return [user["name"] for user in keystone.ask("GET", f"/users?{query}", token=admin).json()["users"]]

    assert names("") == ["admin", "demo", "Anna_1", "anna%2", "bert"]
    assert names("name=bert") == ["bert"]
    assert names("name=Bert") == []
    assert names("name__contains=nna") == ["Anna_1", "anna%2"]
    assert names("name__contains=_") == ["Anna_1"]
    assert names("name__startswith=anna") == ["anna%2"]
    assert names("name__istartswith=ANNA") == ["Anna_1", "anna%2"]
    assert names("name__endswith=1") == ["Anna_1"]
    assert names("name__icontains=%25") == ["anna%2"]
    assert names("enabled=false") == ["anna%2"]
    assert names("enabled&name=bert") == ["bert"]
    assert names("domain_id=default&name=bert") == ["bert"]
    assert names("domain_id=other") == []
    assert names("shoe_size=44&name=bert") == ["bert"]
    assert names("sort_key=name&sort_dir=asc&limit=2") == ["Anna_1", "admin"]
    assert keystone.ask("GET", "/users?enabled=perhaps", token=admin).status == 400
    assert keystone.ask("GET", "/users?sort_key=password", token=admin).status == 400


@pytest.mark.parametrize(
    "query",
    ["iequals=ÄHRE_ö", "iequals=ähre_Ö", "icontains=HRE_ö", "istartswith=ähRE_", "iendswith=E_Ö", "icontains=Ä"],
)
def test_capitals_of_all_alphabets_are_the_same_as_small_letters(keystone: Any, query: str) -> None:
    keystone.make_user("Ähre_Ö")
    keystone.make_user("bert")
    found = keystone.ask("GET", f"/users?name__{quote(query, safe='=')}", token=keystone.admin()).json()["users"]
    assert [user["name"] for user in found] == ["Ähre_Ö"]


def test_users_are_filtered_by_the_expiry_of_their_password(keystone: Any, options: Any) -> None:
    admin = keystone.admin()
    for query in ("lt:2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"):
        assert keystone.ask("GET", f"/users?password_expires_at={query}", token=admin).json()["users"] == []
    found = keystone.ask("GET", "/users?password_expires_at=neq:2030-01-01T00:00:00Z", token=admin).json()["users"]
    assert len(found) == 2
    for query in ("lt:soon", "lt:", "0001-01-01T00:00:00%2B23:59"):
        assert keystone.ask("GET", f"/users?password_expires_at={query}", token=admin).status == 400


def test_pages_link_to_the_next_one(keystone: Any) -> None:
    admin = keystone.admin()
    for number in range(4):
        keystone.make_user(f"u{number}")
    names, path = [], "/users?limit=4&name__contains=d"
    first = keystone.ask("GET", "/users?limit=4", token=admin).json()
    assert first["links"]["self"] == "http://cloud.example.com/identity/v3/users?limit=4"
    assert first["links"]["previous"] is None
    assert "truncated" not in first
    path = first["links"]["next"].removeprefix("http://cloud.example.com")
    second = keystone.ask("GET", path, token=admin).json()
    assert second["links"]["next"] is None
    names = [user["name"] for user in first["users"] + second["users"]]
    assert names == ["admin", "demo", "u0", "u1", "u2", "u3"]
    assert keystone.ask("GET", "/users?marker=unknown", token=admin).status == 404
    assert keystone.ask("GET", "/users?limit=-1", token=admin).status == 400


def test_a_user_sees_itself_its_projects_and_groups_and_no_others(keystone: Any) -> None:
    demo, other = keystone.login("demo", scope="demo"), keystone.made.admin_user_id
    mine = f"/users/{keystone.made.demo_user_id}"
    assert keystone.ask("GET", mine, token=demo).json()["user"]["name"] == "demo"
    projects = keystone.ask("GET", f"{mine}/projects", token=demo).json()["projects"]
    assert [project["name"] for project in projects] == ["demo"]
    assert keystone.ask("GET", f"{mine}/groups", token=demo).json()["groups"] == []
    for path in ("/users", f"/users/{other}", f"/users/{other}/projects", f"/users/{other}/groups"):
        assert keystone.ask("GET", path, token=demo).status == 403
    for method, path in (("POST", "/users"), ("PATCH", mine), ("DELETE", mine)):
        assert keystone.ask(method, path, {"user": {"name": "x"}}, demo).status == 403


def test_an_unknown_user_is_404(keystone: Any) -> None:
    admin = keystone.admin()
    for method in ("GET", "HEAD", "PATCH", "DELETE"):
        body: Any = {"user": {}} if method == "PATCH" else None
        assert keystone.ask(method, "/users/unknown", body, admin).status == 404
    response = keystone.ask("GET", f"/users/{'x' * 3000}", token=admin)
    assert response.status == 404
    assert len(response.body) < 300


def test_everything_of_a_deleted_user_goes(keystone: Any) -> None:
    admin = keystone.admin()
    user_id = keystone.make_user("jane", "member", on=keystone.made.demo_project_id)
    assert keystone.ask("DELETE", f"/users/{user_id}", token=admin).status == 204
    assert keystone.ask("GET", f"/users/{user_id}", token=admin).status == 404
    found = keystone.ask("GET", f"/role_assignments?user.id={user_id}", token=admin).json()
    assert found["role_assignments"] == []
    keystone.make_user("jane")


# -- the domain's own reader and manager


@pytest.fixture
def other(keystone: Any) -> Any:
    """A domain with a reader and a manager of its own, as (domain id, reader's token, manager's token)."""
    domain = keystone.make(keystone.admin(), "domains", "domain", name="other")
    tokens = []
    for role in ("reader", "manager"):
        keystone.make_user(f"the-{role}", role, "domains", domain["id"])
        tokens.append(keystone.login(f"the-{role}", scope={"domain": {"id": domain["id"]}}))
    return domain["id"], *tokens


def test_a_domains_manager_keeps_users_of_that_domain_only(keystone: Any, other: Any) -> None:
    domain_id, reader, manager = other
    made = keystone.make(manager, "users", "user", name="jane")
    assert made["domain_id"] == domain_id
    assert keystone.ask("POST", "/users", {"user": {"name": "x", "domain_id": "default"}}, manager).status == 403
    assert keystone.ask("POST", "/users", {"user": {"name": "x"}}, reader).status == 403
    for token in (reader, manager):
        listed = keystone.ask("GET", "/users", token=token).json()["users"]
        assert [user["name"] for user in listed] == ["jane"]
        assert keystone.ask("GET", "/users?domain_id=default", token=token).json()["users"] == []
        assert keystone.ask("GET", f"/users/{made['id']}", token=token).status == 200
        assert keystone.ask("GET", f"/users/{keystone.made.demo_user_id}", token=token).status == 403
    path = f"/users/{keystone.made.demo_user_id}"
    for method, body in (("PATCH", {"user": {"password": "mine"}}), ("DELETE", None)):
        assert keystone.ask(method, path, body, manager).status == 403
    keystone.login("demo")
    assert keystone.ask("PATCH", f"/users/{made['id']}", {"user": {"email": "x"}}, manager).status == 200
    assert keystone.ask("DELETE", f"/users/{made['id']}", token=manager).status == 204


def test_a_domains_manager_gives_away_three_roles_in_its_domain_only(keystone: Any, other: Any) -> None:
    domain_id, reader, manager = other
    roles = keystone.made.role_ids
    jane = keystone.make(manager, "users", "user", name="jane")["id"]
    project = keystone.make(manager, "projects", "project", name="p")
    assert project["domain_id"] == domain_id
    grant = f"/projects/{project['id']}/users/{jane}/roles"
    assert keystone.ask("PUT", f"{grant}/{roles['member']}", token=manager).status == 204
    assert keystone.ask("PUT", f"{grant}/{roles['member']}", token=reader).status == 403
    assert keystone.ask("PUT", f"{grant}/{roles['admin']}", token=manager).status == 403
    assert keystone.ask("HEAD", f"{grant}/{roles['member']}", token=reader).status == 204
    made = keystone.made
    for path in (
        f"/projects/{project['id']}/users/{made.demo_user_id}",
        f"/projects/{made.demo_project_id}/users/{jane}",
        f"/domains/default/users/{jane}",
        f"/domains/{domain_id}/users/{made.demo_user_id}",
    ):
        assert keystone.ask("PUT", f"{path}/roles/{roles['member']}", token=manager).status == 403
    assert keystone.ask("PUT", f"/system/users/{jane}/roles/{roles['member']}", token=manager).status == 403
    shown = keystone.ask("GET", "/roles", token=manager).json()["roles"]
    assert sorted(role["name"] for role in shown) == ["manager", "member", "reader"]
    assert keystone.ask("GET", f"/roles/{roles['admin']}", token=manager).status == 403


def test_a_domain_scoped_administrator_does_not_change_what_belongs_to_the_system(keystone: Any) -> None:
    token = keystone.login("admin", scope={"domain": {"id": "default"}})
    for path, body in (
        ("/services", {"service": {"type": "x"}}),
        ("/regions", {"region": {}}),
        ("/roles", {"role": {"name": "x"}}),
        ("/domains", {"domain": {"name": "x"}}),
        ("/policies", {"policy": {"type": "x", "blob": "{}"}}),
    ):
        assert keystone.ask("POST", path, body, token).status == 403


def test_a_reader_of_the_system_reads_everything_and_changes_nothing(keystone: Any) -> None:
    user_id = keystone.make_user("auditor")
    keystone.grant(keystone.admin(), f"/system/users/{user_id}", "reader")
    token = keystone.login("auditor", scope={"system": {"all": True}})
    for path in ("users", "groups", "projects", "domains", "roles", "services", "endpoints", "role_assignments"):
        assert keystone.ask("GET", f"/{path}", token=token).status == 200, path
    assert keystone.ask("POST", "/users", {"user": {"name": "x"}}, token).status == 403
    assert keystone.ask("DELETE", f"/users/{keystone.made.demo_user_id}", token=token).status == 403


def test_the_projects_of_a_user_are_filtered_as_projects_are(keystone: Any) -> None:
    admin, user_id = keystone.admin(), keystone.made.demo_user_id
    other = keystone.make(admin, "projects", "project", name="other", tags=["blue"])["id"]
    keystone.grant(admin, f"/projects/{other}/users/{user_id}", "reader")
    for query, names in (
        ("", ["demo", "other"]),
        ("?name=other", ["other"]),
        ("?name=nobody", []),
        ("?name__startswith=de", ["demo"]),
        ("?tags=blue", ["other"]),
        ("?domain_id=elsewhere", []),
        ("?colour=red", ["demo", "other"]),
    ):
        found = keystone.ask("GET", f"/users/{user_id}/projects{query}", token=admin).json()["projects"]
        assert [project["name"] for project in found] == names, query
