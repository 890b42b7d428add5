"""What the manager of a domain may do with people, and what he learns of other domains: identity.md, «Personas»."""

from __future__ import annotations

import re
from typing import Any

import pytest

UNKNOWN = "0123456789abcdef0123456789abcdef"
VARIABLE = re.compile(r"<(\w+)>")


class Domain:
    """A domain with its manager, and «jane», who is in it."""

    def __init__(self, cloud: Any) -> None:
        self.cloud, self.admin = cloud, cloud.admin()
        self.id = cloud.make(self.admin, "domains", "domain", name="acme")["id"]
        self.project = cloud.make(self.admin, "projects", "project", name="anvils", domain_id=self.id)["id"]
        self.manager = self.login_of("boss", "manager")
        self.reader = self.login_of("clerk", "reader")
        self.jane = self.user("jane")
        self.group = cloud.make(self.admin, "groups", "group", name="crew", domain_id=self.id)["id"]

    def user(self, name: str) -> str:
        user = self.cloud.make(self.admin, "users", "user", name=name, password="secret", domain_id=self.id)
        return str(user["id"])

    def login_of(self, name: str, role: str) -> str:
        user_id = self.user(name)
        self.cloud.grant(self.admin, f"/domains/{self.id}/users/{user_id}", role)
        return self.login(user_id, {"domain": {"id": self.id}})

    def login(self, user_id: str, scope: Any) -> str:
        password = {"user": {"id": user_id, "password": "secret"}}
        auth = {"identity": {"methods": ["password"], "password": password}, "scope": scope}
        return str(self.ask("POST", "/auth/tokens", {"auth": auth}).headers["X-Subject-Token"])

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        return self.cloud.ask(method, path, body, token)

    def attempts(self, user_id: str) -> list[int]:
        """What the manager is answered who would be that user, or be rid of him."""
        asked: list[tuple[str, Any]] = [
            ("PATCH", {"user": {"password": "mine"}}),
            ("PATCH", {"user": {"options": {"multi_factor_auth_enabled": False}}}),
            ("PATCH", {"user": {"enabled": True}}),
            ("DELETE", None),
        ]
        return [self.ask(method, f"/users/{user_id}", body, self.manager).status for method, body in asked]

    def joined(self) -> list[int]:
        path = f"/groups/{self.group}"
        return [
            self.ask("PUT", f"{path}/users/{self.jane}", None, self.manager).status,
            self.ask("DELETE", f"{path}/users/{self.jane}", None, self.manager).status,
            self.ask("DELETE", path, None, self.manager).status,
        ]


@pytest.fixture
def acme(keystone: Any) -> Domain:
    return Domain(keystone)


def places(acme: Domain) -> list[tuple[str, str]]:
    """(where, role): what a domain's manager cannot give."""
    made = acme.cloud.made
    return [
        ("/system", "reader"),
        (f"/projects/{acme.project}", "admin"),
        (f"/domains/{acme.id}", "service"),
        (f"/projects/{made.demo_project_id}", "reader"),
        ("/domains/default", "member"),
    ]


def test_nobody_becomes_who_holds_more_by_setting_a_password(acme: Domain) -> None:
    for number, (where, role) in enumerate(places(acme)):
        user_id = acme.user(f"user{number}")
        acme.cloud.grant(acme.admin, f"{where}/users/{user_id}", role)
        assert acme.attempts(user_id) == [403] * 4, (where, role)
        assert acme.ask("PATCH", f"/users/{user_id}", {"user": {"password": "x"}}, acme.admin).status == 200


def test_nobody_becomes_who_holds_more_through_a_group_or_an_inherited_grant(acme: Domain) -> None:
    acme.ask("PUT", f"/groups/{acme.group}/users/{acme.jane}", None, acme.admin)
    acme.cloud.grant(acme.admin, f"/projects/{acme.project}/groups/{acme.group}", "admin")
    assert acme.attempts(acme.jane) == [403] * 4
    other = acme.user("heir")
    role = acme.cloud.made.role_ids["admin"]
    path = f"/OS-INHERIT/domains/{acme.id}/users/{other}/roles/{role}/inherited_to_projects"
    assert acme.ask("PUT", path, None, acme.admin).status == 204
    assert acme.attempts(other) == [403] * 4


