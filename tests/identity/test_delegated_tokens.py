"""A delegated token has the roles that were given, and nothing else of its user's: identity.md, section 7."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from cloudctl.db.columns import utc
from cloudctl.identity.options import IdentityOptions
from cloudctl.testing.cloud import empty_database

from .conftest import CHEAP, START, make_keystone
from .delegations import KINDS, MANAGING, RULES, V3, Delegations, Lent, User

SEED = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


class Desk:
    """demo, who is a member and has credentials of every kind, and gives away the role of a reader."""

    def __init__(self, cloud: Any) -> None:
        self.cloud = cloud
        admin, project = cloud.made.admin_user_id, cloud.made.demo_project_id
        self.demo = User(cloud.made.demo_user_id, "demo", "secret", cloud.login("demo", scope="demo"), project)
        trustee = User(admin, "admin", "secret", cloud.admin(), project)
        self.lend = Delegations(self.with_headers, cloud.admin(), trustee, lambda: utc(cloud.clock.seconds()))
        self.own = f"/users/{self.demo.id}"

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        return self.cloud.ask(method, path, body, token or self.demo.token)

    def with_headers(self, method: str, path: str, body: Any, token: str, headers: Mapping[str, str]) -> Any:
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        return self.cloud.ask(method, path, body, token, **named)

    def reader(self, kind: str) -> Lent:
        return self.lend.make(kind, self.demo, "reader")

    def seed(self, token: str = "") -> Any:
        body = {"credential": {"type": "totp", "blob": SEED, "user_id": self.demo.id}}
        return self.ask("POST", "/credentials", body, token)

    def pair(self, token: str = "") -> Any:
        return self.ask("POST", f"{self.own}/credentials/OS-EC2", {"tenant_id": self.demo.project_id}, token)

    def credential(self, token: str = "", **fields: Any) -> Any:
        body = {"application_credential": {"name": "child", **fields}}
        return self.ask("POST", f"{self.own}/application_credentials", body, token)

    def trust(self, token: str = "", **fields: Any) -> Any:
        body = {
            "trustor_user_id": self.demo.id, "trustee_user_id": self.cloud.made.admin_user_id, "impersonation": True,
            "project_id": self.demo.project_id, "roles": [{"name": "reader"}], **fields,
        }  # fmt: skip
        return self.ask("POST", "/OS-TRUST/trusts", {"trust": body}, token)


@pytest.fixture
def desk(keystone: Any) -> Desk:
    return Desk(keystone)


@pytest.mark.parametrize("kind", KINDS)
def test_no_delegated_token_is_told_a_secret_of_its_user(desk: Desk, kind: str) -> None:
    pair, seed = desk.pair().json()["credential"], desk.seed().json()["credential"]
    lent = desk.reader(kind)
    paths = ("/credentials", f"/credentials/{seed['id']}", f"{desk.own}/credentials/OS-EC2",
             f"{desk.own}/credentials/OS-EC2/{pair['access']}")  # fmt: skip
    for path in paths:
        answer = desk.ask("GET", path, token=lent.token)
        assert answer.status in (200, 401, 403, 404)
        for secret in (pair["secret"], SEED, seed["id"], pair["access"]):
            assert answer.status != 200 or secret.encode() not in answer.body, (path, answer)
    assert desk.ask("PATCH", f"/credentials/{seed['id']}", {"credential": {"blob": SEED}}, lent.token).status in (
        401,
        403,
    )
    assert desk.ask("DELETE", f"/credentials/{seed['id']}", token=lent.token).status in (401, 403)


def test_who_looks_after_the_cloud_is_told_no_second_factor(desk: Desk) -> None:
    pair, seed = desk.pair().json()["credential"], desk.seed().json()["credential"]
    admin = desk.cloud.admin()
    told = {one["type"]: one["blob"] for one in desk.ask("GET", "/credentials", token=admin).json()["credentials"]}
    assert told["totp"] is None
    assert json.loads(told["ec2"])["secret"] == pair["secret"]
    assert desk.ask("GET", f"/credentials/{seed['id']}", token=admin).json()["credential"] == {**seed, "blob": None}
    listed = desk.ask("GET", f"{desk.own}/credentials/OS-EC2", token=admin).json()["credentials"]
    assert listed == [{**pair, "secret": None}]
    renamed = desk.ask("PATCH", f"/credentials/{seed['id']}", {"credential": {"note": "n"}}, admin).json()
    assert renamed["credential"]["blob"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_no_delegated_token_makes_a_second_factor_or_authorizes_a_consumer(desk: Desk, kind: str) -> None:
    token = desk.reader(kind).token
    assert desk.seed(token).status in (401, 403)
    body = {"roles": [{"name": "reader"}]}
    assert desk.ask("PUT", "/OS-OAUTH1/authorize/any", body, token).status in (401, 403)
    assert desk.ask("GET", f"{desk.own}/OS-OAUTH1/access_tokens", token=token).status == 403


@pytest.mark.parametrize("kind", KINDS)
def test_only_unrestricted_credentials_manage_others(desk: Desk, kind: str) -> None:
    token = desk.reader(kind).token
    made = desk.credential(token)
    assert made.status == (201 if kind in MANAGING else 403), made
    other = desk.credential().json()["application_credential"]["id"] if made.status != 201 else "unknown"
    assert desk.ask("DELETE", f"{desk.own}/application_credentials/{other}", token=token).status in (401, 403, 404)
    # The role of a reader is not enough for a key pair, whoever asks.
    assert desk.pair(token).status in (401, 403)
    ec2 = {"type": "ec2", "blob": '{"access": "a", "secret": "s"}', "project_id": desk.demo.project_id}
    generic = {"credential": {**ec2, "user_id": desk.demo.id}}
    assert desk.ask("POST", "/credentials", generic, token).status in (401, 403)
    assert desk.trust(token).status in (401, 403)


@pytest.mark.parametrize("kind", MANAGING)
def test_what_a_credential_makes_has_no_role_that_it_lacks(desk: Desk, kind: str) -> None:
    token = desk.reader(kind).token
    for wanted in ([{"name": "member"}], [{"id": desk.cloud.made.role_ids["member"]}]):
        assert desk.credential(token, roles=wanted).status == 400
    child = desk.credential(token, unrestricted=True).json()["application_credential"]
    assert [role["name"] for role in child["roles"]] == ["reader"]
    grandchild = desk.credential(desk.lend.by_secret(child).token, name="grandchild")
    assert [role["name"] for role in grandchild.json()["application_credential"]["roles"]] == ["reader"]


def test_access_rules_are_passed_on_or_fewer_of_them_never_others(desk: Desk) -> None:
    token = desk.reader("ruled").token
    found = desk.credential(token).json()["application_credential"]["access_rules"]
    # In whatever order.
    all_of_them = sorted(found, key=lambda rule: [each["path"] for each in RULES].index(rule["path"]))
    assert [{name: rule[name] for name in RULES[0]} for rule in all_of_them] == list(RULES)
    for first in (RULES[0], {"id": all_of_them[0]["id"]}):
        some = desk.credential(token, name=str(first), access_rules=[first])
        assert [rule["id"] for rule in some.json()["application_credential"]["access_rules"]] == [all_of_them[0]["id"]]
    wider = {"service": "compute", "method": "GET", "path": "/**"}
    theirs = desk.credential(name="other", access_rules=[wider]).json()["application_credential"]["access_rules"][0]
    for rule in (wider, {"id": theirs["id"]}, {**RULES[0], "path": "/v3/users/**"}):
        assert desk.credential(token, name="x", access_rules=[rule]).status == 403
    # As if there were no word of rules.
    none = desk.credential(token, name="none", access_rules=[]).json()["application_credential"]["access_rules"]
    assert sorted(rule["id"] for rule in none) == sorted(rule["id"] for rule in all_of_them)


def test_a_key_pair_of_a_credential_reaches_as_far_as_the_credential(desk: Desk) -> None:
    middle = desk.lend.unrestricted(desk.demo, "member")
    pair = desk.pair(middle.token).json()["credential"]
    assert desk.ask("GET", f"{desk.own}/credentials/OS-EC2", token=middle.token).json()["credentials"] == [
        {**pair, "secret": None}
    ]
    signed = desk.lend.by_signature(pair)
    shown = desk.ask("GET", "/auth/tokens", token=signed)
    assert shown.status == 404
    assert [one["id"] for one in desk.ask("GET", "/auth/projects", token=signed).json()["projects"]] == [
        desk.demo.project_id
    ]
    assert desk.ask("DELETE", f"{desk.own}/credentials/OS-EC2/{pair['access']}", token=middle.token).status == 204


def test_a_credential_does_not_choose_the_secret_of_a_key_pair_that_reaches_further(desk: Desk) -> None:
    """Not even an administrator's: the pair would have all roles of the user, and no access rules."""
    desk.cloud.grant(desk.cloud.admin(), f"/projects/{desk.demo.project_id}/users/{desk.demo.id}", "admin")
    rules = [{"service": "identity", "method": "PATCH", "path": "/v3/credentials/*"}]
    token = desk.lend.restricted(desk.demo, "admin", unrestricted=True, access_rules=rules).token
    desk.pair()
    (theirs,) = desk.ask("GET", "/credentials").json()["credentials"]
    body = {"credential": {"blob": json.dumps({"access": "a", "secret": "s"})}}
    assert desk.ask("PATCH", f"/credentials/{theirs['id']}", body, token).status == 403


