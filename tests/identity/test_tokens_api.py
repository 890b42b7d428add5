"""/auth/tokens: what is issued, and what it is worth afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from cloudctl.testing import http

UNAUTHORIZED = {
    "error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
}


def password(name: str, /, secret: str | None = "secret", scope: Any = None, **user: Any) -> dict[str, Any]:
    who = user or {"name": name, "domain": {"name": "Default"}}
    auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": {**who, "password": secret}}}}
    return {"auth": auth if scope is None else {**auth, "scope": scope}}


def exchange(token: str, scope: Any = None) -> dict[str, Any]:
    auth: dict[str, Any] = {"identity": {"methods": ["token"], "token": {"id": token}}}
    return {"auth": auth if scope is None else {**auth, "scope": scope}}


DEMO = {"project": {"name": "demo", "domain": {"name": "Default"}}}
SYSTEM = {"system": {"all": True}}


def token_of(response: Any) -> Any:
    assert response.status == 201, response
    return response.json()["token"]


def test_the_line_of_a_login_says_who_it_was(keystone: Any) -> None:
    with capturedLogs() as events:
        keystone.ask("POST", "/auth/tokens", password("demo", scope=DEMO))
        keystone.ask("POST", "/auth/tokens", password("demo", "wrong", scope=DEMO))
    lines = [formatEvent(each) for each in events]
    who = f"user={keystone.made.demo_user_id} project={keystone.made.demo_project_id}"
    assert [line.partition(" ms ")[2] for line in lines if "POST /identity/v3/auth/tokens" in line] == [
        who, "user= project=",
    ]  # fmt: skip


def test_a_project_token_says_everything_that_clients_read(keystone: Any) -> None:
    response = keystone.ask("POST", "/auth/tokens", password("demo", scope=DEMO))
    token = token_of(response)
    assert token.pop("catalog")
    assert len(token.pop("audit_ids")[0]) == 22
    assert token == {
        "methods": ["password"],
        "user": {
            "id": keystone.made.demo_user_id,
            "name": "demo",
            "domain": {"id": "default", "name": "Default"},
            "password_expires_at": None,
        },
        "issued_at": "2027-01-15T08:00:00.000000Z",
        "expires_at": "2027-01-15T09:00:00.000000Z",
        "project": {
            "id": keystone.made.demo_project_id,
            "name": "demo",
            "domain": {"id": "default", "name": "Default"},
        },
        "is_domain": False,
        "roles": [
            {"id": keystone.made.role_ids["member"], "name": "member"},
            {"id": keystone.made.role_ids["reader"], "name": "reader"},
        ],
    }
    assert len(response.headers["X-Subject-Token"]) <= 255
    assert response.headers["Vary"] == "X-Auth-Token"


def test_without_a_scope_the_token_is_unscoped(keystone: Any) -> None:
    token = token_of(keystone.ask("POST", "/auth/tokens", password("demo")))
    assert not {"project", "domain", "system", "roles", "catalog"} & token.keys()


def test_without_a_scope_the_default_project_applies_unless_unscoped_is_asked_for(keystone: Any) -> None:
    path = f"/users/{keystone.made.demo_user_id}"
    body = {"user": {"default_project_id": keystone.made.demo_project_id}}
    assert keystone.ask("PATCH", path, body, keystone.admin()).status == 200
    assert token_of(keystone.ask("POST", "/auth/tokens", password("demo")))["project"]["name"] == "demo"
    unscoped: Any
    for unscoped in ("unscoped", {"unscoped": {}}):
        assert "project" not in token_of(keystone.ask("POST", "/auth/tokens", password("demo", scope=unscoped)))


def test_a_default_project_without_a_role_is_passed_over(keystone: Any) -> None:
    user_id = keystone.make_user("stranger", default_project_id=keystone.made.demo_project_id)
    assert "project" not in token_of(keystone.ask("POST", "/auth/tokens", password("", id=user_id)))


def test_a_domain_token_and_a_system_token(keystone: Any) -> None:
    domain = token_of(keystone.ask("POST", "/auth/tokens", password("admin", scope={"domain": {"name": "Default"}})))
    assert domain["domain"] == {"id": "default", "name": "Default"}
    system = token_of(keystone.ask("POST", "/auth/tokens", password("admin", scope=SYSTEM)))
    assert system["system"] == {"all": True}
    for token in (domain, system):
        assert [role["name"] for role in token["roles"]] == ["admin", "manager", "member", "reader"]
        assert token["catalog"]
        assert "project" not in token


@pytest.mark.parametrize("query", ["nocatalog", "nocatalog=true"])
def test_nocatalog_leaves_the_catalog_out(keystone: Any, query: str) -> None:
    assert "catalog" not in token_of(keystone.ask("POST", f"/auth/tokens?{query}", password("demo", scope=DEMO)))


@pytest.mark.parametrize(
    "request_",
    [
        password("demo", "wrong"),
        password("nobody"),
        password("", "secret", id="no-such-id"),
        password("demo", "x" * 5000),
        password("", name="demo", domain={"name": "No Such Domain"}),
        password("demo", scope={"project": {"id": "no-such-project"}}),
        password("demo", scope={"project": {"name": "admin", "domain": {"id": "default"}}}),
        password("demo", scope={"project": {"id": "default"}}),
        password("demo", scope={"domain": {"id": "default"}}),
        password("demo", scope=SYSTEM),
        exchange("gAAAAA"),
        exchange("ä"),
        {"auth": {"identity": {"methods": []}}},
        {"auth": {"identity": {"methods": ["kerberos"], "kerberos": {}}}},
        {"auth": {"identity": {"methods": ["password", "mapped"], "password": {"user": {"id": "x", "password": "y"}}}}},
        {"auth": {"identity": {"methods": ["totp"], "totp": {"user": {"id": "x", "passcode": "123456"}}}}},
        {"auth": {"identity": {"methods": ["application_credential"], "application_credential": {
            "id": "x", "secret": "y"}}}},
        {"auth": {"identity": {"methods": ["application_credential"], "application_credential": {
            "name": "x", "user": {"name": "demo", "domain": {"id": "default"}}, "secret": "y"}}}},
    ],
)  # fmt: skip
def test_everything_wrong_with_credentials_has_one_wording(keystone: Any, request_: Any) -> None:
    response = keystone.ask("POST", "/auth/tokens", request_)
    assert (response.status, response.json()) == (401, UNAUTHORIZED)
    assert response.headers["WWW-Authenticate"] == 'Keystone uri="http://cloud.example.com/identity/v3"'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        [],
        "auth",
        {},
        {"auth": None},
        {"auth": {}},
        {"auth": {"identity": {}}},
        {"auth": {"identity": {"methods": "password"}}},
        {"auth": {"identity": {"methods": ["password"]}}},
        {"auth": {"identity": {"methods": ["password"], "password": {"user": {"id": "x"}}}}},
        password("", name="demo"),
        password("", None, id="x"),
        password("", id=5),
        password("", domain={"id": "default"}),
        password("", name="demo", domain={}),
        password("demo", scope={}),
        password("demo", scope={**DEMO, **SYSTEM}),
        password("demo", scope={"system": {"all": False}}),
        password("demo", scope={"system": {}}),
        password("demo", scope={"project": {"name": "demo"}}),
        password("demo", scope={"project": {}}),
        password("demo", scope={"project": "demo"}),
        password("demo", scope={"planet": {"id": "earth"}}),
        password("demo", scope="elsewhere"),
        password("demo", scope=[]),
        password("de\0mo"),
        {"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"secret": "x"}}}},
    ],
)  # fmt: skip
def test_a_malformed_request_is_400(keystone: Any, body: Any) -> None:
    response = keystone.ask("POST", "/auth/tokens", body)
    assert response.status == 400, response
    assert response.json()["error"]["title"] == "Bad Request"


def test_a_body_of_another_type_is_400(keystone: Any) -> None:
    assert keystone.ask("POST", "/auth/tokens", b"{}", Content_Type="text/plain").status == 400


def test_a_bad_token_beside_good_credentials_is_refused(keystone: Any) -> None:
    assert keystone.ask("POST", "/auth/tokens", password("demo"), "nonsense").status == 401


# -- exchange


def test_an_unscoped_token_is_exchanged_for_a_scoped_one(keystone: Any) -> None:
    first = keystone.ask("POST", "/auth/tokens", password("demo"))
    keystone.clock.advance(600)
    text = first.headers["X-Subject-Token"]
    second = token_of(keystone.ask("POST", "/auth/tokens", exchange(text, DEMO), text))
    assert second["methods"] == ["password", "token"]
    assert second["project"]["name"] == "demo"
    assert second["expires_at"] == token_of(first)["expires_at"]
    assert second["issued_at"] == "2027-01-15T08:10:00.000000Z"
    assert second["audit_ids"][1] == token_of(first)["audit_ids"][0]


def test_a_third_token_of_a_chain_names_the_first(keystone: Any) -> None:
    first = keystone.ask("POST", "/auth/tokens", password("demo"))
    second = keystone.ask("POST", "/auth/tokens", exchange(first.headers["X-Subject-Token"], DEMO))
    third = token_of(keystone.ask("POST", "/auth/tokens", exchange(second.headers["X-Subject-Token"], "unscoped")))
    assert third["audit_ids"][1] == token_of(first)["audit_ids"][0]
    assert third["methods"] == ["password", "token"]


def test_a_system_token_is_not_exchanged_for_another_scope(keystone: Any) -> None:
    system = keystone.login("admin", scope=SYSTEM)
    for scope in (DEMO, {"project": {"id": keystone.made.admin_project_id}}, {"domain": {"id": "default"}}):
        assert keystone.ask("POST", "/auth/tokens", exchange(system, scope)).status == 403
    assert "system" in token_of(keystone.ask("POST", "/auth/tokens", exchange(system, SYSTEM)))


def test_a_revoked_token_cannot_be_exchanged(keystone: Any) -> None:
    token = keystone.login("demo")
    assert keystone.ask("DELETE", "/auth/tokens", token=token, X_Subject_Token=token).status == 204
    assert keystone.ask("POST", "/auth/tokens", exchange(token, DEMO)).status == 401


# -- validate, check, revoke


def test_validation_shows_what_was_issued(keystone: Any) -> None:
    issued = keystone.ask("POST", "/auth/tokens", password("demo", scope=DEMO))
    text = issued.headers["X-Subject-Token"]
    for caller in (text, keystone.admin()):
        shown = keystone.ask("GET", "/auth/tokens", token=caller, X_Subject_Token=text)
        assert shown.status == 200
        assert shown.json() == issued.json()
        assert shown.headers["X-Subject-Token"] == text


def test_head_says_the_same_without_a_body(keystone: Any) -> None:
    token = keystone.login("demo")
    response = keystone.ask("HEAD", "/auth/tokens", token=token, X_Subject_Token=token)
    assert (response.status, response.body) == (200, b"")


def test_a_stranger_may_not_validate_or_revoke(keystone: Any) -> None:
    token, stranger = keystone.login("admin", scope="admin"), keystone.login("demo", scope="demo")
    for method in ("GET", "HEAD", "DELETE"):
        assert keystone.ask(method, "/auth/tokens", token=stranger, X_Subject_Token=token).status == 403
    assert keystone.is_valid(token)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_subject_that_is_no_token_is_404_and_a_caller_that_is_none_401(keystone: Any, method: str) -> None:
    admin = keystone.admin()
    for subject in ({}, {"X_Subject_Token": "nonsense"}, {"X_Subject_Token": ""}, {"X_Subject_Token": "x" * 4000}):
        assert keystone.ask(method, "/auth/tokens", token=admin, **subject).status == 404
    for caller in ("", "nonsense", "x" * 4000):
        assert keystone.ask(method, "/auth/tokens", token=caller, X_Subject_Token=admin).status == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_subject_that_is_no_text_is_404(keystone: Any, method: str) -> None:
    """Whatever a client sent to a service as a token: the service takes other answers for a failure of identity."""
    for token, status in ((keystone.admin(), 404), ("nonsense", 401)):
        head = f"{method} /identity/v3/auth/tokens HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\nX-Subject-Token: "
        answer = http.exchange(keystone.site, head.encode() + b"a\xff\r\nConnection: close\r\n\r\n")
        assert http.parse(answer, method).status == status


def test_a_token_ends_when_it_expires(keystone: Any) -> None:
    token = keystone.login("demo", scope="demo")
    keystone.clock.advance(3599)
    assert keystone.is_valid(token)
    keystone.clock.advance(1)
    assert not keystone.is_valid(token)


def test_only_a_service_may_validate_an_expired_token_and_only_for_two_days(keystone: Any) -> None:
    token = keystone.login("demo", scope="demo")
    keystone.make_user("nova", "service", on=keystone.made.admin_project_id)
    keystone.clock.advance(3600)
    for _ in range(2):
        service, demo = keystone.login("nova", scope="admin"), keystone.login("demo", scope="demo")
        path = "/auth/tokens?allow_expired=true"
        assert keystone.ask("GET", path, token=service, X_Subject_Token=token).status == 200
        assert keystone.ask("GET", "/auth/tokens", token=service, X_Subject_Token=token).status == 404
        assert keystone.ask("GET", path, token=demo, X_Subject_Token=token).status == 404
        keystone.clock.advance(172_800 - 1)
    keystone.clock.advance(1)
    service = keystone.login("nova", scope="admin")
    assert keystone.ask("GET", path, token=service, X_Subject_Token=token).status == 404


def test_a_revoked_token_is_refused_at_once_and_its_siblings_are_not(keystone: Any) -> None:
    first = keystone.login("demo")
    second = keystone.ask("POST", "/auth/tokens", exchange(first, DEMO)).headers["X-Subject-Token"]
    assert keystone.is_valid(first)
    assert keystone.ask("DELETE", "/auth/tokens", token=second, X_Subject_Token=first).status == 204
    assert not keystone.is_valid(first)
    assert keystone.is_valid(second)
    assert keystone.ask("DELETE", "/auth/tokens", token=second, X_Subject_Token=first).status == 404


def test_the_wrong_header_is_401(keystone: Any) -> None:
    token = keystone.login("demo")
    assert keystone.ask("GET", "/auth/projects", Authorization=f"Bearer {token}").status == 401


def test_other_methods_are_405_and_say_what_is_allowed(keystone: Any) -> None:
    response = keystone.ask("PUT", "/auth/tokens", {})
    assert response.status == 405
    assert set(response.headers["Allow"].replace(" ", "").split(",")) >= {"GET", "HEAD", "POST", "DELETE"}