def test_nobody_becomes_the_trustee_of_who_holds_more(acme: Domain) -> None:
    trust = {
        "trustor_user_id": acme.cloud.made.admin_user_id, "trustee_user_id": acme.jane, "impersonation": True,
        "project_id": acme.cloud.made.admin_project_id, "roles": [{"name": "admin"}],
        "expires_at": "2027-01-15T08:30:00Z",
    }  # fmt: skip
    assert acme.ask("POST", "/OS-TRUST/trusts", {"trust": trust}, acme.admin).status == 201
    assert acme.attempts(acme.jane) == [403] * 4
    acme.cloud.clock.advance(1801)
    assert acme.attempts(acme.jane)[0] == 200


def test_whoever_holds_what_a_manager_gives_is_managed(acme: Domain) -> None:
    acme.cloud.grant(acme.admin, f"/projects/{acme.project}/users/{acme.jane}", "member")
    acme.cloud.grant(acme.admin, f"/domains/{acme.id}/users/{acme.jane}", "manager")
    assert acme.attempts(acme.jane) == [200, 200, 200, 204]


def test_nobody_joins_a_group_that_holds_more(acme: Domain) -> None:
    for where, role in places(acme):
        acme.cloud.grant(acme.admin, f"{where}/groups/{acme.group}", role)
        assert acme.joined() == [403] * 3, (where, role)
        path = f"{where}/groups/{acme.group}/roles/{acme.cloud.made.role_ids[role]}"
        assert acme.ask("DELETE", path, None, acme.admin).status == 204
    acme.cloud.grant(acme.admin, f"/projects/{acme.project}/groups/{acme.group}", "member")
    assert acme.joined() == [204] * 3


def test_what_is_in_another_domain_is_answered_as_what_is_nowhere(acme: Domain) -> None:
    """Every Operation on people, projects, groups, grants and roles, for each of its ids."""
    cloud = acme.cloud
    foreign = {
        "user_id": cloud.made.demo_user_id,
        "project_id": cloud.made.demo_project_id,
        "group_id": cloud.make(acme.admin, "groups", "group", name="others")["id"],
        "domain_id": "default",
        "role_id": cloud.made.role_ids["admin"],
    }
    own = {
        "user_id": acme.jane,
        "project_id": acme.project,
        "group_id": acme.group,
        "domain_id": acme.id,
        "role_id": cloud.made.role_ids["member"],
    }
    asked = 0
    for path, operation in cloud.app.operations:
        names = VARIABLE.findall(path)
        if operation.policy is None or not set(names) & set(foreign):
            continue
        for name in set(names) & set(foreign):
            for token in (acme.manager, acme.reader):
                answers = []
                for id in (foreign[name], UNKNOWN):
                    values = {**own, name: id}
                    target = f"/identity{filled(path, values)}"
                    answer = cloud.ask(operation.method.replace("*", "GET"), target, token=token)
                    answers.append((answer.status, answer.body.replace(id.encode(), b"ID")))
                assert answers[0] == answers[1], (operation.key, name)
                asked += 1
    assert asked > 200


def filled(path: str, values: dict[str, str]) -> str:
    return VARIABLE.sub(lambda match: values.get(match[1], "something"), path)


def test_a_project_is_not_put_below_one_of_another_domain_nor_of_none(acme: Domain) -> None:
    answers = []
    for parent in (acme.cloud.made.demo_project_id, UNKNOWN):
        for domain in ({}, {"domain_id": acme.id}):
            body = {"project": {"name": "x", "parent_id": parent, **domain}}
            answer = acme.ask("POST", "/projects", body, acme.manager)
            answers.append((answer.status, answer.body.replace(parent.encode(), b"ID")))
    assert answers[:2] == answers[2:]


def test_a_manager_reads_the_tags_of_the_domain_and_does_not_change_them(acme: Domain) -> None:
    path = f"/projects/{acme.id}/tags"
    assert acme.ask("PUT", path, {"tags": ["red"]}, acme.admin).status == 200
    assert acme.ask("GET", path, None, acme.manager).json()["tags"] == ["red"]
    changes: Any = (("PUT", path, {"tags": []}), ("DELETE", path, None), ("PUT", f"{path}/blue", None))
    for method, where, body in (*changes, ("DELETE", f"{path}/red", None)):
        assert acme.ask(method, where, body, acme.manager).status == 403, (method, where)


