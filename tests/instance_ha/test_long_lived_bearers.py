"""What an alerting tool sends with each alert, for years: an application credential in the place of a token."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response
from tests.compute.asking import refusal
from tests.instance_ha.asking import Ha

ONLY_NOTIFICATIONS = [{"service": "instance-ha", "method": "POST", "path": "/v1/notifications"}]
DAYS = 90 * 86_400.0


class Tool:
    """An alerting tool whose configuration names a credential of `user`."""

    def __init__(self, cloud: MemoryCloud, user: str = "admin", **fields: Any) -> None:
        self.cloud, self.user = cloud, user
        me = self.ask("GET", "/identity/v3/auth/tokens", {"X-Subject-Token": str(cloud.client(user).token)})
        self.path = f"/identity/v3/users/{me.json()['token']['user']['id']}/application_credentials"
        body = {"application_credential": {"name": "alerts", **fields}}
        made = cloud.client(user).post(self.path, body).json()["application_credential"]
        self.id, self.secret = made["id"], made["secret"]

    def ask(self, method: str, path: str, headers: dict[str, str]) -> Response:
        return self.cloud.client(self.user).request(method, path, headers=headers)

    def report(self, secret: str | None = None, host: str = "fake-1") -> Response:
        bearer = f"Bearer appcred:{self.id}:{self.secret if secret is None else secret}"
        body = {"hostname": host, "type": "COMPUTE_PROCESS", "payload": {"event": "STOPPED"}}
        return Ha(self.cloud.anonymous()).ask("POST", "/notifications", body, Authorization=bearer)

    def forget(self) -> None:
        self.cloud._tokens.clear()
        assert self.ask("DELETE", f"{self.path}/{self.id}", {}).status == 204


@pytest.fixture
def hosts(ha: Ha) -> None:
    segment = ha.segment()
    for name in ("fake-1", "fake-2"):
        ha.host(segment, name)


def test_it_holds_for_longer_than_any_token(cloud: MemoryCloud, hosts: None) -> None:
    tool = Tool(cloud, access_rules=ONLY_NOTIFICATIONS)
    assert tool.report().status == 202
    cloud.advance(DAYS)
    assert tool.report().status == 202


def test_it_ends_with_its_credential_at_once(cloud: MemoryCloud, hosts: None) -> None:
    tool = Tool(cloud)
    assert tool.report().status == 202
    tool.forget()
    assert refusal(tool.report())[:2] == (401, "unauthorized")


def test_it_may_do_what_its_access_rules_say_and_its_roles_allow(cloud: MemoryCloud, hosts: None) -> None:
    tool = Tool(cloud, access_rules=ONLY_NOTIFICATIONS)
    bearer = {"Authorization": f"Bearer appcred:{tool.id}:{tool.secret}"}
    ha = Ha(cloud.anonymous())
    assert tool.report().status == 202
    assert ha.ask("GET", "/notifications", **bearer).status == 401
    assert ha.ask("POST", "/segments", {"segment": {}}, **bearer).status == 401
    assert refusal(Tool(cloud, user="demo").report())[:2] == (403, "forbidden")


@pytest.mark.parametrize("wrong", ["", "x", "é" * 50, "x" * 5000])
def test_a_wrong_secret_proves_nothing_before_and_after_the_right_one(
    cloud: MemoryCloud, hosts: None, wrong: str
) -> None:
    tool = Tool(cloud)
    assert tool.report(wrong).status == 401
    assert tool.report().status == 202
    assert tool.report(wrong).status == 401
    assert tool.report(tool.secret[:-1]).status == 401 and tool.report(tool.secret + "x").status == 401


def test_nothing_but_this_api_takes_it(cloud: MemoryCloud, hosts: None) -> None:
    tool = Tool(cloud)
    for sent in ({"Authorization": f"Bearer appcred:{tool.id}:{tool.secret}"}, {}):
        headers = sent or {"X-Auth-Token": f"appcred:{tool.id}:{tool.secret}"}
        assert cloud.anonymous().get("/compute/v2.1/servers", headers=headers).status == 401