def test_a_signed_request_stands_for_one_project_and_for_no_login(desk: Desk) -> None:
    token = desk.reader("ec2").token
    identity = {"methods": ["token"], "token": {"id": token}}
    for scope in ("unscoped", {"project": {"id": desk.demo.project_id}}, {"system": {"all": True}}):
        assert desk.ask("POST", "/auth/tokens", {"auth": {"identity": identity, "scope": scope}}).status == 403
    again = desk.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
    assert again.json()["token"]["project"]["id"] == desk.demo.project_id
    assert desk.credential(again.headers["X-Subject-Token"]).status == 403


def test_a_restricted_credential_sees_itself_alone(desk: Desk) -> None:
    desk.credential(name="other", access_rules=RULES)
    lent = desk.lend.restricted(desk.demo, "reader", access_rules=[RULES[0]])
    listed = desk.ask("GET", f"{desk.own}/application_credentials", token=lent.token).json()["application_credentials"]
    assert [one["id"] for one in listed] == [lent.source]
    rules = desk.ask("GET", f"{desk.own}/access_rules", token=lent.token).json()["access_rules"]
    assert [rule["path"] for rule in rules] == [RULES[0]["path"]]
    every = desk.ask("GET", f"{desk.own}/access_rules").json()["access_rules"]
    assert len(every) == 2
    for rule in every:
        status = 200 if rule["id"] == rules[0]["id"] else 404
        assert desk.ask("GET", f"{desk.own}/access_rules/{rule['id']}", token=lent.token).status == status
    for one in desk.ask("GET", f"{desk.own}/application_credentials").json()["application_credentials"]:
        status = 200 if one["id"] == lent.source else 404
        assert desk.ask("GET", f"{desk.own}/application_credentials/{one['id']}", token=lent.token).status == status


