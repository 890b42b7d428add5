"""OAuth 1.0a: from a consumer to a token, and everything that must not lead to one. RFC 5849."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from cloudctl.identity import oauth_signatures

HOST = "http://localhost"

DIGESTS = {"HMAC-SHA1": hashlib.sha1, "HMAC-SHA256": hashlib.sha256, "HMAC-SHA512": hashlib.sha512}


class Consumer:
    """A client library of our own making, so that it agrees with the RFC and not with the code under test."""

    def __init__(self, cloud: Any) -> None:
        self.cloud = cloud
        made = cloud.make(cloud.admin(), "OS-OAUTH1/consumers", "consumer", description="a robot")
        self.id, self.secret = made["id"], made["secret"]
        self.count = 0

    def header(self, path: str, token: str = "", token_secret: str = "", **changes: str) -> str:
        self.count += 1
        fields = {
            "oauth_consumer_key": self.id,
            "oauth_nonce": f"nonce{self.count}",
            "oauth_signature_method": "HMAC-SHA1",
            "oauth_timestamp": str(int(self.cloud.clock.seconds())),
            "oauth_version": "1.0",
            **({"oauth_token": token} if token else {}),
            **changes,
        }
        pairs = "&".join(sorted(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in fields.items()))
        url = f"{HOST}/identity/v3{path}"
        text = "&".join(quote(part, safe="~") for part in ("POST", url, pairs))
        key = f"{self.secret}&{token_secret}"
        digest = DIGESTS.get(fields["oauth_signature_method"])
        signature = key
        if digest is not None:
            signature = base64.b64encode(hmac.new(key.encode(), text.encode(), digest).digest()).decode()
        return "OAuth " + ", ".join(
            f'{name}="{quote(value, safe="~")}"' for name, value in {**fields, "oauth_signature": signature}.items()
        )

    def request_token(self, project_id: str = "", **changes: str) -> Any:
        path = "/OS-OAUTH1/request_token"
        headers = {
            "Authorization": self.header(path, oauth_callback="oob", **changes),
            "Requested_Project_Id": project_id or self.cloud.made.demo_project_id,
        }
        return self.cloud.ask("POST", path, **headers, Host="localhost")

    def access_token(self, asked: dict[str, str], verifier: str) -> Any:
        path = "/OS-OAUTH1/access_token"
        header = self.header(path, asked["oauth_token"], asked["oauth_token_secret"], oauth_verifier=verifier)
        return self.cloud.ask("POST", path, Authorization=header, Host="localhost")

    def login(self, access: dict[str, str], header: str = "", scope: Any = None) -> Any:
        auth: dict[str, Any] = {"identity": {"methods": ["oauth1"], "oauth1": {}}}
        if scope:
            auth["scope"] = scope
        header = header or self.header("/auth/tokens", access["oauth_token"], access["oauth_token_secret"])
        return self.cloud.ask("POST", "/auth/tokens", {"auth": auth}, Authorization=header, Host="localhost")

    def delegated(self, *roles: str) -> dict[str, str]:
        """An access token with these roles of the user demo."""
        asked = fields(self.request_token())
        verifier = authorize(self.cloud, asked, *roles).json()["token"]["oauth_verifier"]
        return fields(self.access_token(asked, verifier))


def fields(response: Any) -> dict[str, str]:
    assert response.status == 201, response
    assert response.headers["Content-Type"] == "application/x-www-form-urlencoded"
    return {name: values[0] for name, values in parse_qs(response.body.decode(), strict_parsing=True).items()}


def authorize(cloud: Any, asked: dict[str, str], *roles: str, token: str = "") -> Any:
    body = {"roles": [{"name": role} for role in roles]}
    path = f"/OS-OAUTH1/authorize/{asked['oauth_token']}"
    return cloud.ask("PUT", path, body, token or cloud.login("demo", scope="demo"))


@pytest.fixture
def consumer(keystone: Any) -> Consumer:
    return Consumer(keystone)


def test_a_consumer_acts_with_the_roles_that_it_was_given(keystone: Any, consumer: Consumer) -> None:
    access = consumer.delegated("reader")
    response = consumer.login(access)
    assert response.status == 201, response
    token = response.json()["token"]
    assert token["methods"] == ["oauth1"]
    assert token["user"]["name"] == token["project"]["name"] == "demo"
    assert [role["name"] for role in token["roles"]] == ["reader"]
    assert token["OS-OAUTH1"] == {"access_token_id": access["oauth_token"], "consumer_id": consumer.id}
    assert keystone.is_valid(response.headers["X-Subject-Token"])


def test_the_signature_of_the_rfc(keystone: Any) -> None:
    """Section 1.2: the request for temporary credentials, and the one for the photograph."""
    header = (
        'OAuth realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_token="nnch734d00sl2jdk", '
        'oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131202", oauth_nonce="chapoH", '
        'oauth_signature="MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"'
    )
    query = [("file", "vacation.jpg"), ("size", "original")]
    request = oauth_signatures.read("GET", "http://photos.example.net/photos", query, header)
    oauth_signatures.check(request, "kd94hf93k423kf44", "pfkkdhi9sl3r4s00", 137131202)
    with pytest.raises(oauth_signatures.BadSignature):
        oauth_signatures.check(request, "kd94hf93k423kf44", "another", 137131202)


def test_the_base_string_of_the_rfc() -> None:
    """Section 3.4.1.1: parameters of the query, the header and the form, some of them twice."""
    header = (
        'OAuth realm="Example", oauth_consumer_key="9djdj82h48djs9d2", oauth_token="kkk9d7dh3k39sjv7", '
        'oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131201", oauth_nonce="7d8f3e4a", '
        'oauth_signature="bYT5CMsGcbgUdFHObYMEfcx6bsw%3D"'
    )
    query = [("b5", "=%3D"), ("a3", "a"), ("c@", ""), ("a2", "r b")]
    request = oauth_signatures.read("post", "http://EXAMPLE.COM:80/request", query, header, b"c2&a3=2+q")
    assert oauth_signatures.base_string(request) == (
        "POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D"
        "%26c2%3D%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-SHA1"
        "%26oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7"
    )


def test_a_signed_request_is_taken_once(consumer: Consumer) -> None:
    access = consumer.delegated("member")
    header = consumer.header("/auth/tokens", access["oauth_token"], access["oauth_token_secret"])
    assert consumer.login(access, header).status == 201
    assert consumer.login(access, header).status == 401


def test_whatever_is_wrong_is_said_in_the_same_words(keystone: Any, consumer: Consumer) -> None:
    access = consumer.delegated("member")
    right, secret = access["oauth_token"], access["oauth_token_secret"]
    path = "/auth/tokens"
    now = keystone.clock.seconds()
    headers = [
        "Basic abc",
        "OAuth nonsense",
        'OAuth oauth_nonce="a", oauth_nonce="b"',
        'OAuth oauth_nonce="%ff"',
        'OAuth oauth_consumer_key="%00"',
        consumer.header(path, right, "wrong"),
        consumer.header(path, "unknown", secret),
        consumer.header(path, right, secret, oauth_consumer_key="unknown"),
        consumer.header("/elsewhere", right, secret),
        consumer.header(path, right, secret, oauth_timestamp=str(int(now) - 601)),
        consumer.header(path, right, secret, oauth_timestamp=str(int(now) + 601)),
        consumer.header(path, right, secret, oauth_timestamp="soon"),
        consumer.header(path, right, secret, oauth_version="2.0"),
        consumer.header(path, right, secret, oauth_nonce=""),
        consumer.header(path, right, secret, oauth_signature_method="RSA-SHA1"),
        consumer.header(path, right, "wrong", oauth_signature_method="PLAINTEXT"),
        consumer.header(path, right, secret, oauth_signature_method="PLAINTEXT", oauth_nonce=""),
    ]
    answers = [consumer.login(access, header) for header in headers]
    assert [answer.status for answer in answers] == [401] * len(headers)
    assert len({answer.body for answer in answers}) == 1
    assert consumer.login(access).status == 201


@pytest.mark.parametrize("method", ["HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "PLAINTEXT"])
def test_a_request_is_signed_by_any_method_that_needs_no_key_pair(
    keystone: Any, consumer: Consumer, method: str
) -> None:
    access = consumer.delegated("member")
    right, secret = access["oauth_token"], access["oauth_token_secret"]
    header = consumer.header("/auth/tokens", right, secret, oauth_signature_method=method)
    assert consumer.login(access, header).status == 201
    assert consumer.login(access, header).status == 401  # its nonce is used up


def test_only_the_verifier_turns_a_request_token_into_an_access_token(keystone: Any, consumer: Consumer) -> None:
    asked = fields(consumer.request_token())
    assert consumer.access_token(asked, "").status == 401
    verifier = authorize(keystone, asked, "member").json()["token"]["oauth_verifier"]
    assert consumer.access_token(asked, "wrong").status == 401
    assert Consumer(keystone).access_token(asked, verifier).status == 401
    assert consumer.access_token(asked, verifier).status == 201
    assert consumer.access_token(asked, verifier).status == 401


def test_one_gives_only_what_one_has(keystone: Any, consumer: Consumer) -> None:
    asked = fields(consumer.request_token())
    assert authorize(keystone, asked, "admin").status == 403
    foreign = fields(consumer.request_token(keystone.made.admin_project_id))
    assert authorize(keystone, foreign, "member").status == 403
    assert authorize(keystone, asked).status == 400
    assert authorize(keystone, asked, "member").status == 200
    assert authorize(keystone, asked, "reader").status == 409
    assert authorize(keystone, {"oauth_token": "unknown"}, "member").status == 404


def test_a_role_that_is_taken_away_ends_what_was_given(keystone: Any, consumer: Consumer) -> None:
    access = consumer.delegated("member")
    token = consumer.login(access).headers["X-Subject-Token"]
    where = f"/projects/{keystone.made.demo_project_id}/users/{keystone.made.demo_user_id}"
    removed = keystone.ask("DELETE", f"{where}/roles/{keystone.made.role_ids['member']}", token=keystone.admin())
    assert removed.status == 204
    assert not keystone.is_valid(token)
    assert consumer.login(access).status == 401


@pytest.mark.parametrize("what", ["access token", "consumer", "project", "user"])
def test_tokens_end_with_what_they_come_from(keystone: Any, consumer: Consumer, what: str) -> None:
    access = consumer.delegated("member")
    token = consumer.login(access).headers["X-Subject-Token"]
    assert keystone.is_valid(token)
    user = keystone.made.demo_user_id
    path = {
        "access token": f"/users/{user}/OS-OAUTH1/access_tokens/{access['oauth_token']}",
        "consumer": f"/OS-OAUTH1/consumers/{consumer.id}",
        "project": f"/projects/{keystone.made.demo_project_id}",
        "user": f"/users/{user}",
    }[what]
    assert keystone.ask("DELETE", path, token=keystone.admin()).status == 204
    assert not keystone.is_valid(token)
    assert consumer.login(access).status == 401


def test_lifetimes_are_kept(keystone: Any, consumer: Consumer) -> None:
    answer = consumer.request_token()
    asked = fields(answer)
    # Stock clients read it without taking escapes apart.
    assert f"oauth_expires_at={asked['oauth_expires_at']}".encode() in answer.body
    access = consumer.delegated("member")
    assert asked["oauth_expires_at"] < access["oauth_expires_at"]
    keystone.clock.advance(28_801)
    assert authorize(keystone, asked, "member").status == 404
    keystone.clock.advance(57_000)
    token = consumer.login(access)
    # Tokens end at whole seconds.
    assert token.json()["token"]["expires_at"][:19] == access["oauth_expires_at"][:19]
    keystone.clock.advance(600)
    assert not keystone.is_valid(token.headers["X-Subject-Token"])
    assert consumer.login(access).status == 401


def test_a_delegated_token_delegates_nothing(keystone: Any, consumer: Consumer) -> None:
    token = consumer.login(consumer.delegated("member")).headers["X-Subject-Token"]
    user, project = keystone.made.demo_user_id, keystone.made.demo_project_id
    trust = {
        "trustor_user_id": user, "trustee_user_id": user, "project_id": project, "impersonation": True,
        "roles": [{"name": "member"}],
    }  # fmt: skip
    tries = [
        keystone.ask("POST", "/OS-TRUST/trusts", {"trust": trust}, token),
        keystone.ask(
            "POST", f"/users/{user}/application_credentials", {"application_credential": {"name": "a"}}, token
        ),
        keystone.ask("POST", f"/users/{user}/credentials/OS-EC2", {"tenant_id": project}, token),
        keystone.ask("GET", f"/users/{user}/OS-OAUTH1/access_tokens", token=token),
        authorize(keystone, fields(consumer.request_token()), "member", token=token),
        keystone.ask("POST", "/auth/tokens", {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}}),
    ]
    assert [answer.status for answer in tries] == [403] * len(tries)


def test_it_logs_in_to_its_own_project_only(keystone: Any, consumer: Consumer) -> None:
    access = consumer.delegated("member")
    assert consumer.login(access, scope={"project": {"id": keystone.made.demo_project_id}}).status == 201
    assert consumer.login(access, scope={"project": {"id": keystone.made.admin_project_id}}).status == 401
    assert consumer.login(access, scope={"system": {"all": True}}).status == 401


def test_the_user_sees_what_was_given(keystone: Any, consumer: Consumer) -> None:
    access = consumer.delegated("member")
    token, path = keystone.login("demo", scope="demo"), f"/users/{keystone.made.demo_user_id}/OS-OAUTH1/access_tokens"
    (found,) = keystone.ask("GET", path, token=token).json()["access_tokens"]
    assert found["id"] == access["oauth_token"]
    assert found["authorizing_user_id"] == keystone.made.demo_user_id
    assert found["project_id"] == keystone.made.demo_project_id
    (role,) = keystone.ask("GET", f"{path}/{found['id']}/roles", token=token).json()["roles"]
    assert role["name"] == "member"
    assert keystone.ask("GET", f"{path}/{found['id']}/roles/{role['id']}", token=token).json() == {"role": role}
    assert keystone.ask("GET", f"{path}/{found['id']}/roles/unknown", token=token).status == 404
    other = f"/users/{keystone.made.admin_user_id}/OS-OAUTH1/access_tokens"
    assert keystone.ask("GET", other, token=token).status == 403
    assert keystone.ask("GET", f"{other}/{found['id']}", token=keystone.admin()).status == 404


def test_the_secret_of_a_consumer_is_shown_once_and_not_chosen(keystone: Any, consumer: Consumer) -> None:
    admin, path = keystone.admin(), f"/OS-OAUTH1/consumers/{consumer.id}"
    assert "secret" not in keystone.ask("GET", path, token=admin).json()["consumer"]
    assert keystone.ask("PATCH", path, {"consumer": {"secret": "mine"}}, admin).status == 400
    changed = keystone.ask("PATCH", path, {"consumer": {"description": "new", "x": 1}}, admin).json()["consumer"]
    assert (changed["description"], changed["x"], "secret" in changed) == ("new", 1, False)
    (listed,) = keystone.ask("GET", "/OS-OAUTH1/consumers", token=admin).json()["consumers"]
    assert listed == changed
    assert keystone.ask("GET", path, token=keystone.login("demo", scope="demo")).status == 403


def test_a_request_token_needs_a_project_that_exists(consumer: Consumer) -> None:
    assert consumer.request_token("unknown").status == 404
    path = "/OS-OAUTH1/request_token"
    missing = consumer.cloud.ask("POST", path, Authorization=consumer.header(path), Host="localhost")
    assert missing.status == 400
