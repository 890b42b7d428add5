"""Records: made, shown, changed, deleted, and to whom they are visible."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, V20, create, names, patch, project_of, show, stored, upload

UUID = "6f1d2c3b-0000-4000-8000-000000000001"


def refused(client: Client, status: int, /, **fields: Any) -> str:
    answer = client.post(IMAGES, fields)
    assert answer.status == status, answer
    problem = answer.json()
    assert problem["code"].startswith(f"{status} ")
    assert problem["title"]
    return str(problem["message"])


# -- making


def test_an_empty_body_makes_an_image(demo: Client) -> None:
    answer = demo.post(IMAGES, {})
    made = answer.json()
    assert answer.status == 201
    assert answer.headers["Location"] == f"http://cloud.example.com{IMAGES}/{made['id']}"
    assert answer.headers["OpenStack-image-import-methods"] == "glance-direct,web-download,glance-download"
    assert re.fullmatch(r"[0-9a-f-]{36}", made["id"])
    assert made == {
        "id": made["id"], "name": None, "status": "queued", "visibility": "shared", "owner": made["owner"],
        "protected": False, "os_hidden": False, "container_format": None, "disk_format": None, "size": None,
        "virtual_size": None, "min_disk": 0, "min_ram": 0, "checksum": None, "os_hash_algo": None,
        "os_hash_value": None, "tags": [], "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z", "self": f"/v2/images/{made['id']}",
        "file": f"/v2/images/{made['id']}/file", "schema": "/v2/schemas/image",
    }  # fmt: skip
    assert show(demo, made["id"]) == made


def test_what_is_given_is_kept(demo: Client) -> None:
    made = create(
        demo, id=UUID.upper(), name="é", visibility="private", protected=True, os_hidden=True, min_disk=3, min_ram=64,
        tags=["b", "a", "b"], hw_disk_bus="virtio", properties="flat", **{"owner_specified.openstack.md5": ""},
    )  # fmt: skip
    assert made["id"] == UUID
    assert (made["name"], made["visibility"], made["protected"], made["os_hidden"]) == ("é", "private", True, True)
    assert (made["min_disk"], made["min_ram"], made["tags"]) == (3, 64, ["a", "b"])
    assert (made["hw_disk_bus"], made["properties"]) == ("virtio", "flat")
    assert made["owner_specified.openstack.md5"] == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "no-uuid"}, {"name": "x" * 256}, {"name": 5}, {"visibility": "secret"}, {"visibility": None},
        {"protected": "true"}, {"protected": None}, {"container_format": "wrong"}, {"disk_format": "wrong"},
        {"min_disk": -1}, {"min_disk": 2**31}, {"min_ram": 10**30}, {"min_ram": "5"}, {"min_ram": 1.5},
        {"tags": ["x" * 256]}, {"tags": "x"}, {"tags": [None]}, {"owner": 5}, {"prop": 5}, {"prop": None},
        {"prop": {"a": 1}}, {"x" * 256: "v"}, {"": "v"},
    ],
)  # fmt: skip
def test_a_wrong_field_is_400(demo: Client, fields: dict[str, Any]) -> None:
    refused(demo, 400, **fields)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"a":"\\u0000"}', b'{"a":"\\ud800"}', b"\xff"])
def test_a_malformed_body_is_400(demo: Client, body: bytes) -> None:
    answer = demo.post(IMAGES, body=body, headers={"Content-Type": "application/json"})
    assert answer.status == 400


@pytest.mark.parametrize(
    "name", ["self", "file", "schema", "direct_url", "stores", "status", "size", "checksum", "created_at",
             "os_hash_algo", "location", "locations", "deleted", "deleted_at", "os_glance_foo"],
)  # fmt: skip
def test_a_reserved_key_is_403(demo: Client, name: str) -> None:
    refused(demo, 403, **{name: "x"})


def test_too_many_tags_or_properties_are_413(demo: Client) -> None:
    create(demo, tags=[f"t{number}" for number in range(128)])
    refused(demo, 413, tags=[f"t{number}" for number in range(129)])
    create(demo, **{f"p{number}": "" for number in range(128)})
    refused(demo, 413, **{f"p{number}": "" for number in range(129)})


def test_an_id_is_used_once(demo: Client, alt: Client) -> None:
    create(demo, id=UUID)
    refused(demo, 409, id=UUID)
    refused(alt, 409, id=UUID)
    assert demo.delete(f"{IMAGES}/{UUID}").status == 204
    refused(demo, 409, id=UUID)


def test_only_an_administrator_makes_images_for_others(demo: Client, alt: Client, admin: Client) -> None:
    theirs = project_of(alt)
    refused(demo, 403, owner=theirs)
    assert create(demo, owner=project_of(demo))["owner"] == project_of(demo)
    assert create(admin, owner=theirs)["owner"] == theirs


def test_only_an_administrator_makes_public_images(demo: Client, admin: Client) -> None:
    refused(demo, 403, visibility="public")
    create(demo, visibility="community")
    create(admin, visibility="public")


def test_a_reader_makes_nothing(reader: Client) -> None:
    refused(reader, 403, name="x")


def test_a_reader_is_refused_what_they_see_and_does_not_find_the_rest(
    reader: Client, demo: Client, alt: Client, admin: Client
) -> None:
    own, public = create(demo)["id"], create(admin, visibility="public")["id"]
    for image_id, status in ((own, 403), (public, 403), (create(alt)["id"], 404), (UUID, 404)):
        asked = [
            reader.delete(f"{IMAGES}/{image_id}"),
            reader.put(f"{IMAGES}/{image_id}/file", body=b"x"),
            reader.post(f"{IMAGES}/{image_id}/actions/deactivate"),
            reader.put(f"{IMAGES}/{image_id}/tags/x"),
            reader.post(f"{IMAGES}/{image_id}/members", {"member": "x"}),
        ]
        assert [answer.status for answer in asked] == [status] * len(asked)


# -- seeing


@pytest.mark.parametrize(("visibility", "seen"), [("private", 404), ("shared", 404), ("community", 200)])
def test_another_projects_image_is_seen_if_it_says_so(demo: Client, alt: Client, visibility: str, seen: int) -> None:
    image_id = create(demo, visibility=visibility)["id"]
    assert alt.get(f"{IMAGES}/{image_id}").status == seen


def test_everything_of_an_invisible_image_is_404(demo: Client, alt: Client) -> None:
    path = f"{IMAGES}/{stored(demo)['id']}"
    asked = [
        alt.get(path), alt.delete(path), patch(alt, path.rpartition("/")[2]), alt.get(f"{path}/file"),
        alt.put(f"{path}/file", body=b"x", headers={"Content-Type": "application/octet-stream"}),
        alt.put(f"{path}/stage", body=b"x", headers={"Content-Type": "application/octet-stream"}),
        alt.post(f"{path}/import", {"method": {"name": "glance-direct"}}), alt.get(f"{path}/tasks"),
        alt.get(f"{path}/members"), alt.post(f"{path}/members", {"member": "x"}), alt.get(f"{path}/members/x"),
        alt.put(f"{path}/members/x", {"status": "accepted"}), alt.delete(f"{path}/members/x"),
        alt.put(f"{path}/tags/x"), alt.delete(f"{path}/tags/x"), alt.post(f"{path}/actions/deactivate"),
        alt.post(f"{path}/actions/reactivate"), alt.delete(f"/image/v2/stores/default/{path.rpartition('/')[2]}"),
    ]  # fmt: skip
    assert [answer.status for answer in asked] == [404] * len(asked)
    assert {"default", "project"}.isdisjoint(asked[0].json()["message"].split())


def test_a_public_image_is_changed_by_its_owner_only(demo: Client, admin: Client) -> None:
    image_id = stored(admin, visibility="public")["id"]
    path = f"{IMAGES}/{image_id}"
    asked = [
        demo.delete(path), patch(demo, image_id), upload(demo, image_id), demo.put(f"{path}/tags/x"),
        demo.post(f"{path}/members", {"member": "x"}), demo.post(f"{path}/actions/deactivate"),
        demo.get(f"{path}/tasks"), demo.post(f"{path}/import", {"method": {"name": "glance-direct"}}),
    ]  # fmt: skip
    assert [answer.status for answer in asked] == [403] * len(asked)


def test_a_reader_reads_records_only(demo: Client, reader: Client) -> None:
    image_id = stored(demo, name="x")["id"]
    path = f"{IMAGES}/{image_id}"
    assert names(reader) == ["x"]
    assert [reader.get(path).status, reader.get(f"{path}/tasks").status] == [200, 200]
    asked = [reader.get(f"{path}/file"), reader.delete(path), patch(reader, image_id), reader.put(f"{path}/tags/x")]
    assert [answer.status for answer in asked] == [403] * 4


def test_a_token_is_needed(cloud: MemoryCloud) -> None:
    answer = cloud.anonymous().get(IMAGES)
    assert answer.status == 401
    assert answer.json()["code"] == "401 Unauthorized"


@pytest.mark.parametrize("image_id", ["nothing", "x" * 3000, "%C3%A9", "..%2f", "%00"])
def test_an_unknown_id_is_404(demo: Client, image_id: str) -> None:
    assert demo.get(f"{IMAGES}/{image_id}").status == 404


def test_an_unknown_path_is_404_in_the_services_words(demo: Client) -> None:
    answer = demo.get("/image/v2/nothing")
    assert (answer.status, answer.json()["code"]) == (404, "404 Not Found")


# -- changing


def test_a_patch_answers_the_whole_record(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo, name="old", gone="x", tags=["a"])["id"]
    cloud.advance(60)
    answer = patch(
        demo, image_id,
        {"op": "replace", "path": "/name", "value": "new"},
        {"op": "add", "path": "/os_distro", "value": "cirros"},
        {"op": "remove", "path": "/gone"},
        {"op": "replace", "path": "/tags", "value": ["c", "b", "c"]},
        {"op": "replace", "path": "/min_ram", "value": 5},
    )  # fmt: skip
    assert answer.status == 200, answer
    changed = answer.json()
    assert changed == show(demo, image_id)
    assert (changed["name"], changed["os_distro"], changed["tags"]) == ("new", "cirros", ["b", "c"])
    assert "gone" not in changed
    assert (changed["created_at"], changed["updated_at"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")


def test_the_older_patch_form_is_taken(demo: Client) -> None:
    image_id = create(demo)["id"]
    answer = patch(demo, image_id, {"replace": "/name", "value": "new"}, headers=V20)
    assert answer.json()["name"] == "new"


def test_a_patch_that_fails_changes_nothing(demo: Client) -> None:
    image_id = create(demo, name="old")["id"]
    wrong = {"op": "remove", "path": "/nothing"}
    assert patch(demo, image_id, {"op": "replace", "path": "/name", "value": "new"}, wrong).status == 409
    assert show(demo, image_id)["name"] == "old"


@pytest.mark.parametrize("media", ["application/json", "text/plain", "application/octet-stream", ""])
def test_another_type_of_patch_is_415(demo: Client, media: str) -> None:
    image_id = create(demo)["id"]
    answer = patch(demo, image_id, headers={"Content-Type": media})
    assert answer.status == 415
    assert "openstack-images-v2.1-json-patch" in answer.headers["Accept-Patch"]


@pytest.mark.parametrize("body", [b"", b"{", b"[[[[", b'"x"', b"[" * 2000])
def test_a_malformed_patch_is_400(demo: Client, body: bytes) -> None:
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert demo.patch(f"{IMAGES}/{create(demo)['id']}", body=body, headers=headers).status == 400


def test_formats_are_fixed_once_there_is_data(demo: Client) -> None:
    image_id = create(demo)["id"]
    change = {"op": "replace", "path": "/disk_format", "value": "ami"}
    assert patch(demo, image_id, change).status == 200
    upload(demo, image_id)
    assert patch(demo, image_id, change).status == 403


def test_what_only_an_administrator_changes(demo: Client, admin: Client, alt: Client) -> None:
    image_id = create(demo)["id"]
    give = {"op": "replace", "path": "/owner", "value": project_of(alt)}
    publish = {"op": "replace", "path": "/visibility", "value": "public"}
    assert [patch(demo, image_id, give).status, patch(demo, image_id, publish).status] == [403, 403]
    assert [patch(admin, image_id, give).status, patch(admin, image_id, publish).status] == [200, 200]
    assert show(alt, image_id)["owner"] == project_of(alt)


def test_a_patch_past_the_limits_is_413(demo: Client) -> None:
    image_id = create(demo, **{f"p{number}": "" for number in range(128)})["id"]
    more = {"op": "add", "path": "/more", "value": ""}
    tags = {"op": "replace", "path": "/tags", "value": [f"t{number}" for number in range(129)]}
    assert [patch(demo, image_id, more).status, patch(demo, image_id, tags).status] == [413, 413]
    assert patch(demo, image_id, {"op": "remove", "path": "/p0"}, more).status == 200


# -- tags


def test_tags_one_at_a_time(demo: Client) -> None:
    path = f"{IMAGES}/{create(demo)['id']}"
    assert [demo.put(f"{path}/tags/{tag}").status for tag in ("b", "a", "b", "%C3%A9")] == [204] * 4
    assert demo.get(path).json()["tags"] == ["a", "b", "é"]
    assert [demo.delete(f"{path}/tags/b").status for _ in range(2)] == [204, 404]
    assert demo.put(f"{path}/tags/{'x' * 256}").status == 400


def test_too_many_tags_one_at_a_time_are_413(demo: Client) -> None:
    path = f"{IMAGES}/{create(demo, tags=[f't{number}' for number in range(128)])['id']}"
    assert [demo.put(f"{path}/tags/t5").status, demo.put(f"{path}/tags/more").status] == [204, 413]


# -- removing


def test_a_deleted_image_is_gone(demo: Client) -> None:
    image_id = create(demo, name="x", tags=["t"], p="v")["id"]
    assert [demo.delete(f"{IMAGES}/{image_id}").status for _ in range(2)] == [204, 404]
    assert demo.get(f"{IMAGES}/{image_id}").status == 404
    assert names(demo) == []


def test_a_protected_image_is_not_deleted(demo: Client, admin: Client) -> None:
    image_id = create(demo, protected=True)["id"]
    assert [client.delete(f"{IMAGES}/{image_id}").status for client in (demo, admin)] == [403, 403]
    patch(demo, image_id, {"op": "replace", "path": "/protected", "value": False})
    assert demo.delete(f"{IMAGES}/{image_id}").status == 204