@pytest.mark.parametrize("kind", KINDS)
def test_trusts_are_seen_and_ended_by_the_people_not_by_their_delegates(desk: Desk, kind: str) -> None:
    trust = desk.trust().json()["trust"]["id"]
    token = desk.reader(kind).token
    assert desk.ask("GET", f"/OS-TRUST/trusts/{trust}", token=token).status == 403
    assert desk.ask("DELETE", f"/OS-TRUST/trusts/{trust}", token=token).status in (401, 403)
    listed = desk.ask("GET", f"/OS-TRUST/trusts?trustor_user_id={desk.demo.id}", token=token)
    assert trust.encode() not in listed.body
    assert desk.ask("GET", f"/OS-TRUST/trusts/{trust}").status == 200


def test_the_token_of_a_trust_sees_that_trust_and_ends_what_it_has_made() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2)
    desk = Desk(make_keystone(empty_database(clock), clock, options))
    lent = desk.lend.trust(desk.demo, "member", impersonation=True, allow_redelegation=True)
    assert desk.trust(lent.token, roles=[{"name": "manager"}]).status == 403
    passed = desk.trust(lent.token, allow_redelegation=False).json()["trust"]
    listed = desk.ask("GET", f"/OS-TRUST/trusts?trustor_user_id={desk.demo.id}", token=lent.token).json()["trusts"]
    assert {one["id"] for one in listed} == {lent.source, passed["id"]}
    assert desk.ask("DELETE", f"/OS-TRUST/trusts/{lent.source}", token=lent.token).status == 403
    assert desk.ask("DELETE", f"/OS-TRUST/trusts/{passed['id']}", token=lent.token).status == 204


