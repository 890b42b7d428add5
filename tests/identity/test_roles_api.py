"""Roles, implications, grants and assignments: identity.md, section 6."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


def role(keystone: Any, admin: str, name: str, **fields: Any) -> str:
    made: str = keystone.make(admin, "roles", "role", name=name, **fields)["id"]
    return made


def test_the_first_roles_and_which_of_them_are_immutable(keystone: Any, admin: str) -> None:
    found = keystone.ask("GET", "/roles", token=admin).json()["roles"]
    assert [(one["name"], one["options"]) for one in found] == [
        ("admin", {"immutable": True}),
        ("manager", {"immutable": True}),
        ("member", {"immutable": True}),
        ("reader", {"immutable": True}),
        ("service", {}),
    ]
    assert keystone.ask("GET", "/roles?name=member", token=admin).json()["roles"][0]["name"] == "member"


def test_roles_of_a_domain_are_listed_apart_and_may_have_the_same_name(keystone: Any, admin: str) -> None:
    mine = role(keystone, admin, "member", domain_id="default")
    assert len(keystone.ask("GET", "/roles", token=admin).json()["roles"]) == 5
    (found,) = keystone.ask("GET", "/roles?domain_id=default", token=admin).json()["roles"]
    assert (found["id"], found["domain_id"]) == (mine, "default")
    body = {"role": {"name": "Member", "domain_id": "default"}}
    assert keystone.ask("POST", "/roles", body, admin).status == 409
    assert keystone.ask("PATCH", f"/roles/{mine}", {"role": {"domain_id": None}}, admin).status == 400


# -- implications


def test_implications_are_shown_and_followed(keystone: Any, admin: str) -> None:
    roles = keystone.made.role_ids
    path = f"/roles/{roles['admin']}/implies"
    shown = keystone.ask("GET", path, token=admin).json()["role_inference"]
    assert (shown["prior_role"]["name"], [one["name"] for one in shown["implies"]]) == ("admin", ["manager"])
    one, two = role(keystone, admin, "one"), role(keystone, admin, "two")
    edge = f"/roles/{one}/implies/{two}"
    made = keystone.ask("PUT", edge, token=admin)
    assert made.status == 201
    assert made.json()["role_inference"]["implies"]["name"] == "two"
    assert keystone.ask("GET", edge, token=admin).json() == made.json()
    assert keystone.ask("HEAD", edge, token=admin).status == 204
    keystone.make_user("jane")
    jane = keystone.ask("GET", "/users?name=jane", token=admin).json()["users"][0]["id"]
    where = f"/projects/{keystone.made.demo_project_id}/users/{jane}"
    assert keystone.ask("PUT", f"{where}/roles/{one}", token=admin).status == 204
    token = keystone.login("jane", scope="demo")
    shown = keystone.ask("GET", "/auth/tokens", token=token, X_Subject_Token=token).json()["token"]
    assert [each["name"] for each in shown["roles"]] == ["one", "two"]
    inferences = keystone.ask("GET", "/role_inferences", token=admin).json()["role_inferences"]
    assert ("one", ["two"]) in [(i["prior_role"]["name"], [r["name"] for r in i["implies"]]) for i in inferences]
    assert keystone.ask("DELETE", edge, token=admin).status == 204
    assert keystone.ask("DELETE", edge, token=admin).status == 404
    shown = keystone.ask("GET", "/auth/tokens", token=token, X_Subject_Token=token).json()["token"]
    assert [each["name"] for each in shown["roles"]] == ["one"]


def test_loops_and_admin_are_never_implied(keystone: Any, admin: str) -> None:
    roles = keystone.made.role_ids
    for prior, implied, status in (
        ("reader", "manager", 400),
        ("reader", "reader", 400),
        ("service", "admin", 403),
    ):
        path = f"/roles/{roles[prior]}/implies/{roles[implied]}"
        assert keystone.ask("PUT", path, token=admin).status == status
    assert keystone.ask("PUT", f"/roles/{roles['reader']}/implies/unknown", token=admin).status == 404


def test_a_domains_role_brings_what_it_implies_and_is_not_shown_itself(keystone: Any, admin: str) -> None:
    mine = role(keystone, admin, "team", domain_id="default")
    reader = keystone.made.role_ids["reader"]
    assert keystone.ask("PUT", f"/roles/{mine}/implies/{reader}", token=admin).status == 201
    assert keystone.ask("PUT", f"/roles/{reader}/implies/{mine}", token=admin).status == 403
    jane = keystone.make_user("jane")
    where = f"/projects/{keystone.made.demo_project_id}/users/{jane}"
    assert keystone.ask("PUT", f"{where}/roles/{mine}", token=admin).status == 204
    token = keystone.login("jane", scope="demo")
    shown = keystone.ask("GET", "/auth/tokens", token=token, X_Subject_Token=token).json()["token"]
    assert [each["name"] for each in shown["roles"]] == ["reader"]
    found = keystone.ask("GET", f"/role_assignments?effective&user.id={jane}", token=admin).json()["role_assignments"]
    assert [each["role"]["id"] for each in found] == [reader]


def test_a_domains_role_is_granted_on_domains_and_on_projects_of_its_own(keystone: Any, admin: str) -> None:
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    theirs = role(keystone, admin, "team", domain_id=other)
    made = keystone.made
    mine = keystone.make(admin, "projects", "project", name="theirs", domain_id=other)["id"]
    places = {
        f"/projects/{made.demo_project_id}": 403,
        f"/projects/{mine}": 204,
        "/domains/default": 204,
        f"/domains/{other}": 204,
        "/system": 400,
    }
    for where, status in places.items():
        path = f"{where}/users/{made.demo_user_id}/roles/{theirs}"
        assert keystone.ask("PUT", path, token=admin).status == status, where


# -- grants


@pytest.mark.parametrize("actor", ["users", "groups"])
@pytest.mark.parametrize("target", ["projects", "domains", "system"])
@pytest.mark.parametrize("inherited", [False, True])
def test_a_grant_is_put_checked_listed_and_taken_away(
    keystone: Any, admin: str, actor: str, target: str, inherited: bool
) -> None:
    if target == "system" and inherited:
        return
    actor_id = keystone.make(admin, actor, actor[:-1], name="x")["id"]
    targets = {
        "projects": f"/projects/{keystone.made.demo_project_id}",
        "domains": "/domains/default",
        "system": "/system",
    }
    listed = f"{targets[target]}/{actor}/{actor_id}/roles"
    one = f"{listed}/{keystone.made.role_ids['reader']}"
    if inherited:
        listed, one = (f"/OS-INHERIT{path}/inherited_to_projects" for path in (listed, one))
    assert keystone.ask("HEAD", one, token=admin).status == 404
    for _ in range(2):
        assert keystone.ask("PUT", one, token=admin).status == 204
    assert [keystone.ask(method, one, token=admin).status for method in ("GET", "HEAD")] == [204, 204]
    assert [r["name"] for r in keystone.ask("GET", listed, token=admin).json()["roles"]] == ["reader"]
    assert keystone.ask("DELETE", one, token=admin).status == 204
    assert keystone.ask("DELETE", one, token=admin).status == 404
    assert keystone.ask("GET", listed, token=admin).json()["roles"] == []


def test_a_grant_of_or_to_or_on_something_unknown_is_404(keystone: Any, admin: str) -> None:
    made = keystone.made
    reader = made.role_ids["reader"]
    for path in (
        f"/projects/unknown/users/{made.demo_user_id}/roles/{reader}",
        f"/projects/{made.demo_project_id}/users/unknown/roles/{reader}",
        f"/projects/{made.demo_project_id}/groups/{made.demo_user_id}/roles/{reader}",
        f"/projects/{made.demo_project_id}/users/{made.demo_user_id}/roles/unknown",
        f"/domains/{made.demo_project_id}/users/{made.demo_user_id}/roles/{reader}",
        f"/system/users/unknown/roles/{reader}",
    ):
        for method in ("PUT", "HEAD", "DELETE"):
            assert keystone.ask(method, path, token=admin).status == 404


def test_an_inherited_grant_holds_below_its_target_and_not_on_it(keystone: Any, admin: str) -> None:
    parent = keystone.make(admin, "projects", "project", name="parent")["id"]
    child = keystone.make(admin, "projects", "project", name="child", parent_id=parent)["id"]
    jane = keystone.make_user("jane")
    reader = keystone.made.role_ids["reader"]
    path = f"/OS-INHERIT/projects/{parent}/users/{jane}/roles/{reader}/inherited_to_projects"
    assert keystone.ask("PUT", path, token=admin).status == 204
    user = {"id": jane, "password": "secret"}
    for project, status in ((parent, 401), (child, 201), (keystone.made.demo_project_id, 401)):
        auth = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"id": project}},
        }
        assert keystone.ask("POST", "/auth/tokens", {"auth": auth}).status == status


# -- the list of assignments


@pytest.fixture
def tree(keystone: Any, admin: str) -> Any:
    """jane, in group g, which is a manager on everything below the default domain; jane reads `demo` herself."""
    made = keystone.made
    jane = keystone.make_user("jane", "reader", on=made.demo_project_id)
    group = keystone.make(admin, "groups", "group", name="g")["id"]
    keystone.ask("PUT", f"/groups/{group}/users/{jane}", token=admin)
    grant = f"/domains/default/groups/{group}/roles/{made.role_ids['manager']}"
    keystone.ask("PUT", f"/OS-INHERIT{grant}/inherited_to_projects", token=admin)
    return {"jane": jane, "group": group}


def assignments(keystone: Any, token: str, query: str) -> Any:
    response = keystone.ask("GET", f"/role_assignments?{query}", token=token)
    assert response.status == 200, response
    return response.json()["role_assignments"]


def test_assignments_are_listed_as_they_were_granted(keystone: Any, admin: str, tree: Any) -> None:
    made, root = keystone.made, "http://cloud.example.com/identity/v3"
    assert assignments(keystone, admin, f"user.id={tree['jane']}") == [
        {
            "role": {"id": made.role_ids["reader"]},
            "user": {"id": tree["jane"]},
            "scope": {"project": {"id": made.demo_project_id}},
            "links": {
                "assignment": f"{root}/projects/{made.demo_project_id}/users/{tree['jane']}"
                f"/roles/{made.role_ids['reader']}"
            },
        }
    ]
    assert assignments(keystone, admin, f"group.id={tree['group']}") == [
        {
            "role": {"id": made.role_ids["manager"]},
            "group": {"id": tree["group"]},
            "scope": {"domain": {"id": "default"}, "OS-INHERIT:inherited_to": "projects"},
            "links": {
                "assignment": f"{root}/OS-INHERIT/domains/default/groups/{tree['group']}"
                f"/roles/{made.role_ids['manager']}/inherited_to_projects"
            },
        }
    ]


def test_effective_assignments_follow_groups_inheritance_and_implications(keystone: Any, admin: str, tree: Any) -> None:
    made, root = keystone.made, "http://cloud.example.com/identity/v3"
    found = assignments(
        keystone, admin, f"effective&user.id={tree['jane']}&scope.project.id={made.admin_project_id}&include_names"
    )
    assert sorted(one["role"]["name"] for one in found) == ["manager", "member", "reader"]
    (member,) = [one for one in found if one["role"]["name"] == "member"]
    assert member == {
        "role": {"id": made.role_ids["member"], "name": "member", "domain": None},
        "user": {"id": tree["jane"], "name": "jane", "domain": {"id": "default", "name": "Default"}},
        "scope": {
            "project": {
                "id": made.admin_project_id,
                "name": "admin",
                "domain": {"id": "default", "name": "Default"},
            },
            "OS-INHERIT:inherited_to": "projects",
        },
        "links": {
            "assignment": f"{root}/OS-INHERIT/domains/default/groups/{tree['group']}"
            f"/roles/{made.role_ids['manager']}/inherited_to_projects",
            "membership": f"{root}/groups/{tree['group']}/users/{tree['jane']}",
            "prior_role": f"{root}/roles/{made.role_ids['manager']}",
        },
    }


def test_assignments_are_filtered(keystone: Any, admin: str, tree: Any) -> None:
    made = keystone.made

    def count(query: str) -> int:
        return len(assignments(keystone, admin, query))

    assert count("") == 6
    assert count("scope.system=all") == 1
    assert count("scope.domain.id=default") == 2
    assert count("scope.OS-INHERIT:inherited_to=projects") == 1
    assert count(f"role.id={made.role_ids['reader']}") == 1
    assert count(f"scope.project.id={made.demo_project_id}") == 2
    assert count(f"scope.project.id={made.demo_project_id}&include_subtree") == 2
    child = keystone.make(admin, "projects", "project", name="child", parent_id=made.demo_project_id)["id"]
    keystone.grant(admin, f"/projects/{child}/users/{made.admin_user_id}", "reader")
    assert count(f"scope.project.id={made.demo_project_id}&include_subtree") == 3
    assert count(f"effective&user.id={tree['jane']}&role.id={made.role_ids['manager']}") == 3
    assert count("user.id=unknown") == 0


@pytest.mark.parametrize(
    "query",
    [
        "user.id=a&group.id=b",
        "scope.project.id=a&scope.domain.id=b",
        "scope.system=all&scope.project.id=a",
        "effective&group.id=a",
        "effective&scope.domain.id=a&scope.OS-INHERIT:inherited_to=projects",
        "include_subtree",
        "scope.OS-INHERIT:inherited_to=domains",
        "effective=perhaps",
    ],
)
def test_filters_that_contradict_each_other_are_400(keystone: Any, admin: str, query: str) -> None:
    assert keystone.ask("GET", f"/role_assignments?{query}", token=admin).status == 400


def test_a_domains_reader_sees_the_assignments_of_that_domain(keystone: Any, admin: str) -> None:
    domain = keystone.make(admin, "domains", "domain", name="other")["id"]
    project = keystone.make(admin, "projects", "project", name="p", domain_id=domain)["id"]
    jane = keystone.make_user("jane", "reader", "domains", domain)
    keystone.grant(admin, f"/projects/{project}/users/{jane}", "member")
    token = keystone.login("jane", scope={"domain": {"id": domain}})
    assert len(assignments(keystone, token, "")) == 2
    assert assignments(keystone, token, "scope.domain.id=default") == []
    assert keystone.ask("GET", "/role_assignments", token=keystone.login("demo", scope="demo")).status == 403
