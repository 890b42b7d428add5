"""Application credentials and access rules: identity.md, section 7."""

from __future__ import annotations

from typing import Any

import pytest

from tests.statements import asked


@pytest.fixture
def demo(keystone: Any) -> str:
    token: str = keystone.login("demo", scope="demo")
    return token


def path(keystone: Any) -> str:
    return f"/users/{keystone.made.demo_user_id}/application_credentials"


def create(keystone: Any, token: str, **fields: Any) -> Any:
    body = {"application_credential": {"name": "robot", **fields}}
    return keystone.ask("POST", path(keystone), body, token)


def made(keystone: Any, token: str, **fields: Any) -> Any:
    response = create(keystone, token, **fields)
    assert response.status == 201, response
    return response.json()["application_credential"]


def login(keystone: Any, credential: Any, scope: Any = None, **instead: Any) -> Any:
    how = {"id": credential["id"], "secret": credential["secret"], **instead}
    how = {name: value for name, value in how.items() if value is not None}
    auth: dict[str, Any] = {"identity": {"methods": ["application_credential"], "application_credential": how}}
    return keystone.ask("POST", "/auth/tokens", {"auth": auth if scope is None else {**auth, "scope": scope}})


def token_for(keystone: Any, credential: Any) -> str:
    response = login(keystone, credential)
    assert response.status == 201, response
    return str(response.headers["X-Subject-Token"])


def test_a_credential_shows_its_secret_once_and_logs_in_without_a_password(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo, description="d")
    assert len(credential["secret"]) == 86
    assert credential["project_id"] == keystone.made.demo_project_id
    assert [role["name"] for role in credential["roles"]] == ["member", "reader"]
    assert (credential["unrestricted"], credential["expires_at"], credential["expiration"]) == (False, None, None)
    assert "access_rules" not in credential
    for where in (path(keystone), f"{path(keystone)}/{credential['id']}"):
        assert "secret" not in keystone.ask("GET", where, token=demo).body.decode()
    token = login(keystone, credential).json()["token"]
    assert token["methods"] == ["application_credential"]
    assert token["project"]["name"] == "demo"
    assert token["application_credential"] == {"id": credential["id"], "name": "robot", "restricted": True}


def test_it_logs_in_by_name_and_user_too(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo, secret="my own")
    user = {"name": "demo", "domain": {"name": "Default"}}
    assert login(keystone, credential, id=None, name="robot", user=user).status == 201
    assert login(keystone, credential, id=None, name="robot", user={"id": keystone.made.demo_user_id}).status == 201
    assert login(keystone, credential, id=None, name="robot", user={"id": keystone.made.admin_user_id}).status == 401
    assert login(keystone, credential, secret="wrong").status == 401


def test_its_scope_is_its_project_and_no_other(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo)
    assert login(keystone, credential, {"project": {"id": keystone.made.demo_project_id}}).status == 201
    for scope in ({"project": {"id": keystone.made.admin_project_id}}, {"system": {"all": True}}, "unscoped"):
        assert login(keystone, credential, scope).status == 401


def test_its_token_is_exchanged_in_the_same_project_only(keystone: Any, demo: str) -> None:
    token = token_for(keystone, made(keystone, demo))
    auth: dict[str, Any] = {"identity": {"methods": ["token"], "token": {"id": token}}}
    again = keystone.ask("POST", "/auth/tokens", {"auth": auth}).json()["token"]
    assert again["application_credential"]["name"] == "robot"
    assert again["methods"] == ["application_credential", "token"]
    scope = {"project": {"id": keystone.made.demo_project_id}}
    assert keystone.ask("POST", "/auth/tokens", {"auth": {**auth, "scope": scope}}).status == 403


