"""Limits of projects: identity's unified limits of the service `image`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import DATA, IMAGES, create, project_of, stored, upload

MIB = 2**20
SERVERS = "/compute/v2.1/servers"
BACKUP = {"name": "x", "backup_type": "daily", "rotation": 2}
NAMES = ("image_size_total", "image_stage_total", "image_count_total", "image_count_uploading")


def service(admin: Client, type: str = "image") -> str:
    (found,) = admin.get(f"/identity/v3/services?type={type}").json()["services"]
    return str(found["id"])


def register(admin: Client, resource: str, limit: int, **fields: str) -> str:
    wanted = {"service_id": service(admin), "resource_name": resource, "default_limit": limit, **fields}
    answer = admin.post("/identity/v3/registered_limits", {"registered_limits": [wanted]})
    assert answer.status == 201, answer
    return str(answer.json()["registered_limits"][0]["id"])


def limit(admin: Client, project_id: str, resource: str, limit: int) -> None:
    wanted = {"service_id": service(admin), "resource_name": resource, "resource_limit": limit}
    answer = admin.post("/identity/v3/limits", {"limits": [{**wanted, "project_id": project_id}]})
    assert answer.status == 201, answer


def told(client: Client) -> dict[str, int]:
    usage = client.get("/image/v2/info/usage").json()["usage"]
    return {name: usage[name]["limit"] for name in NAMES}


def test_what_is_registered_nowhere_has_no_limit(demo: Client) -> None:
    assert told(demo) == dict.fromkeys(NAMES, -1)


def test_a_registered_limit_is_everybodys_and_a_projects_own_replaces_it(
    admin: Client, demo: Client, alt: Client
) -> None:
    register(admin, "image_count_total", 1)
    limit(admin, project_of(alt), "image_count_total", 2)
    assert (told(demo)["image_count_total"], told(alt)["image_count_total"]) == (1, 2)
    create(demo)
    assert demo.post(IMAGES, {}).status == 413
    create(alt)
    create(alt)
    assert alt.post(IMAGES, {}).status == 413


def test_a_limit_that_changes_holds_at_once(admin: Client, demo: Client) -> None:
    registered = register(admin, "image_count_total", 0)
    assert demo.post(IMAGES, {}).status == 413
    path = f"/identity/v3/registered_limits/{registered}"
    assert admin.patch(path, {"registered_limit": {"default_limit": -1}}).status == 200
    assert demo.post(IMAGES, {}).status == 201


def test_a_limit_of_another_service_or_region_is_none_of_images(admin: Client, demo: Client) -> None:
    assert admin.post("/identity/v3/regions", {"region": {"id": "elsewhere"}}).status == 201
    register(admin, "image_count_total", 0, service_id=service(admin, "compute"))
    register(admin, "image_count_total", 0, region_id="elsewhere")
    assert told(demo)["image_count_total"] == -1
    register(admin, "image_count_total", 5)
    register(admin, "image_count_total", 4, region_id="RegionOne")
    assert told(demo)["image_count_total"] == 4


@pytest.mark.parametrize(("resource", "path"), [("image_size_total", "file"), ("image_stage_total", "stage")])
def test_bytes_are_limited_in_mebibytes(admin: Client, demo: Client, resource: str, path: str) -> None:
    register(admin, resource, 1)
    image_id, other = create(demo)["id"], create(demo)["id"]
    assert demo.put(f"{IMAGES}/{image_id}/{path}", body=b"x" * MIB, headers=DATA).status == 204
    assert demo.put(f"{IMAGES}/{other}/{path}", body=b"x", headers=DATA).status == 413


@pytest.mark.parametrize(("resource", "path"), [("image_size_total", "file"), ("image_stage_total", "stage")])
def test_bytes_count_from_the_moment_they_have_arrived(
    admin: Client, demo: Client, monkeypatch: pytest.MonkeyPatch, resource: str, path: str
) -> None:
    register(admin, resource, 1)
    image_id, other = create(demo)["id"], create(demo)["id"]
    rename = Path.replace
    seen: list[int] = []

    def upload_another(source: Path, target: Path) -> Path:
        monkeypatch.undo()
        seen.append(demo.put(f"{IMAGES}/{other}/{path}", body=b"x", headers=DATA).status)
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", upload_another)
    assert demo.put(f"{IMAGES}/{image_id}/{path}", body=b"x", headers=DATA).status == 204
    assert seen == [413]


def test_what_an_upload_took_is_given_back_when_it_fails(admin: Client, demo: Client) -> None:
    register(admin, "image_size_total", 1)
    assert upload(demo, create(demo, disk_format="qcow2")["id"], b"no qcow2").status == 415
    stored(demo)


def test_staged_data_counts_as_stored_from_the_moment_its_import_begins(
    cloud: MemoryCloud, admin: Client, demo: Client
) -> None:
    register(admin, "image_size_total", 1)
    ids = [create(demo)["id"] for _ in range(2)]
    for image_id in ids:
        assert demo.put(f"{IMAGES}/{image_id}/stage", body=b"x", headers=DATA).status == 204
    wish = {"method": {"name": "glance-direct"}}
    assert [demo.post(f"{IMAGES}/{image_id}/import", wish).status for image_id in ids] == [202, 413]
    cloud.settle()
    usage = demo.get("/image/v2/info/usage").json()["usage"]
    assert [usage[name]["usage"] for name in ("image_size_total", "image_stage_total")] == [1, 1]


def test_uploads_at_once_are_limited(cloud: MemoryCloud, admin: Client, demo: Client) -> None:
    volume = demo.post("/volume/v3/volumes", {"volume": {"size": 1}}).json()["volume"]
    cloud.settle()
    register(admin, "image_count_uploading", 0)
    assert upload(demo, create(demo)["id"]).status == 413
    # The data of an image of a volume arrives at once.
    action = {"os-volume_upload_image": {"image_name": "of a volume"}}
    assert demo.post(f"/volume/v3/volumes/{volume['id']}/action", action).status == 413
    assert demo.get(f"/volume/v3/volumes/{volume['id']}").json()["volume"]["status"] == "available"


@pytest.mark.parametrize("action", [{"createImage": {"name": "x"}}, {"createBackup": BACKUP}, {"shelve": None}])
def test_the_image_of_a_server_counts_as_an_upload(
    cloud: MemoryCloud, admin: Client, demo: Client, action: dict[str, Any]
) -> None:
    (found,) = demo.get(f"{IMAGES}?name=tiny").json()["images"]
    wish = {"name": "vm", "flavorRef": "1", "imageRef": found["id"], "networks": "none"}
    headers = {"OpenStack-API-Version": "compute 2.37"}
    ids = [demo.post(f"{SERVERS}", {"server": wish}, headers=headers).json()["server"]["id"] for _ in range(2)]
    cloud.settle()
    register(admin, "image_count_uploading", 1)
    # They are accepted before the work on one of them begins.
    answers = [demo.post(f"{SERVERS}/{server_id}/action", action) for server_id in ids]
    assert [each.status for each in answers] == [202, 413]
    cloud.settle()
    assert demo.get(f"{SERVERS}/{ids[1]}").json()["server"]["status"] == "ACTIVE"
    assert demo.post(f"{SERVERS}/{ids[1]}/action", action).status == 202


# -- signatures

SIGNED = {
    "img_signature": "c2ln",
    "img_signature_hash_method": "SHA-256",
    "img_signature_key_type": "RSA-PSS",
    "img_signature_certificate_uuid": "4d2bd9c4-0000-4000-8000-000000000000",
}


def test_data_that_would_have_to_be_verified_is_refused(demo: Client) -> None:
    image_id = create(demo, **SIGNED)["id"]
    for path in ("file", "stage"):
        answer = demo.put(f"{IMAGES}/{image_id}/{path}", body=b"data", headers=DATA)
        assert answer.status == 400 and "no key manager" in answer.json()["message"]
    wish = {"method": {"name": "web-download", "uri": "http://images.example.com/x"}}
    assert demo.post(f"{IMAGES}/{image_id}/import", wish).status == 400
    assert demo.get(f"{IMAGES}/{image_id}").json()["status"] == "queued"


def test_properties_that_ask_for_no_check_do_no_harm(demo: Client) -> None:
    stored(demo, b"data", **dict(list(SIGNED.items())[:3]))
