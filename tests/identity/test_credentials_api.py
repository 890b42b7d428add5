"""/credentials, EC2 key pairs, and requests signed with them: identity.md, section 8."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text


@pytest.fixture
def demo(keystone: Any) -> str:
    token: str = keystone.login("demo", scope="demo")
    return token


@pytest.fixture
def pair(keystone: Any, demo: str) -> Any:
    """demo's key pair."""
    response = keystone.ask("POST", ec2(keystone), {"tenant_id": keystone.made.demo_project_id}, demo)
    assert response.status == 201, response
    return response.json()["credential"]


def ec2(keystone: Any) -> str:
    return f"/users/{keystone.made.demo_user_id}/credentials/OS-EC2"


def test_a_credential_is_kept_sealed_and_shown_to_its_owner(keystone: Any, demo: str) -> None:
    user_id = keystone.made.demo_user_id
    fields = {"type": "cert", "blob": "very secret", "user_id": user_id}
    made = keystone.make(demo, "credentials", "credential", **fields)
    assert (made["blob"], made["project_id"]) == ("very secret", None)
    stored = keystone.db.transact(True, lambda c: c.execute(text("SELECT blob FROM identity_credentials")).scalar())
    assert b"secret" not in stored
    path = f"/credentials/{made['id']}"
    assert keystone.ask("GET", path, token=demo).json()["credential"] == made
    updated = keystone.ask("PATCH", path, {"credential": {"blob": "other", "note": "n"}}, demo).json()["credential"]
    assert (updated["blob"], updated["note"]) == ("other", "n")
    assert keystone.ask("DELETE", path, token=demo).status == 204
    assert keystone.ask("GET", path, token=keystone.admin()).status == 404


def test_nobody_sees_or_makes_the_credentials_of_others(keystone: Any, demo: str) -> None:
    admin = keystone.admin()
    fields = {"type": "cert", "blob": "x", "user_id": keystone.made.admin_user_id}
    made = keystone.make(admin, "credentials", "credential", **fields)
    assert keystone.ask("GET", "/credentials", token=demo).json()["credentials"] == []
    assert len(keystone.ask("GET", "/credentials", token=admin).json()["credentials"]) == 1
    assert keystone.ask("POST", "/credentials", {"credential": fields}, demo).status == 403
    for method in ("GET", "PATCH", "DELETE"):
        body: Any = {"credential": {}} if method == "PATCH" else None
        # Nor whether there is one.
        foreign, unknown = (keystone.ask(method, f"/credentials/{id}", body, demo) for id in (made["id"], "unknown"))
        assert foreign.status == unknown.status == 403 and foreign.body == unknown.body
        assert keystone.ask(method, "/credentials/unknown", body, admin).status == 404


@pytest.mark.parametrize("path", ["credentials", "OS-EC2"])
def test_nobody_learns_of_projects_by_making_credentials_for_them(keystone: Any, demo: str, path: str) -> None:
    """Only who may make them for anybody makes them for a project in which the user has no role."""

    def make(token: str, project_id: str) -> Any:
        blob = json.dumps({"access": f"{token[-20:]}{project_id}", "secret": "s"})
        whose = {"user_id": keystone.made.demo_user_id, "project_id": project_id}
        if path == "OS-EC2":
            return keystone.ask("POST", ec2(keystone), {"tenant_id": project_id}, token)
        return keystone.ask("POST", "/credentials", {"credential": {"type": "ec2", "blob": blob, **whose}}, token)

    foreign, admin = keystone.made.admin_project_id, keystone.admin()
    refused = {project_id: make(demo, project_id) for project_id in (foreign, "unknown")}
    assert [answer.status for answer in refused.values()] == [404, 404]
    told = {answer.body.replace(id.encode(), b"") for id, answer in refused.items()}
    assert len(told) == 1
    assert (make(admin, foreign).status, make(admin, "unknown").status) == (201, 404)
    # Another project in which the user has a role, whatever the token's own.
    keystone.grant(admin, f"/projects/{foreign}/users/{keystone.made.demo_user_id}", "reader")
    assert make(demo, foreign).status == 201


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "ec2", "blob": "{}", "project_id": "P"},
        {"type": "ec2", "blob": "[", "project_id": "P"},
        {"type": "ec2", "blob": "[" * 5000, "project_id": "P"},
        {"type": "ec2", "blob": '{"access": 1, "secret": "s"}', "project_id": "P"},
        {"type": "ec2", "blob": '{"access": "\\ud800", "secret": "s"}', "project_id": "P"},
        {"type": "ec2", "blob": '{"access": "a", "secret": "\\ud800"}', "project_id": "P"},
        {"type": "ec2", "blob": '{"access": "a", "secret": "s"}'},
        {"type": "", "blob": "x"},
        {"type": "cert"},
    ],
)
def test_a_malformed_credential_is_400(keystone: Any, demo: str, fields: Any) -> None:
    body = {**fields, "user_id": keystone.made.demo_user_id}
    if "project_id" in body:
        body["project_id"] = keystone.made.demo_project_id
    assert keystone.ask("POST", "/credentials", {"credential": body}, demo).status == 400