def test_it_holds_the_roles_that_were_chosen_and_those_they_imply(keystone: Any, demo: str) -> None:
    reader = made(keystone, demo, roles=[{"name": "reader"}])
    assert [role["name"] for role in reader["roles"]] == ["reader"]
    assert [role["name"] for role in login(keystone, reader).json()["token"]["roles"]] == ["reader"]
    both = made(keystone, demo, name="two", roles=[{"id": keystone.made.role_ids["member"]}])
    assert [role["name"] for role in both["roles"]] == ["member", "reader"]
    roles: Any
    for roles in ([{"name": "admin"}], [{"id": keystone.made.role_ids["manager"]}], [{}]):
        assert create(keystone, demo, name="x", roles=roles).status == 400


@pytest.mark.parametrize("name", ["expires_at", "expiration"])
def test_it_and_its_tokens_end_when_it_expires(keystone: Any, demo: str, name: str) -> None:
    credential = made(keystone, demo, **{name: "2027-01-15T08:30:00Z"})
    assert credential["expires_at"] == credential["expiration"] == "2027-01-15T08:30:00.000000"
    token = login(keystone, credential)
    assert token.json()["token"]["expires_at"] == "2027-01-15T08:30:00.000000Z"
    keystone.clock.advance(1799)
    assert keystone.is_valid(token.headers["X-Subject-Token"])
    keystone.clock.advance(1)
    assert not keystone.is_valid(token.headers["X-Subject-Token"])
    assert login(keystone, credential).status == 401


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": None},
        {"secret": ""},
        {"secret": "x" * 4097},
        {"expires_at": "soon"},
        {"expires_at": "2027-01-15T08:00:00Z"},
        {"expires_at": "0001-01-01T00:00:00+23:59"},
        {"expires_at": "2028-01-01T00:00:00Z", "expiration": "2029-01-01T00:00:00Z"},
        {"roles": [{"name": 1}]},
        {"unrestricted": "yes"},
        {"access_rules": [{}]},
        {"access_rules": [{"path": "/x", "method": "GET"}]},
        {"access_rules": [{"path": "x", "method": "GET", "service": "compute"}]},
        {"access_rules": [{"path": "/x", "method": "get", "service": "compute"}]},
        {"access_rules": [{"path": "/" + "x" * 225, "method": "GET", "service": "compute"}]},
    ],
)
def test_a_malformed_credential_is_400(keystone: Any, demo: str, fields: Any) -> None:
    assert create(keystone, demo, **fields).status == 400


def test_names_are_unique_for_a_user(keystone: Any, demo: str) -> None:
    made(keystone, demo)
    assert create(keystone, demo).status == 409


def test_it_is_made_for_oneself_with_a_project_token(keystone: Any) -> None:
    assert create(keystone, keystone.admin()).status == 403
    assert create(keystone, keystone.login("demo")).status == 403


def test_only_an_unrestricted_one_manages_others(keystone: Any, demo: str) -> None:
    restricted = token_for(keystone, made(keystone, demo))
    unrestricted = token_for(keystone, made(keystone, demo, name="chief", unrestricted=True))
    assert create(keystone, restricted, name="x").status == 403
    other = made(keystone, unrestricted, name="y")
    where = f"{path(keystone)}/{other['id']}"
    assert keystone.ask("DELETE", where, token=restricted).status == 403
    assert keystone.ask("DELETE", where, token=unrestricted).status == 204
    ec2 = f"/users/{keystone.made.demo_user_id}/credentials/OS-EC2"
    body = {"tenant_id": keystone.made.demo_project_id}
    assert keystone.ask("POST", ec2, body, restricted).status == 403
    assert keystone.ask("POST", ec2, body, unrestricted).status == 201


def test_others_see_nothing_of_it(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo)
    keystone.make_user("jane", "member", on=keystone.made.demo_project_id)
    jane = keystone.login("jane", scope="demo")
    for where in (path(keystone), f"{path(keystone)}/{credential['id']}"):
        assert keystone.ask("GET", where, token=jane).status == 403
        assert keystone.ask("GET", where, token=keystone.admin()).status == 200
    mine = keystone.ask("GET", f"/users/{keystone.made.admin_user_id}/application_credentials", token=keystone.admin())
    assert mine.json()["application_credentials"] == []