def test_what_people_have_in_other_domains_is_shown_to_themselves_only(acme: Domain) -> None:
    cloud = acme.cloud
    other = cloud.make(acme.admin, "groups", "group", name="others")["id"]
    for group_id, user_id in ((acme.group, acme.jane), (other, acme.jane), (acme.group, cloud.made.demo_user_id)):
        assert acme.ask("PUT", f"/groups/{group_id}/users/{user_id}", None, acme.admin).status == 204
    for where in (f"/projects/{acme.project}", f"/projects/{cloud.made.demo_project_id}", f"/domains/{acme.id}"):
        cloud.grant(acme.admin, f"{where}/users/{acme.jane}", "member")

    def seen(path: str, token: str) -> set[str]:
        found = acme.ask("GET", path, None, token).json()
        return {one["name"] for one in found[path.rpartition("/")[2]]}

    projects, groups = f"/users/{acme.jane}/projects", f"/users/{acme.jane}/groups"
    for token in (acme.reader, acme.manager):
        assert (seen(projects, token), seen(groups, token)) == ({"anvils"}, {"crew"})
        assert seen(f"/groups/{acme.group}/users", token) == {"jane"}
    for token in (acme.login(acme.jane, {"domain": {"id": acme.id}}), acme.admin):
        assert (seen(projects, token), seen(groups, token)) == ({"anvils", "demo"}, {"crew", "others"})
    assert seen(f"/groups/{acme.group}/users", acme.admin) == {"jane", "demo"}


def test_a_manager_lists_the_roles_that_he_gives_and_none_of_another_domain(acme: Domain) -> None:
    acme.cloud.make(acme.admin, "roles", "role", name="member", domain_id="default")
    assert acme.ask("GET", "/roles?domain_id=default", None, acme.manager).json()["roles"] == []
    found = acme.ask("GET", "/roles", None, acme.manager).json()["roles"]
    assert [role["name"] for role in found] == ["manager", "member", "reader"]


GROUPS, PROJECT = "OS-EP-FILTER/endpoint_groups", "OS-EP-FILTER/projects/x"
PROVIDERS, SERVICE_PROVIDERS = "OS-FEDERATION/identity_providers", "OS-FEDERATION/service_providers"
LISTS = ("services", "endpoints", "policies", "OS-OAUTH1/consumers", "roles/x/implies", "system/users/x/roles")
FEDERATED = (PROVIDERS, f"{PROVIDERS}/x/protocols", "OS-FEDERATION/mappings", SERVICE_PROVIDERS)
OF_THE_CLOUD = [
    *(f"{each}{one}" for each in (*LISTS, *FEDERATED, GROUPS, f"{PROJECT}/endpoints") for one in ("", "/x")),
    *(f"{GROUPS}/x/{each}" for each in ("endpoints", "projects", "projects/x")),
    *(f"{PROJECT}/endpoint_groups", "OS-EP-FILTER/endpoints/x/projects"),
    *("domains/x/config", "domains/config/default", "role_inferences", "OS-TRUST/trusts"),
]


def test_who_administers_a_domain_alone_reads_nothing_that_is_of_the_whole_cloud(acme: Domain) -> None:
    chief = acme.login_of("chief", "admin")
    answers = {path: acme.ask("GET", f"/{path}", None, chief).status for path in OF_THE_CLOUD}
    assert set(answers.values()) == {403}, answers
    asked = {path: acme.ask("GET", f"/{path}", None, acme.admin).status for path in OF_THE_CLOUD}
    assert set(asked.values()) == {200, 404}, asked


def test_who_administers_a_domain_alone_has_nothing_to_do_with_the_keys_of_users(acme: Domain) -> None:
    chief, keys = acme.login_of("chief", "admin"), f"/users/{acme.jane}/credentials/OS-EC2"
    asked = [(method, f"{keys}/x") for method in ("GET", "DELETE")] + [("GET", keys), ("POST", keys)]
    asked += [(method, path.replace("credentials/OS-EC2", "application_credentials")) for method, path in asked[:3]]
    found = {each: [acme.ask(*each, {"tenant_id": "x"}, who).status for who in (chief, acme.admin)] for each in asked}
    assert {of_domain for of_domain, _ in found.values()} == {403}, found
    assert {of_cloud for _, of_cloud in found.values()} == {200, 404}, found
