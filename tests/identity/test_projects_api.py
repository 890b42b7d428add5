"""Projects, tags, domains and groups: identity.md, sections 4 and 5."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


def patch(keystone: Any, path: str, **fields: Any) -> int:
    kind = "domain" if path.startswith("/domains") else "project"
    status: int = keystone.ask("PATCH", path, {kind: fields}, keystone.admin()).status
    return status


def test_a_project_is_shown_as_it_was_created(keystone: Any, admin: str) -> None:
    made = keystone.make(admin, "projects", "project", name="p", description="d", tags=["b", "a"], colour="red")
    assert made == {
        "id": made["id"],
        "name": "p",
        "domain_id": "default",
        "parent_id": "default",
        "is_domain": False,
        "enabled": True,
        "description": "d",
        "tags": ["a", "b"],
        "options": {},
        "colour": "red",
        "links": {"self": f"http://cloud.example.com/identity/v3/projects/{made['id']}"},
    }
    assert keystone.ask("GET", f"/projects/{made['id']}", token=admin).json()["project"] == made


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": " "},
        {"name": "x" * 65},
        {"name": "x", "enabled": 1},
        {"name": "x", "tags": ["a,b"]},
        {"name": "x", "tags": ["a/b"]},
        {"name": "x", "tags": [""]},
        {"name": "x", "tags": ["a", "a"]},
        {"name": "x", "tags": [str(n) for n in range(81)]},
        {"name": "x", "tags": ["y" * 256]},
        {"name": "x", "is_domain": True, "parent_id": "default"},
        {"name": "x", "options": {"immutable": "yes"}},
        {"name": "x", "options": {"other": True}},
    ],
)
def test_a_malformed_project_is_400(keystone: Any, admin: str, fields: Any) -> None:
    assert keystone.ask("POST", "/projects", {"project": fields}, admin).status == 400


def test_names_are_unique_in_a_domain(keystone: Any, admin: str) -> None:
    assert keystone.ask("POST", "/projects", {"project": {"name": "DEMO"}}, admin).status == 409
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    keystone.make(admin, "projects", "project", name="demo", domain_id=other)


def test_projects_are_nested_to_five_levels(keystone: Any, admin: str) -> None:
    parent, ids = None, []
    for level in range(5):
        parent = keystone.make(admin, "projects", "project", name=f"level{level}", parent_id=parent)["id"]
        ids.append(parent)
    assert keystone.ask("POST", "/projects", {"project": {"name": "deeper", "parent_id": parent}}, admin).status == 403
    shown = keystone.ask("GET", f"/projects/{ids[1]}?parents_as_ids&subtree_as_ids", token=admin).json()["project"]
    assert shown["parents"] == {ids[0]: {"default": None}}
    assert shown["subtree"] == {ids[2]: {ids[3]: {ids[4]: None}}}
    leaf = keystone.ask("GET", f"/projects/{ids[4]}?subtree_as_ids", token=admin).json()["project"]
    assert leaf["subtree"] is None


def test_relatives_are_listed_only_where_the_caller_has_a_role(keystone: Any, admin: str) -> None:
    parent = keystone.make(admin, "projects", "project", name="parent")["id"]
    child = keystone.make(admin, "projects", "project", name="child", parent_id=parent)["id"]
    path = f"/projects/{parent}?subtree_as_list"
    assert keystone.ask("GET", path, token=admin).json()["project"]["subtree"] == []
    keystone.grant(admin, f"/projects/{child}/users/{keystone.made.admin_user_id}", "reader")
    (found,) = keystone.ask("GET", path, token=admin).json()["project"]["subtree"]
    assert found["project"]["name"] == "child"
    for kind in ("parents", "subtree"):
        both = f"/projects/{child}?{kind}_as_list&{kind}_as_ids"
        assert keystone.ask("GET", both, token=admin).status == 400


def test_a_parent_must_be_there_enabled_and_of_the_same_domain(keystone: Any, admin: str) -> None:
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    off = keystone.make(admin, "projects", "project", name="off", enabled=False)["id"]
    for fields, status in (
        ({"parent_id": "nowhere"}, 404),
        ({"parent_id": off}, 403),
        ({"parent_id": keystone.made.demo_project_id, "domain_id": other}, 400),
        ({"domain_id": "nowhere"}, 404),
        ({"domain_id": keystone.made.demo_project_id}, 404),
    ):
        assert keystone.ask("POST", "/projects", {"project": {"name": "x", **fields}}, admin).status == status
    child = keystone.make(admin, "projects", "project", name="x", parent_id=other)
    assert child["domain_id"] == other


def test_place_and_kind_of_a_project_stay(keystone: Any, admin: str) -> None:
    path = f"/projects/{keystone.made.demo_project_id}"
    assert patch(keystone, path, parent_id="other") == 403
    assert patch(keystone, path, parent_id="default") == 200
    assert patch(keystone, path, domain_id="other") == 400
    assert patch(keystone, path, is_domain=True) == 400


def test_a_project_with_projects_below_it_is_neither_disabled_nor_deleted(keystone: Any, admin: str) -> None:
    parent = keystone.make(admin, "projects", "project", name="parent")["id"]
    child = keystone.make(admin, "projects", "project", name="child", parent_id=parent)["id"]
    assert patch(keystone, f"/projects/{parent}", enabled=False) == 403
    assert keystone.ask("DELETE", f"/projects/{parent}", token=admin).status == 403
    assert patch(keystone, f"/projects/{child}", enabled=False) == 200
    assert patch(keystone, f"/projects/{parent}", enabled=False) == 200
    assert patch(keystone, f"/projects/{child}", enabled=True) == 403
    for project_id in (child, parent):
        assert keystone.ask("DELETE", f"/projects/{project_id}", token=admin).status == 204


@pytest.mark.parametrize("collection", ["projects", "domains", "roles"])
def test_an_immutable_record_can_only_be_made_mutable(keystone: Any, admin: str, collection: str) -> None:
    kind = collection[:-1]
    made = keystone.make(admin, collection, kind, name="x", options={"immutable": True})
    path = f"/{collection}/{made['id']}"
    for change in ({"name": "y"}, {"options": {"immutable": False}, "name": "y"}, {"options": {"immutable": True}}):
        assert keystone.ask("PATCH", path, {kind: change}, admin).status == 403
    assert keystone.ask("DELETE", path, token=admin).status == 403
    assert keystone.ask("PATCH", path, {kind: {"options": {"immutable": None}}}, admin).json()[kind]["options"] == {}
    assert keystone.ask("PATCH", path, {kind: {"name": "y"}}, admin).status == 200


def test_a_deleted_project_takes_its_grants_and_leaves_no_default(keystone: Any, admin: str) -> None:
    project = keystone.make(admin, "projects", "project", name="p")["id"]
    user_id = keystone.make_user("jane", "member", on=project, default_project_id=project)
    assert keystone.ask("DELETE", f"/projects/{project}", token=admin).status == 204
    found = keystone.ask("GET", f"/role_assignments?user.id={user_id}", token=admin).json()
    assert found["role_assignments"] == []
    assert "default_project_id" not in keystone.ask("GET", f"/users/{user_id}", token=admin).json()["user"]


def test_projects_are_filtered(keystone: Any, admin: str) -> None:
    for name, tags in (("one", ["a"]), ("two", ["a", "b"]), ("three", ["c"])):
        keystone.make(admin, "projects", "project", name=name, tags=tags, enabled=name != "three")

    def names(query: str) -> Any:
        return [p["name"] for p in keystone.ask("GET", f"/projects?{query}", token=admin).json()["projects"]]

    assert names("") == ["three", "two", "one", "demo", "admin"]  # the newest first
    assert names("name=two") == ["two"]
    assert names("enabled=0") == ["three"]
    assert names("is_domain=true") == ["Default"]
    assert names("parent_id=default&name__contains=o") == ["two", "one", "demo"]
    assert names("tags=a") == ["two", "one"]
    assert names("tags=a,b") == ["two"]
    assert names("tags-any=b,c") == ["three", "two"]
    assert names("not-tags=a,b") == ["three", "one", "demo", "admin"]
    assert names("not-tags-any=a,c") == ["demo", "admin"]


def test_a_project_is_shown_to_who_has_a_role_in_it(keystone: Any) -> None:
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("GET", f"/projects/{keystone.made.demo_project_id}", token=demo).status == 200
    for project_id in (keystone.made.admin_project_id, "unknown"):
        assert keystone.ask("GET", f"/projects/{project_id}", token=demo).status == 403
    assert keystone.ask("GET", "/projects", token=demo).status == 403


# -- tags


def test_tags_are_put_checked_replaced_and_taken_off(keystone: Any, admin: str) -> None:
    path = f"/projects/{keystone.made.demo_project_id}/tags"
    for _ in range(2):
        assert keystone.ask("PUT", f"{path}/red", token=admin).status == 201
    assert keystone.ask("GET", path, token=admin).json()["tags"] == ["red"]
    assert [keystone.ask(method, f"{path}/red", token=admin).status for method in ("GET", "HEAD")] == [204, 204]
    assert keystone.ask("GET", f"{path}/blue", token=admin).status == 404
    assert keystone.ask("PUT", path, {"tags": ["x", "y"]}, admin).json()["tags"] == ["x", "y"]
    assert keystone.ask("PUT", path, {"tags": ["x", "x"]}, admin).status == 400
    assert keystone.ask("DELETE", f"{path}/x", token=admin).status == 204
    assert keystone.ask("DELETE", f"{path}/x", token=admin).status == 404
    assert keystone.ask("DELETE", path, token=admin).status == 204
    assert keystone.ask("GET", path, token=admin).json()["tags"] == []
    assert keystone.ask("PUT", f"{path}/{'x' * 256}", token=admin).status == 400


def test_the_tags_of_an_immutable_project_stay(keystone: Any, admin: str) -> None:
    project = keystone.make(admin, "projects", "project", name="x", tags=["red"], options={"immutable": True})
    path = f"/projects/{project['id']}/tags"
    changes: Any = (("PUT", path, {"tags": []}), ("DELETE", path, None), ("PUT", f"{path}/blue", None))
    for method, where, body in (*changes, ("DELETE", f"{path}/red", None)):
        assert keystone.ask(method, where, body, admin).status == 403, (method, where)
    assert keystone.ask("GET", path, token=admin).json()["tags"] == ["red"]


# -- domains


def test_a_domain_is_a_project_too(keystone: Any, admin: str) -> None:
    made = keystone.make(admin, "domains", "domain", name="d", description="x", tags=["t"])
    assert made == {
        "id": made["id"],
        "name": "d",
        "description": "x",
        "enabled": True,
        "options": {},
        "tags": ["t"],
        "links": {"self": f"http://cloud.example.com/identity/v3/domains/{made['id']}"},
    }
    project = keystone.ask("GET", f"/projects/{made['id']}", token=admin).json()["project"]
    assert (project["is_domain"], project["domain_id"], project["parent_id"]) == (True, None, None)
    other = keystone.make(admin, "projects", "project", name="e", is_domain=True)
    assert keystone.ask("GET", f"/domains/{other['id']}", token=admin).json()["domain"]["name"] == "e"
    assert keystone.ask("GET", "/domains?name=e", token=admin).json()["domains"][0]["id"] == other["id"]


def test_a_domain_may_be_given_its_id(keystone: Any, admin: str) -> None:
    made = keystone.make(admin, "domains", "domain", name="d", explicit_domain_id="a" * 32)
    assert made["id"] == "a" * 32
    for explicit, status in (("a" * 32, 409), ("b", 400)):
        body = {"domain": {"name": "x", "explicit_domain_id": explicit}}
        assert keystone.ask("POST", "/domains", body, admin).status == status
    assert keystone.ask("POST", "/domains", {"domain": {"name": "D"}}, admin).status == 409


def test_a_domain_is_deleted_with_all_that_is_in_it_once_it_is_disabled(keystone: Any, admin: str) -> None:
    domain = keystone.make(admin, "domains", "domain", name="d")["id"]
    project = keystone.make(admin, "projects", "project", name="p", domain_id=domain)["id"]
    user = keystone.make_user("jane", "member", on=project, domain_id=domain)
    group = keystone.make(admin, "groups", "group", name="g", domain_id=domain)["id"]
    role = keystone.make(admin, "roles", "role", name="r", domain_id=domain)["id"]
    assert keystone.ask("DELETE", f"/domains/{domain}", token=admin).status == 403
    assert patch(keystone, f"/domains/{domain}", enabled=False) == 200
    assert keystone.ask("DELETE", f"/domains/{domain}", token=admin).status == 204
    for path in (f"domains/{domain}", f"projects/{project}", f"users/{user}", f"groups/{group}", f"roles/{role}"):
        assert keystone.ask("GET", f"/{path}", token=admin).status == 404
    assert len(keystone.ask("GET", "/role_assignments", token=admin).json()["role_assignments"]) == 4


def test_the_default_domain_stays(keystone: Any, admin: str) -> None:
    assert keystone.ask("DELETE", "/domains/default", token=admin).status == 403
    assert keystone.ask("GET", "/domains/default", token=admin).status == 200


def test_a_user_sees_the_own_domain_and_no_other(keystone: Any, admin: str) -> None:
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("GET", "/domains/default", token=demo).json()["domain"]["name"] == "Default"
    assert keystone.ask("GET", f"/domains/{other}", token=demo).status == 403
    assert keystone.ask("GET", "/domains", token=demo).status == 403


# -- groups


def test_a_group_and_its_members(keystone: Any, admin: str) -> None:
    group = keystone.make(admin, "groups", "group", name="g", description="d")
    path = f"/groups/{group['id']}"
    member = f"{path}/users/{keystone.made.demo_user_id}"
    assert keystone.ask("HEAD", member, token=admin).status == 404
    for _ in range(2):
        assert keystone.ask("PUT", member, token=admin).status == 204
    assert [keystone.ask(method, member, token=admin).status for method in ("GET", "HEAD")] == [204, 204]
    assert [u["name"] for u in keystone.ask("GET", f"{path}/users", token=admin).json()["users"]] == ["demo"]
    mine = keystone.ask(
        "GET", f"/users/{keystone.made.demo_user_id}/groups", token=keystone.login("demo", scope="demo")
    )
    assert [g["name"] for g in mine.json()["groups"]] == ["g"]
    assert keystone.ask("PUT", f"{path}/users/unknown", token=admin).status == 404
    assert keystone.ask("PUT", "/groups/unknown/users/unknown", token=admin).status == 404
    assert keystone.ask("DELETE", member, token=admin).status == 204
    assert keystone.ask("DELETE", member, token=admin).status == 404
    updated = keystone.ask("PATCH", path, {"group": {"name": "h"}}, admin).json()["group"]
    assert (updated["name"], updated["description"]) == ("h", "d")
    assert keystone.ask("DELETE", path, token=admin).status == 204


# -- what a token may be exchanged for


def test_the_projects_of_an_unscoped_token_are_those_with_a_role(keystone: Any, admin: str) -> None:
    made = keystone.made
    domain = keystone.make(admin, "domains", "domain", name="d")["id"]
    inherited = keystone.make(admin, "projects", "project", name="inherited", domain_id=domain)["id"]
    by_group = keystone.make(admin, "projects", "project", name="by group")["id"]
    for name in ("disabled", "without a role"):
        keystone.make(admin, "projects", "project", name=name)
    off = keystone.ask("GET", "/projects?name=disabled", token=admin).json()["projects"][0]["id"]
    group = keystone.make(admin, "groups", "group", name="g")["id"]
    keystone.ask("PUT", f"/groups/{group}/users/{made.demo_user_id}", token=admin)
    keystone.grant(admin, f"/projects/{by_group}/groups/{group}", "reader")
    keystone.grant(admin, f"/projects/{off}/users/{made.demo_user_id}", "reader")
    patch(keystone, f"/projects/{off}", enabled=False)
    role = made.role_ids["reader"]
    grant = f"/OS-INHERIT/domains/{domain}/users/{made.demo_user_id}/roles/{role}/inherited_to_projects"
    assert keystone.ask("PUT", grant, token=admin).status == 204
    demo = keystone.login("demo")

    def names() -> Any:
        return [p["name"] for p in keystone.ask("GET", "/auth/projects", token=demo).json()["projects"]]

    assert names() == ["by group", "demo", "inherited"]
    keystone.login("demo", scope={"project": {"id": inherited}})
    patch(keystone, f"/domains/{domain}", enabled=False)
    assert names() == ["by group", "demo"]


def test_the_domains_and_the_system_of_a_token(keystone: Any) -> None:
    demo, admin = keystone.login("demo"), keystone.login("admin")
    for token, domains, system in ((demo, [], []), (admin, ["Default"], [{"all": True}])):
        found = keystone.ask("GET", "/auth/domains", token=token).json()["domains"]
        assert [domain["name"] for domain in found] == domains
        assert keystone.ask("GET", "/auth/system", token=token).json()["system"] == system