def test_its_tokens_end_with_it(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo)
    token = token_for(keystone, credential)
    assert keystone.is_valid(token)
    where = f"{path(keystone)}/{credential['id']}"
    assert keystone.ask("DELETE", where, token=demo).status == 204
    assert not keystone.is_valid(token)
    assert login(keystone, credential).status == 401
    assert keystone.ask("DELETE", where, token=demo).status == 404


def test_losing_one_of_its_roles_deletes_it(keystone: Any) -> None:
    user_id = keystone.make_user("jane", "manager", on=keystone.made.demo_project_id)
    grants = f"/projects/{keystone.made.demo_project_id}/users/{user_id}"
    keystone.grant(keystone.admin(), grants, "reader")
    jane = keystone.login("jane", scope="demo")
    where = f"/users/{user_id}/application_credentials"
    for name, role in (("big", "manager"), ("small", "reader")):
        body = {"application_credential": {"name": name, "roles": [{"name": role}]}}
        assert keystone.ask("POST", where, body, jane).status == 201
    grant = f"{grants}/roles/{keystone.made.role_ids['manager']}"
    assert keystone.ask("DELETE", grant, token=keystone.admin()).status == 204
    left = keystone.ask("GET", where, token=jane).json()["application_credentials"]
    assert [credential["name"] for credential in left] == ["small"]


def test_disabling_the_user_ends_its_tokens(keystone: Any, demo: str) -> None:
    token = token_for(keystone, made(keystone, demo))
    body = {"user": {"enabled": False}}
    keystone.ask("PATCH", f"/users/{keystone.made.demo_user_id}", body, keystone.admin())
    assert not keystone.is_valid(token)


# -- access rules

PROJECTS = {"path": "/v3/auth/projects", "method": "GET", "service": "identity"}


def test_a_credential_with_rules_may_call_only_what_they_say(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo, access_rules=[PROJECTS])
    token = token_for(keystone, credential)
    assert keystone.ask("GET", "/auth/projects", token=token).status == 200
    assert keystone.ask("GET", "/auth/domains", token=token).status == 401
    assert keystone.ask("HEAD", "/auth/projects", token=token).status == 401


def test_an_empty_list_of_rules_is_what_clients_send_who_want_none(keystone: Any, demo: str) -> None:
    credential = made(keystone, demo, access_rules=[])
    assert "access_rules" not in credential
    token = token_for(keystone, credential)
    assert keystone.ask("GET", "/auth/domains", token=token).status == 200


def test_an_empty_list_of_rules_frees_nobody_from_those_of_his_token(keystone: Any, demo: str) -> None:
    mine = {**PROJECTS, "path": "/v3/users/*/application_credentials", "method": "POST"}
    token = token_for(keystone, made(keystone, demo, access_rules=[PROJECTS, mine], unrestricted=True))
    passed_on = made(keystone, token, name="passed on", access_rules=[])
    assert {rule["path"] for rule in passed_on["access_rules"]} == {PROJECTS["path"], mine["path"]}


def test_a_validator_that_knows_no_rules_is_told_404(keystone: Any, demo: str) -> None:
    token = token_for(keystone, made(keystone, demo, access_rules=[PROJECTS]))
    for headers, status in (({}, 404), ({"OpenStack_Identity_Access_Rules": "1.0"}, 200)):
        response = keystone.ask("GET", "/auth/tokens", token=keystone.admin(), X_Subject_Token=token, **headers)
        assert response.status == status
    rules = response.json()["token"]["application_credential"]["access_rules"]
    assert [{**rule, "id": ""} for rule in rules] == [{**PROJECTS, "id": ""}]