def test_whose_a_credential_is_cannot_be_changed(keystone: Any, pair: Any, demo: str) -> None:
    path = f"/credentials/{hashlib.sha256(pair['access'].encode()).hexdigest()}"
    for change in ({"user_id": "x"}, {"project_id": "x"}, {"type": "cert"}, {"id": "x"}, {"blob": "{}"}):
        assert keystone.ask("PATCH", path, {"credential": change}, demo).status == 400
    assert keystone.ask("PATCH", path, {"credential": {"type": "ec2"}}, demo).status == 200


def test_an_access_key_is_unique(keystone: Any, pair: Any, demo: str) -> None:
    fields = {
        "type": "ec2",
        "blob": json.dumps({"access": pair["access"], "secret": "mine"}),
        "user_id": keystone.made.demo_user_id,
        "project_id": keystone.made.demo_project_id,
    }
    assert keystone.ask("POST", "/credentials", {"credential": fields}, demo).status == 409


def test_a_key_pair_is_listed_shown_and_deleted(keystone: Any, pair: Any, demo: str) -> None:
    assert (len(pair["access"]), len(pair["secret"]), pair["trust_id"]) == (32, 32, None)
    assert pair["tenant_id"] == keystone.made.demo_project_id
    assert keystone.ask("GET", ec2(keystone), token=demo).json()["credentials"] == [pair]
    one = f"{ec2(keystone)}/{pair['access']}"
    assert keystone.ask("GET", one, token=demo).json()["credential"] == pair
    other = one.replace(keystone.made.demo_user_id, keystone.made.admin_user_id)
    assert keystone.ask("GET", other, token=keystone.admin()).status == 404
    assert keystone.ask("GET", other, token=demo).status == 403
    assert keystone.ask("DELETE", one, token=demo).status == 204
    assert keystone.ask("GET", one, token=demo).status == 404


def test_key_pairs_link_to_the_next_page(keystone: Any, pair: Any, demo: str) -> None:
    keystone.clock.advance(1)
    body = {"tenant_id": keystone.made.demo_project_id}
    another = keystone.ask("POST", ec2(keystone), body, demo).json()["credential"]
    first = keystone.ask("GET", f"{ec2(keystone)}?limit=1", token=demo).json()
    following = first["links"]["next"].removeprefix("http://cloud.example.com")
    second = keystone.ask("GET", following, token=demo).json()
    assert (first["credentials"], second["credentials"]) == ([pair], [another])
    assert second["links"]["next"] is None


# -- signed requests


def v4(pair: Any, when: str = "20270115T080000Z", signed: str = "host;x-amz-date") -> Any:
    """A GET signed by hand, as POST /ec2tokens takes it."""
    scope = "20270115/RegionOne/s3/aws4_request"
    body_hash = hashlib.sha256(b"").hexdigest()
    headers = {"host": "s3.example.com", "x-amz-date": when}
    lines = "".join(f"{name}:{headers[name]}\n" for name in signed.split(";"))
    canonical = f"GET\n/\n\n{lines}\n{signed}\n{body_hash}"
    text = f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(v4_key(pair["secret"], scope), text.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={pair['access']}/{scope}, SignedHeaders={signed}, Signature={signature}"
    )
    return {
        "access": pair["access"],
        "signature": signature,
        "host": "s3.example.com",
        "verb": "GET",
        "path": "/",
        "params": {},
        "headers": {"Host": "s3.example.com", "X-Amz-Date": when, "Authorization": authorization},
        "body_hash": body_hash,
    }


def v4_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def v2(pair: Any, time: str = "Timestamp") -> Any:
    params = {
        "Action": "List All",
        "AWSAccessKeyId": pair["access"],
        "SignatureMethod": "HmacSHA256",
        "SignatureVersion": "2",
        time: "2027-01-15T08:00:00Z",
    }
    query = "&".join(f"{name}={quote(value)}" for name, value in sorted(params.items()))
    text = f"GET\nec2.example.com\n/services/Cloud\n{query}"
    signature = base64.b64encode(hmac.new(pair["secret"].encode(), text.encode(), hashlib.sha256).digest()).decode()
    return {
        "access": pair["access"],
        "signature": signature,
        "host": "ec2.example.com",
        "verb": "GET",
        "path": "/services/Cloud",
        "params": {**params, "Signature": signature},
    }


