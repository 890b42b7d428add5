"""Keys made with an application credential do only what its access rules say, however requests are signed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response
from tests.object_store.signing import S3, UNSIGNED, Key
from tests.object_store.test_s3_pages import ALLOWED, form

V3 = "/identity/v3"
# Makes its own key, and reads.
RULES = [
    {"service": "identity", "method": "POST", "path": "/v3/users/*/credentials/OS-EC2"},
    {"service": "s3", "method": "GET", "path": "/**"},
]


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture
def ruled(cloud: MemoryCloud) -> S3:
    """Requests with a key of a credential that has these rules; a bucket exists."""
    demo = cloud.client("demo")
    own = S3(cloud, demo)
    own.put("bucket")
    own.put("bucket/o", b"data")
    told = demo.get(f"{V3}/auth/tokens", headers={"X-Subject-Token": str(demo.token)}).json()["token"]
    wish = {"name": "reads", "unrestricted": True, "access_rules": RULES}
    path = f"{V3}/users/{told['user']['id']}"
    made = demo.post(f"{path}/application_credentials", {"application_credential": wish})
    shown = {name: made.json()["application_credential"][name] for name in ("id", "secret")}
    auth = {"identity": {"methods": ["application_credential"], "application_credential": shown}}
    login = cloud.anonymous().post(f"{V3}/auth/tokens", {"auth": auth})
    delegated = Client(cloud, str(login.headers["X-Subject-Token"]))
    pair = delegated.post(f"{path}/credentials/OS-EC2", {"tenant_id": told["project"]["id"]}).json()["credential"]
    return S3(cloud, demo, Key(pair["access"], pair["secret"], cloud.clock.seconds()))


def by_url(s3: S3, method: str, path: str) -> Response:
    return s3.cloud.anonymous().request(method, s3.key.url(method, f"/s3/{path}"), body=b"x")


def test_a_key_of_a_credential_that_reads_only_reads_whatever_it_signs(cloud: MemoryCloud, ruled: S3) -> None:
    assert ruled.get("bucket/o").body == b"data"
    assert by_url(ruled, "GET", "bucket/o").body == b"data"
    refused = {
        "a request": ruled.ask("PUT", "bucket/new", body=b"x"),
        "a request whose body is not signed": ruled.ask("PUT", "bucket/new", body=b"x", payload=UNSIGNED),
        "a URL": by_url(ruled, "PUT", "bucket/new"),
        "a URL that deletes": by_url(ruled, "DELETE", "bucket/o"),
        "a form": form(ruled, ALLOWED, key="up/new"),
    }
    assert {what: answer.status for what, answer in refused.items()} == dict.fromkeys(refused, 403)
    assert S3(cloud, cloud.client("demo")).names("bucket") == ["o"]