def test_equal_rules_are_kept_once_and_only_unused_ones_can_be_deleted(keystone: Any, demo: str) -> None:
    first = made(keystone, demo, access_rules=[PROJECTS])
    rule_id = first["access_rules"][0]["id"]
    second = made(keystone, demo, name="two", access_rules=[{"id": rule_id}, PROJECTS])
    assert [rule["id"] for rule in second["access_rules"]] == [rule_id]
    where = f"/users/{keystone.made.demo_user_id}/access_rules"
    assert [rule["id"] for rule in keystone.ask("GET", where, token=demo).json()["access_rules"]] == [rule_id]
    assert keystone.ask("GET", f"{where}?service=compute", token=demo).json()["access_rules"] == []
    assert keystone.ask("GET", f"{where}/{rule_id}", token=demo).json()["access_rule"]["path"] == PROJECTS["path"]
    assert keystone.ask("DELETE", f"{where}/{rule_id}", token=demo).status == 403
    for credential in (first, second):
        keystone.ask("DELETE", f"{path(keystone)}/{credential['id']}", token=demo)
    assert keystone.ask("DELETE", f"{where}/{rule_id}", token=demo).status == 204
    assert keystone.ask("GET", f"{where}/{rule_id}", token=demo).status == 404


def test_rules_are_read_by_their_owner_and_for_the_whole_system(keystone: Any, demo: str) -> None:
    rule = made(keystone, demo, access_rules=[PROJECTS])["access_rules"][0]
    where = f"/users/{keystone.made.demo_user_id}/access_rules"
    auditor = keystone.make_user("auditor")
    keystone.grant(keystone.admin(), f"/system/users/{auditor}", "reader")
    system = keystone.login("auditor", scope={"system": {"all": True}})
    for token, status in ((demo, 200), (system, 200), (keystone.admin(), 403)):
        for each in (where, f"{where}/{rule['id']}"):
            assert keystone.ask("GET", each, token=token).status == status


def test_rules_keep_the_order_in_which_they_were_given(keystone: Any, demo: str) -> None:
    paths = [f"/v3/{number}" for number in range(20)]
    rules = [{**PROJECTS, "path": path} for path in paths]
    assert [rule["path"] for rule in made(keystone, demo, access_rules=rules)["access_rules"]] == paths
    where = f"/users/{keystone.made.demo_user_id}/access_rules"
    assert [rule["path"] for rule in keystone.ask("GET", where, token=demo).json()["access_rules"]] == paths


def test_a_list_costs_the_same_number_of_queries_however_many_have_rules(keystone: Any, demo: str) -> None:
    counts = []
    for name in "abc":
        rules = [{"service": "compute", "method": "GET", "path": rule} for rule in ("/both", f"/{name}")]
        made(keystone, demo, name=name, access_rules=rules)
        with asked() as seen:
            listed = keystone.ask("GET", path(keystone), token=demo).json()["application_credentials"]
        counts.append(len(seen))
    paths = sorted([rule["path"] for rule in each["access_rules"]] for each in listed)
    assert paths == [["/both", "/a"], ["/both", "/b"], ["/both", "/c"]]
    assert counts[1] == counts[2]


def test_a_credential_costs_the_same_number_of_queries_however_many_rules_it_has(keystone: Any, demo: str) -> None:
    counts = []
    for name, most in (("first", 1), ("few", 2), ("many", 200)):
        rules = [{"service": "compute", "method": "GET", "path": f"/{name}/{number}"} for number in range(most)]
        with asked() as seen:
            assert len(made(keystone, demo, name=name, access_rules=rules)["access_rules"]) == most
        counts.append(len(seen))
    assert counts[1] == counts[2]


def test_the_rule_of_another_user_cannot_be_taken(keystone: Any, demo: str) -> None:
    rule = made(keystone, demo, access_rules=[PROJECTS])["access_rules"][0]["id"]
    admin = keystone.admin()
    where = f"/users/{keystone.made.admin_user_id}/application_credentials"
    body = {"application_credential": {"name": "x", "access_rules": [{"id": rule}]}}
    assert keystone.ask("POST", where, body, admin).status == 404


