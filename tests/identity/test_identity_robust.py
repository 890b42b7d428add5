"""No request makes an identity call fail with 500, and none is open that should not be."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from cloudctl.rest import policy
from cloudctl.rest.route import Operation

PUBLIC = {
    ("POST", "/v3/OS-OAUTH1/access_token"),
    ("POST", "/v3/OS-OAUTH1/request_token"),
    ("GET", "/"),
    ("GET", "/v3"),
    ("POST", "/v3/auth/tokens"),
    ("POST", "/v3/users/<user_id>/password"),
}
ODD_IDS = ["default", "x" * 300, "%C3%A4", "%20", "a%00b", "..", "'", "%F0%9F%98%80", "-1"]
ODD_VALUES: list[Any] = [
    None, True, -1, 2**31, 10**30, 1.5, 1e308, "", " ", "x" * 5000, "\ud83d\ude00", "a\u0000b", [], {}, [[]],
    {"a": None}, ["x"], "default", "2027-01-01T00:00:00Z", {"id": "x"}, [{"id": "default"}], [{"name": "member"}],
]  # fmt: skip
KEYS = [
    "id", "name", "enabled", "password", "options", "extra", "links", "domain_id", "parent_id", "tags", "description",
    "type", "blob", "url", "interface", "service_id", "region_id", "roles", "expires_at", "user_id", "project_id",
    "trustor_user_id", "trustee_user_id", "impersonation", "access_rules", "methods", "identity", "scope", "filters",
    "original_password", "access", "signature", "token", "params", "headers", "credentials", "auth", "tenant_id",
]  # fmt: skip
QUERIES = [
    "",
    "limit=1",
    "limit=x",
    "marker=%FF",
    "sort_key=id",
    "name=%00",
    "enabled=",
    "a=b&a=c",
    "effective",
    "since=9",
]


def envelope(operation: Operation) -> str | None:
    body = operation.body_at((0, 0))
    return body.key if body else None


def odd_body(chance: random.Random, key: str | None) -> Any:
    inner: Any = {chance.choice(KEYS): chance.choice(ODD_VALUES) for _ in range(chance.randrange(8))}
    if chance.random() < 0.1:
        inner = chance.choice(ODD_VALUES)
    if chance.random() < 0.2:
        inner = [inner]
    return {key: inner} if key else inner


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_a_client_sends_is_answered_with_500(keystone: Any, seed: int) -> None:
    chance = random.Random(seed)
    admin = keystone.admin()
    for path, operation in keystone.app.operations:
        filled = "/".join(chance.choice(ODD_IDS) if part.startswith("<") else part for part in path.split("/"))
        body = None
        if operation.body is not None:
            body = json.dumps(odd_body(chance, envelope(operation))).encode()
        where = f"/identity{filled}?{chance.choice(QUERIES)}"
        response = keystone.ask(operation.method, where, body, admin, X_Subject_Token=chance.choice(["", "x", admin]))
        assert response.status < 500, (operation.key, body, response)
        if not keystone.is_valid(admin):
            # The administrator has revoked or disabled itself.
            keystone.clock.advance(1)
            admin = keystone.login("admin", scope="admin")


def test_only_these_calls_need_no_token(keystone: Any) -> None:
    public = {(operation.method, path) for path, operation in keystone.app.operations if operation.policy is None}
    assert public == PUBLIC
    for path, operation in keystone.app.operations:
        if operation.policy is not None:
            response = keystone.ask(operation.method, f"/identity{path.replace('<', '').replace('>', '')}", {})
            assert response.status == 401, operation.key


def test_every_rule_is_used_and_every_call_has_one(keystone: Any) -> None:
    shipped = policy.shipped(["identity"])
    used = {operation.policy for _, operation in keystone.app.operations if operation.policy}
    assert used <= shipped.keys()
    asked_by_handlers = {
        "identity:validate_expired_token", "identity:use_all_roles", "identity:get_foreign_domain",
        "identity:list_all_credentials", "identity:list_all_trusts", "identity:get_all_trusts",
        "identity:delete_all_trusts", "identity:list_all_limits", "identity:change_privileged",
    }  # fmt: skip
    personas = {"identity:domain_reader", "identity:domain_manager", "identity:owner"}
    assert shipped.keys() - used - asked_by_handlers - personas == set()


def test_a_member_of_a_project_changes_nothing_but_its_own(keystone: Any) -> None:
    """Every call that changes something and is not about the caller is refused to `demo`."""
    demo = keystone.login("demo", scope="demo")
    own: tuple[str, ...] = (
        "application_credentials",
        "OS-EC2",
        "OS-TRUST",
        "/credentials",
        "access_rules",
        "/auth/tokens",
        "password",
    )
    own += ("/v3/OS-OAUTH1/request_token", "/v3/OS-OAUTH1/access_token", "/v3/OS-OAUTH1/authorize")
    for path, operation in keystone.app.operations:
        if operation.method in ("GET", "HEAD") or any(word in path for word in own):
            continue
        filled = path.replace("<user_id>", keystone.made.admin_user_id).replace("<", "").replace(">", "")
        response = keystone.ask(operation.method, f"/identity{filled}", b"{}", demo)
        assert response.status == 403, (operation.key, response)
