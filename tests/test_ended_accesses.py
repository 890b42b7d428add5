"""What a purge removes that only projects and users had which are gone: key pairs, and accesses to what is private."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.compute.asking import LATEST
from tests.ended import purge

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
VERSIONS = {"OpenStack-API-Version": f"compute {LATEST}, volume 3.71"}


@pytest.fixture
def admin(cloud: MemoryCloud) -> Client:
    return cloud.client("admin")


def made(client: Client, path: str, body: Any) -> Any:
    answer = client.post(path, body, headers=VERSIONS)
    assert answer.status in (200, 201), answer
    found = answer.json()
    return next(iter(found.values())) if len(found) == 1 else found


def project(admin: Client, name: str) -> str:
    wanted = {"project": {"name": name, "domain_id": "default"}}
    return str(made(admin, "/identity/v3/projects", wanted)["id"])


def test_accesses_of_projects_go_when_the_projects_have_gone(admin: Client, cloud: MemoryCloud) -> None:
    both = [project(admin, name) for name in ("gone", "living")]
    size = {"name": "private", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    flavor = f"/compute/v2.1/flavors/{made(admin, '/compute/v2.1/flavors', {'flavor': size})['id']}"
    kind = {"volume_type": {"name": "private", "os-volume-type-access:is_public": False}}
    type = f"/volume/v3/types/{made(admin, '/volume/v3/types', kind)['id']}"
    shared = {"disk_format": "raw", "container_format": "bare", "visibility": "shared"}
    image = f"/image/v2/images/{made(admin, '/image/v2/images', shared)['id']}"
    for each in both:
        for path, action in ((flavor, "addTenantAccess"), (type, "addProjectAccess")):
            key = "tenant" if path == flavor else "project"
            answer = admin.post(f"{path}/action", {action: {key: each}}, headers=VERSIONS)
            assert answer.status in (200, 202), answer
        made(admin, f"{image}/members", {"member": each})

    def having() -> list[list[str]]:
        asked = (
            (f"{flavor}/os-flavor-access", "flavor_access", "tenant_id"),
            (f"{type}/os-volume-type-access", "volume_type_access", "project_id"),
            (f"{image}/members", "members", "member_id"),
        )
        found = [(admin.get(path, headers=VERSIONS).json()[list], key) for path, list, key in asked]
        return [sorted(each[key] for each in some) for some, key in found]

    assert purge(cloud.db, 30) == {} and having() == [sorted(both)] * 3
    assert admin.delete(f"/identity/v3/projects/{both[0]}").status == 204
    assert purge(cloud.db, 30) == {
        "flavors of deleted projects": 1,
        "images shared with deleted projects": 1,
        "volume types of deleted projects": 1,
    }
    assert having() == [both[1:]] * 3


def test_shares_of_networking_go_when_the_projects_have_gone_and_use_nothing(admin: Client, cloud: MemoryCloud) -> None:
    """What such a project has left is used still, and the only share of an external network makes it that."""
    v2 = "/networking/v2.0"
    gone, leaving, living = (project(admin, name) for name in ("gone", "leaving", "living"))
    # Its default group stays, with the rules of that.
    assert admin.get(f"{v2}/security-groups?project_id={gone}").status == 200
    made(admin, f"{v2}/security-groups", {"security_group": {"project_id": gone}})
    network, outside = (
        made(admin, f"{v2}/networks", {"network": {"router:external": external}})["id"] for external in (False, True)
    )
    made(admin, f"{v2}/ports", {"port": {"network_id": network, "project_id": leaving}})

    def share(target: str, object_id: str, action: str = "access_as_shared") -> None:
        wanted = {"object_type": "network", "object_id": object_id, "action": action, "target_tenant": target}
        made(admin, f"{v2}/rbac-policies", {"rbac_policy": wanted})

    def shared() -> list[tuple[str, str]]:
        found = admin.get(f"{v2}/rbac-policies").json()["rbac_policies"]
        return sorted((each["target_tenant"], each["object_id"]) for each in found)

    for target in (gone, leaving, living, "*"):
        share(target, network)
    share(gone, outside, "access_as_external")
    before = shared()
    assert purge(cloud.db, 30) == {} and shared() == before
    for each in (gone, leaving):
        assert admin.delete(f"/identity/v3/projects/{each}").status == 204
    assert purge(cloud.db, 30) == {"shares with deleted projects": 1}
    assert shared() == [each for each in before if each != (gone, network)]


def test_key_pairs_of_users_go_when_the_users_have_gone(admin: Client, cloud: MemoryCloud) -> None:
    users = []
    for name in ("gone", "living", "newest"):
        users.append(made(admin, "/identity/v3/users", {"user": {"name": name, "domain_id": "default"}})["id"])
        wanted = {"keypair": {"name": "k", "type": "ssh", "public_key": KEY, "user_id": users[-1]}}
        made(admin, "/compute/v2.1/os-keypairs", wanted)
    assert purge(cloud.db, 30) == {}
    assert admin.delete(f"/identity/v3/users/{users[0]}").status == 204
    assert purge(cloud.db, 30) == {"key pairs of deleted users": 1}
    paths = [f"/compute/v2.1/os-keypairs/k?user_id={user}" for user in users]
    assert [admin.get(path, headers=VERSIONS).status for path in paths] == [404, 200, 200]