# -- roles that are lost in a roundabout way


def others(keystone: Any, admin: str) -> str:
    """A domain that is disabled."""
    made: str = keystone.make(admin, "domains", "domain", name="other", enabled=False)["id"]
    return made


def lose_by_domain(keystone: Any, admin: str, user_id: str, project: str) -> Any:
    """The role is that of a group of another domain, which is deleted."""
    domain = others(keystone, admin)
    group = keystone.make(admin, "groups", "group", name="crew", domain_id=domain)["id"]
    keystone.ask("PUT", f"/groups/{group}/users/{user_id}", token=admin)
    keystone.grant(admin, f"{project}/groups/{group}", "member")
    return lambda: keystone.ask("DELETE", f"/domains/{domain}", token=admin)


def lose_by_implication(keystone: Any, admin: str, user_id: str, project: str) -> Any:
    """The role is implied by another one, and then no longer."""
    implied = f"/roles/{prior(keystone, admin, user_id, project)}/implies/{keystone.made.role_ids['member']}"
    return lambda: keystone.ask("DELETE", implied, token=admin)


def lose_by_prior(keystone: Any, admin: str, user_id: str, project: str) -> Any:
    """The role is implied by another one, which is deleted."""
    role_id = prior(keystone, admin, user_id, project)
    return lambda: keystone.ask("DELETE", f"/roles/{role_id}", token=admin)


def prior(keystone: Any, admin: str, user_id: str, project: str) -> str:
    """A role of the user that implies `member`."""
    role_id: str = keystone.make(admin, "roles", "role", name="prior")["id"]
    keystone.ask("PUT", f"/roles/{role_id}/implies/{keystone.made.role_ids['member']}", token=admin)
    keystone.ask("PUT", f"{project}/users/{user_id}/roles/{role_id}", token=admin)
    return role_id


@pytest.mark.parametrize("way", [lose_by_domain, lose_by_implication, lose_by_prior])
def test_losing_a_role_with_what_gave_it_deletes_the_credential(keystone: Any, way: Any) -> None:
    """It does not come back to life when the role is given again."""
    admin, user_id = keystone.admin(), keystone.make_user("jane")
    project = f"/projects/{keystone.made.demo_project_id}"
    lose = way(keystone, admin, user_id, project)
    where = f"/users/{user_id}/application_credentials"
    scope = {"project": {"id": keystone.made.demo_project_id}}
    token = keystone.login("jane", scope=scope)
    for name, role in (("kept", "reader"), ("robot", "member")):
        keystone.grant(admin, f"{project}/users/{user_id}", "reader")
        body = {"application_credential": {"name": name, "roles": [{"name": role}]}}
        assert keystone.ask("POST", where, body, token).status == 201
    assert lose().status == 204
    left = keystone.ask("GET", where, token=keystone.admin()).json()["application_credentials"]
    assert [one["name"] for one in left] == ["kept"]


def test_disabling_its_project_deletes_it(keystone: Any, demo: str) -> None:
    made(keystone, demo)
    project = f"/projects/{keystone.made.demo_project_id}"
    for enabled in (False, True):
        changed = keystone.ask("PATCH", project, {"project": {"enabled": enabled}}, keystone.admin())
        assert changed.status == 200
    found = keystone.ask("GET", path(keystone), token=keystone.login("demo", scope="demo")).json()
    assert found["application_credentials"] == []


# -- the roles of domains


@pytest.mark.parametrize("domain", [{"id": "default"}, {"name": "Default"}])
def test_a_role_of_a_domain_is_not_taken_for_one_of_the_cloud(keystone: Any, demo: str, domain: Any) -> None:
    """No token has a role of a domain."""
    keystone.make(keystone.admin(), "roles", "role", name="member", domain_id="default")
    assert create(keystone, demo, roles=[{"name": "member", "domain": domain}]).status == 400
    assert create(keystone, demo, roles=[{"name": "member", "domain": {}}]).status == 201
