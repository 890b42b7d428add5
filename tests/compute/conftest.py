"""Who uses the compute service of a cloud in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.compute.asking import Asking


@pytest.fixture
def hypervisor(cloud: MemoryCloud) -> FakeHypervisor:
    found = cloud.cloud.drivers.hypervisor
    assert isinstance(found, FakeHypervisor)
    return found


@pytest.fixture
def volumes(cloud: MemoryCloud) -> FakeVolumeBackend:
    found = cloud.cloud.drivers.volume
    assert isinstance(found, FakeVolumeBackend)
    return found


@pytest.fixture
def network(cloud: MemoryCloud) -> FakeNetworkBackend:
    found = cloud.cloud.drivers.network
    assert isinstance(found, FakeNetworkBackend)
    return found


@pytest.fixture
def demo(cloud: MemoryCloud) -> Asking:
    """A member of the project `demo`."""
    return Asking(cloud.client("demo"))


@pytest.fixture
def admin(cloud: MemoryCloud) -> Asking:
    return Asking(cloud.client("admin"))


@pytest.fixture
def join(cloud: MemoryCloud) -> Callable[[str, str, str], Asking]:
    """`join(user, project, role)`: a new user with a role in a project, which is made unless it is there."""
    admin: Client = cloud.client("admin")

    def joined(user: str, project: str, role: str) -> Asking:
        projects = admin.get(f"/identity/v3/projects?name={project}").json()["projects"]
        if not projects:
            made = admin.post("/identity/v3/projects", {"project": {"name": project, "domain_id": "default"}})
            projects = [made.json()["project"]]
        account = {"name": user, "password": user, "domain_id": "default"}
        user_id = admin.post("/identity/v3/users", {"user": account}).json()["user"]["id"]
        role_id = admin.get(f"/identity/v3/roles?name={role}").json()["roles"][0]["id"]
        granted = admin.put(f"/identity/v3/projects/{projects[0]['id']}/users/{user_id}/roles/{role_id}")
        assert granted.status == 204
        return Asking(cloud.client(user, project))

    return joined


@pytest.fixture
def stranger(join: Callable[[str, str, str], Asking]) -> Asking:
    """A member of another project."""
    return join("stranger", "elsewhere", "member")


@pytest.fixture
def reader(join: Callable[[str, str, str], Asking]) -> Asking:
    """Who may only look, in the project `demo`."""
    return join("watcher", "demo", "reader")