@pytest.mark.parametrize("sign", [v2, v4])
@pytest.mark.parametrize("name", ["credentials", "ec2Credentials"])
def test_a_signed_request_gives_a_token_of_who_signed_it(keystone: Any, pair: Any, sign: Any, name: str) -> None:
    response = keystone.ask("POST", "/ec2tokens", {name: sign(pair)}, keystone.admin())
    assert response.status == 200, response
    token = response.json()["token"]
    assert (token["user"]["name"], token["project"]["name"]) == ("demo", "demo")
    assert token["methods"] == ["ec2credential"]
    assert keystone.is_valid(response.headers["X-Subject-Token"])


@pytest.mark.parametrize("sign", [v2, v4])
@pytest.mark.parametrize("change", [{"signature": "x"}, {"verb": "PUT"}, {"path": "/other"}, {"params": {"a": "b"}}])
def test_a_request_that_was_changed_is_401(keystone: Any, pair: Any, sign: Any, change: Any) -> None:
    body = {"credentials": {**sign(pair), **change}}
    assert keystone.ask("POST", "/ec2tokens", body, keystone.admin()).status == 401


def test_an_old_request_an_unknown_key_and_nonsense(keystone: Any, pair: Any) -> None:
    keystone.clock.advance(901)
    admin = keystone.admin()
    assert keystone.ask("POST", "/ec2tokens", {"credentials": v4(pair)}, admin).status == 401
    unknown = {**v4(pair), "access": "unknown"}
    assert keystone.ask("POST", "/ec2tokens", {"credentials": unknown}, admin).status == 404
    assert keystone.ask("POST", "/ec2tokens", {}, admin).status == 400
    for headers in ({}, {"x-amz-date": "yesterday"}, {"x-amz-date": "20270115T081501Z"}):
        body = {"credentials": {"access": pair["access"], "signature": "ü", "headers": headers}}
        assert keystone.ask("POST", "/ec2tokens", body, admin).status == 401
    for authorization in ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=x"):
        headers = {"x-amz-date": "20270115T081501Z", "authorization": authorization}
        body = {"credentials": {"access": pair["access"], "signature": "x", "headers": headers}}
        assert keystone.ask("POST", "/ec2tokens", body, admin).status == 401


def test_an_old_request_is_not_made_new_by_a_time_that_was_not_signed(keystone: Any, pair: Any) -> None:
    sent, by_query = v4(pair, signed="host"), v2(pair, time="Expires")
    assert keystone.ask("POST", "/ec2tokens", {"credentials": sent}, keystone.admin()).status == 200
    keystone.clock.advance(901)
    admin, fresh = keystone.admin(), "20270115T081501Z"
    authorization = f"{sent['headers']['Authorization']}, Date=20270115T080000Z"
    headers = {**sent["headers"], "X-Amz-Date": fresh, "Authorization": authorization}
    for replayed in (
        {**sent, "headers": headers},
        {**by_query, "headers": {"X-Amz-Date": fresh}},
        {**by_query, "headers": {"Date": "2027-01-15T08:15:01Z"}},
    ):
        assert keystone.ask("POST", "/ec2tokens", {"credentials": replayed}, admin).status == 401


@pytest.mark.parametrize("version", [1, 4])
def test_an_s3_request_tells_who_signed_it_and_gives_no_token(keystone: Any, pair: Any, version: int) -> None:
    scope = "20270115/RegionOne/s3/aws4_request"
    if version == 4:
        text = f"AWS4-HMAC-SHA256\n20270115T080000Z\n{scope}\nabc".encode()
        signature = hmac.new(v4_key(pair["secret"], scope), text, hashlib.sha256).hexdigest()
    else:
        text = b"GET\n\n\nThu, 17 Nov 2005 18:49:58 GMT\n/bucket"
        signature = base64.b64encode(hmac.new(pair["secret"].encode(), text, hashlib.sha1).digest()).decode()
    body = {"access": pair["access"], "signature": signature, "token": base64.b64encode(text).decode()}
    response = keystone.ask("POST", "/s3tokens", {"credentials": body}, keystone.admin())
    assert response.status == 200
    assert response.json()["token"]["user"]["name"] == "demo"
    assert "X-Subject-Token" not in response.headers
    for change, status in (({"signature": "x"}, 401), ({"access": "unknown"}, 404), ({"token": "%"}, 400)):
        changed = {"credentials": {**body, **change}}
        assert keystone.ask("POST", "/s3tokens", changed, keystone.admin()).status == status


def test_signed_requests_are_taken_from_services_only(keystone: Any, pair: Any, demo: str) -> None:
    assert keystone.ask("POST", "/ec2tokens", {"credentials": v4(pair)}, demo).status == 403
    assert keystone.ask("POST", "/ec2tokens", {"credentials": v4(pair)}).status == 401