def test_uses_that_are_counted_are_not_passed_on_without_a_count() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, trust_redelegations=2)
    desk = Desk(make_keystone(empty_database(clock), clock, options))
    assert desk.trust(remaining_uses=1, allow_redelegation=True).status == 400
    assert desk.trust(remaining_uses=1).status == 201


def test_what_one_user_may_have_is_limited() -> None:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(
        argon2=CHEAP, application_credential_limit=2, access_rule_limit=2, credential_limit=2, trust_limit=2
    )
    desk = Desk(make_keystone(empty_database(clock), clock, options))
    rule = {**RULES[0], "path": "/1"}
    assert desk.credential(name="1", access_rules=[rule, {**rule, "path": "/2"}]).status == 201
    assert desk.credential(name="2", access_rules=[rule, {**rule, "path": "/3"}]).status == 403
    assert [desk.credential(name=str(number)).status for number in (2, 3)] == [201, 403]
    assert [desk.trust().status for _ in range(3)] == [201, 201, 403]
    assert [desk.seed().status, desk.pair().status, desk.pair().status, desk.seed().status] == [201, 201, 403, 403]


def test_the_limits_are_on_unless_they_are_switched_off() -> None:
    options = IdentityOptions()
    limits = (options.application_credential_limit, options.access_rule_limit, options.credential_limit)
    assert all(0 < limit <= 1000 for limit in (*limits, options.trust_limit))


def test_a_reader_makes_no_key_pair_by_the_other_way(keystone: Any) -> None:
    project = keystone.made.demo_project_id
    user_id = keystone.make_user("jane", "reader", on=project)
    desk = Desk(keystone)
    desk.demo = evolve(desk.demo, id=user_id, token=keystone.login("jane", scope="demo"))
    ec2 = {"type": "ec2", "blob": '{"access": "a", "secret": "s"}', "project_id": project, "user_id": user_id}
    assert desk.ask("POST", "/credentials", {"credential": ec2}).status == 403
    assert desk.seed().status == 201


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ruled"])
def test_a_delegated_token_is_told_of_the_one_scope_that_it_has(desk: Desk, kind: str) -> None:
    project = f"/projects/{desk.cloud.made.admin_project_id}"
    desk.cloud.grant(desk.cloud.admin(), f"{project}/users/{desk.demo.id}", "member")
    desk.cloud.grant(desk.cloud.admin(), f"/domains/default/users/{desk.demo.id}", "member")
    desk.cloud.grant(desk.cloud.admin(), f"/system/users/{desk.demo.id}", "member")
    token = desk.reader(kind).token
    projects = desk.cloud.ask("GET", f"{V3}/auth/projects", token=token).json()["projects"]
    assert [one["id"] for one in projects] == [desk.demo.project_id]
    assert desk.ask("GET", "/auth/domains", token=token).json()["domains"] == []
    assert desk.ask("GET", "/auth/system", token=token).json()["system"] == []
