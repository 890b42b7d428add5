"""The login of Swift's version 1: a login by password in the default domain, where it is switched on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response
from tests.object_store.asking import project_of

PASSWORDS = {"passwords": {"lockout_failure_attempts": 3, "lockout_duration": 600}}


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"object_store": {"v1_login": True}, "identity": PASSWORDS})
    yield made
    made.close()


def login(cloud: MemoryCloud, user: str = "demo:demo", key: str = "demo-secret", path: str = "v1.0") -> Response:
    headers = {"X-Auth-User": user, "X-Auth-Key": key}
    return cloud.anonymous().get(f"/object-store/auth/{path}", headers=headers)


def change(cloud: MemoryCloud, **changes: object) -> str:
    """The user demo; his id."""
    admin = cloud.client("admin")
    found = admin.get("/identity/v3/users?name=demo").json()["users"][0]["id"]
    assert admin.patch(f"/identity/v3/users/{found}", {"user": changes}).status == 200
    return str(found)


def test_a_user_of_a_project_gets_its_account(cloud: MemoryCloud) -> None:
    demo = cloud.client("demo")
    for path in ("v1.0", "v1"):
        answer = login(cloud, path=path)
        assert (answer.status, answer.body) == (200, b"")
        url, token = str(answer.headers["X-Storage-Url"]), str(answer.headers["X-Auth-Token"])
        assert url.endswith(f"/object-store/v1/AUTH_{project_of(demo)}")
        assert answer.headers["X-Storage-Token"] == token
        assert 0 < int(str(answer.headers["X-Auth-Token-Expires"])) <= 86_400
        target = url[url.index("/object-store") :]
        assert cloud.anonymous().put(f"{target}/c", headers={"X-Auth-Token": token}).status in (201, 202)
    older = {"X-Storage-User": "demo:demo", "X-Storage-Pass": "demo-secret"}
    assert cloud.anonymous().get("/object-store/auth/v1.0", headers=older).status == 200


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ("demo:demo", "wrong"),
        ("demo:demo", ""),
        ("demo:nobody", "demo-secret"),
        ("nothing:demo", "demo-secret"),
        ("admin:demo", "demo-secret"),
        ("demo", "demo-secret"),
        (":demo", "demo-secret"),
        ("demo:", "demo-secret"),
        ("", ""),
        ("demo:demo:demo", "demo-secret"),
        ("demo:demo", "x" * 100_00),
        ("demo:' OR 1=1 --", "demo-secret"),
    ],
)
def test_nobody_else_is_let_in_and_learns_why(cloud: MemoryCloud, user: str, key: str) -> None:
    refused = login(cloud, user, key)
    assert refused.status == 401
    assert not {"x-auth-token", "x-storage-token", "x-storage-url"} & {
        name.lower() for name in dict(refused.headers.items())
    }


def test_who_guesses_is_locked_out_here_and_there(cloud: MemoryCloud) -> None:
    for _ in range(3):
        assert login(cloud, key="wrong").status == 401
    assert login(cloud).status == 401
    auth = {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "demo", "domain": {"id": "default"}, "password": "demo-secret"}},
        }
    }
    assert cloud.anonymous().post("/identity/v3/auth/tokens", {"auth": auth}).status == 401
    cloud.clock.advance(601)
    assert login(cloud).status == 200


def test_a_password_is_not_enough_for_who_needs_more(cloud: MemoryCloud) -> None:
    change(
        cloud,
        options={"multi_factor_auth_enabled": True, "multi_factor_auth_rules": [["password", "totp"]]},
    )
    refused = login(cloud)
    assert refused.status == 401
    assert refused.headers["Openstack-Auth-Receipt"] is None


def test_whose_password_has_expired_is_refused() -> None:
    cloud = MemoryCloud(
        {"object_store": {"v1_login": True}, "identity": {"passwords": {"expires_days": 1}}},
    )
    change(cloud, password="demo-secret")
    assert login(cloud).status == 200
    cloud.clock.advance(86_401)
    assert login(cloud).status == 401
    cloud.close()


def test_a_user_who_is_switched_off_is_refused(cloud: MemoryCloud) -> None:
    change(cloud, enabled=False)
    assert login(cloud).status == 401


def test_there_is_none_unless_it_is_switched_on() -> None:
    cloud = MemoryCloud()
    refused = login(cloud)
    unknown = cloud.anonymous().get("/object-store/auth/v9")
    assert (refused.status, refused.body) == (unknown.status, unknown.body) == (404, unknown.body)
    cloud.close()
