"""A project that is deleted while it has things: they stay, administrators see them, and can clean up."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud

COMPUTE, VOLUME, NETWORK, IMAGE = "/compute/v2.1", "/volume/v3", "/networking/v2.0", "/image/v2"


def good(answer: Any) -> Any:
    assert answer.status < 300, answer
    return answer.json() if answer.body else None


@pytest.fixture
def cloud() -> MemoryCloud:
    made = MemoryCloud()
    made.settle()
    return made


@pytest.fixture
def admin(cloud: MemoryCloud) -> Client:
    return cloud.client("admin")


@pytest.fixture
def left(cloud: MemoryCloud, admin: Client) -> dict[str, str]:
    """What belonged to a project that is gone: path → name of the list that shows it to administrators."""
    project = good(admin.post("/identity/v3/projects", {"project": {"name": "gone"}}))["project"]["id"]
    user = good(admin.post("/identity/v3/users", {"user": {"name": "gone", "password": "gone"}}))["user"]["id"]
    role = good(admin.get("/identity/v3/roles?name=member"))["roles"][0]["id"]
    good(admin.put(f"/identity/v3/projects/{project}/users/{user}/roles/{role}"))
    owner = cloud.client("gone")
    network = good(owner.post(f"{NETWORK}/networks", {"network": {"name": "left"}}))["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}
    good(owner.post(f"{NETWORK}/subnets", {"subnet": subnet}))
    tiny = next(each["id"] for each in good(owner.get(f"{IMAGE}/images"))["images"] if each["name"] == "tiny")
    server = {"name": "left", "imageRef": tiny, "flavorRef": "1", "networks": [{"uuid": network}]}
    server_id = good(owner.post(f"{COMPUTE}/servers", {"server": server}))["server"]["id"]
    volume = good(owner.post(f"{VOLUME}/volumes", {"volume": {"size": 1}}))["volume"]["id"]
    image = {"name": "left", "disk_format": "raw", "container_format": "bare"}
    image_id = good(owner.post(f"{IMAGE}/images", image))["id"]
    cloud.settle()
    attachment = {"volumeAttachment": {"volumeId": volume}}
    good(owner.post(f"{COMPUTE}/servers/{server_id}/os-volume_attachments", attachment))
    cloud.settle()
    assert admin.delete(f"/identity/v3/projects/{project}").status == 204
    assert owner.get(f"{COMPUTE}/servers").status == 401
    return {
        f"{COMPUTE}/servers/{server_id}": f"{COMPUTE}/servers?all_tenants=1&project_id={project}",
        f"{VOLUME}/volumes/{volume}": f"{VOLUME}/volumes?all_tenants=1&project_id={project}",
        f"{NETWORK}/networks/{network}": f"{NETWORK}/networks?project_id={project}",
        f"{IMAGE}/images/{image_id}": f"{IMAGE}/images?owner={project}",
    }


def test_administrators_see_what_is_left(admin: Client, left: dict[str, str]) -> None:
    for path, listing in left.items():
        assert admin.get(path).status == 200
        (shown,) = next(value for value in good(admin.get(listing)).values() if isinstance(value, list))
        assert shown["id"] == path.rpartition("/")[2]


def test_administrators_clean_it_up(cloud: MemoryCloud, admin: Client, left: dict[str, str]) -> None:
    for path, listing in left.items():
        assert admin.delete(path).status in (202, 204)
        cloud.settle()
        assert admin.get(path).status == 404
        assert next(value for value in good(admin.get(listing)).values() if isinstance(value, list)) == []
    project = next(iter(left.values())).rpartition("=")[2]
    # The ports of the server went with it.
    assert good(admin.get(f"{NETWORK}/ports?project_id={project}"))["ports"] == []
