"""Who uses the block storage of a cloud in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.volume.asking import LATEST, V3, volume
from tests.volume.backing_up import shown


@pytest.fixture
def backend(cloud: MemoryCloud) -> FakeVolumeBackend:
    found = cloud.cloud.drivers.volume
    assert isinstance(found, FakeVolumeBackend)
    return found


@pytest.fixture
def demo(cloud: MemoryCloud) -> Client:
    """A member of one project."""
    return cloud.client("demo")


@pytest.fixture
def admin(cloud: MemoryCloud) -> Client:
    return cloud.client("admin")


@pytest.fixture
def join(cloud: MemoryCloud, admin: Client) -> Callable[[str, str, str], Client]:
    """`join(user, project, role)`: a new user with a role in a project, which is made unless it is there."""

    def joined(user: str, project: str, role: str) -> Client:
        projects = admin.get(f"/identity/v3/projects?name={project}").json()["projects"]
        if not projects:
            made = admin.post("/identity/v3/projects", {"project": {"name": project, "domain_id": "default"}})
            projects = [made.json()["project"]]
        account = {"name": user, "password": user, "domain_id": "default"}
        user_id = admin.post("/identity/v3/users", {"user": account}).json()["user"]["id"]
        role_id = admin.get(f"/identity/v3/roles?name={role}").json()["roles"][0]["id"]
        granted = admin.put(f"/identity/v3/projects/{projects[0]['id']}/users/{user_id}/roles/{role_id}")
        assert granted.status == 204
        return cloud.client(user, project)

    return joined


@pytest.fixture
def stranger(join: Callable[[str, str, str], Client]) -> Client:
    """A member of another project."""
    return join("stranger", "elsewhere", "member")


@pytest.fixture
def make(cloud: MemoryCloud, demo: Client) -> Callable[..., dict[str, Any]]:
    """`make(size=1, client=demo, …)`: a volume that is ready, as its own project sees it."""

    def made(size: int = 1, client: Client | None = None, **fields: Any) -> dict[str, Any]:
        asker = client or demo
        answer = asker.post(f"{V3}/volumes", {"volume": {"size": size, **fields}})
        assert answer.status == 202, answer
        cloud.settle()
        return volume(asker, answer.json()["volume"]["id"])

    return made


@pytest.fixture
def back_up(cloud: Any, demo: Any) -> Callable[..., dict[str, Any]]:
    """`back_up(volume_id, …)`: a backup that is ready."""

    def made(volume_id: str, **fields: Any) -> dict[str, Any]:
        answer = demo.post(f"{V3}/backups", {"backup": {"volume_id": volume_id, **fields}}, headers=LATEST)
        assert answer.status == 202, answer
        cloud.settle()
        return shown(demo, answer.json()["backup"]["id"])

    return made
