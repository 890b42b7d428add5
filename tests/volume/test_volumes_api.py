"""Volumes over HTTP. Reference: volume.md, sections 1 and 2."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import Client
from tests.volume.asking import LATEST, V3, at, volume

BASE_FIELDS = {
    "id", "status", "size", "availability_zone", "created_at", "updated_at", "name", "description", "volume_type",
    "snapshot_id", "source_volid", "metadata", "links", "user_id", "bootable", "encrypted", "replication_status",
    "consistencygroup_id", "multiattach", "attachments",
}  # fmt: skip
LATER_FIELDS = {"group_id", "service_uuid", "shared_targets", "volume_type_id", "consumes_quota"}
ADMIN_FIELDS = {
    "migration_status",
    "os-vol-host-attr:host",
    "os-vol-mig-status-attr:migstat",
    "os-vol-mig-status-attr:name_id",
}


# -- create and show


def test_an_empty_volume_is_creating_then_available(cloud: Any, demo: Any, backend: Any) -> None:
    answer = demo.post(f"{V3}/volumes", {"volume": {"size": 2, "name": "  data ", "metadata": {"k": "v"}}})
    assert answer.status == 202
    made = answer.json()["volume"]
    assert made.keys() == BASE_FIELDS
    assert (made["status"], made["size"], made["name"], made["metadata"]) == ("creating", 2, "data", {"k": "v"})
    assert (made["bootable"], made["encrypted"], made["volume_type"]) == ("false", False, "__DEFAULT__")
    assert made["availability_zone"] == "nova"
    cloud.settle()
    assert volume(demo, made["id"])["status"] == "available"
    assert {found.id for found in backend.volumes.values()} == {made["id"]}


def test_fields_come_with_their_microversion(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]
    assert volume(demo, id).keys() == BASE_FIELDS | {"os-vol-tenant-attr:tenant_id"}
    assert volume(demo, id, **LATEST).keys() == BASE_FIELDS | LATER_FIELDS | {"os-vol-tenant-attr:tenant_id"}
    assert "group_id" in volume(demo, id, **at("3.13")) and "group_id" not in volume(demo, id, **at("3.12"))
    everything = BASE_FIELDS | LATER_FIELDS | ADMIN_FIELDS
    assert volume(admin, id, **LATEST).keys() == everything | {
        "os-vol-tenant-attr:tenant_id", "provider_id", "cluster_name",
    }  # fmt: skip


def test_a_volume_from_an_image_is_bootable_and_as_large_as_the_image_needs(make: Any, demo: Any) -> None:
    image = demo.get("/image/v2/images").json()["images"][0]
    made = make(size=1, imageRef=f"http://cloud.example.com/image/v2/images/{image['id']}")
    assert (made["status"], made["bootable"]) == ("available", "true")
    assert made["volume_image_metadata"]["image_id"] == image["id"]
    assert made["volume_image_metadata"]["image_name"] == image["name"]


def test_an_image_may_be_named(make: Any, demo: Any) -> None:
    image = demo.get("/image/v2/images").json()["images"][0]
    assert make(imageRef=image["name"])["volume_image_metadata"]["image_id"] == image["id"]


def test_an_image_may_name_the_type_of_the_volumes_made_from_it(make: Any, demo: Any, admin: Any) -> None:
    image = admin.get("/image/v2/images").json()["images"][0]["id"]
    patch = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    for named in ("of-images", "wished", "hidden"):
        wish = {"name": named, "os-volume-type-access:is_public": named != "hidden"}
        assert admin.post(f"{V3}/types", {"volume_type": wish}).status == 200

    def made(named: str, **wish: Any) -> str:
        change = [{"op": "add", "path": "/cinder_img_volume_type", "value": named}]
        assert admin.request("PATCH", f"/image/v2/images/{image}", change, headers=patch).status == 200
        return str(make(imageRef=image, **wish)["volume_type"])

    assert made("of-images") == "of-images"
    assert made("of-images", volume_type="wished") == "wished"
    # What the caller cannot see there is not.
    assert [made(named) for named in ("hidden", "unheard-of")] == ["__DEFAULT__", "__DEFAULT__"]


def test_an_image_that_one_cannot_see_is_refused(demo: Any) -> None:
    answer = demo.post(f"{V3}/volumes", {"volume": {"size": 1, "imageRef": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19"}})
    assert answer.status == 400
    assert "Invalid image identifier" in answer.json()["badRequest"]["message"]


def test_a_clone_has_the_size_and_the_properties_of_its_source(make: Any, cloud: Any, demo: Any) -> None:
    image = demo.get("/image/v2/images").json()["images"][0]
    source = make(size=2, imageRef=image["id"])
    answer = demo.post(f"{V3}/volumes", {"volume": {"source_volid": source["id"]}})
    assert answer.json()["volume"]["size"] == 2
    cloud.settle()
    clone = volume(demo, answer.json()["volume"]["id"])
    assert (clone["status"], clone["bootable"], clone["source_volid"]) == ("available", "true", source["id"])
    assert clone["volume_image_metadata"] == source["volume_image_metadata"]


def test_a_clone_survives_its_source(make: Any, cloud: Any, demo: Any, backend: Any) -> None:
    source = make()
    clone = make(source_volid=source["id"])
    assert demo.delete(f"{V3}/volumes/{source['id']}").status == 202
    cloud.settle()
    assert [found.id for found in backend.volumes.values()] == [clone["id"]]
    assert volume(demo, clone["id"])["status"] == "available"


def test_a_clone_is_not_smaller_than_its_source(make: Any, demo: Any) -> None:
    source = make(size=3)
    answer = demo.post(f"{V3}/volumes", {"volume": {"size": 2, "source_volid": source["id"]}})
    assert answer.status == 400
    assert "smaller than original volume" in answer.json()["badRequest"]["message"]


def test_a_source_must_be_at_rest(demo: Any) -> None:
    source = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]
    answer = demo.post(f"{V3}/volumes", {"volume": {"source_volid": source["id"]}})
    assert answer.status == 409
    assert "conflictingRequest" in answer.json()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"size": 0}, 400),
        ({"size": -1}, 400),
        ({"size": "x"}, 400),
        ({"size": 1.5}, 400),
        ({"size": True}, 400),
        ({"size": 2**31}, 400),
        ({"size": 10**30}, 400),
        ({"size": 1, "name": "n" * 256}, 400),
        ({"size": 1, "metadata": {"k": 1}}, 400),
        ({"size": 1, "metadata": {"": "v"}}, 400),
        ({"size": 1, "metadata": {"k" * 256: "v"}}, 400),
        ({"size": 1, "metadata": {"k!": "v"}}, 400),
        ({"size": 1, "availability_zone": "mars"}, 400),
        ({"size": 1, "multiattach": True}, 400),
        ({"size": 1, "source_volid": "no uuid"}, 400),
        ({"size": 1, "volume_type": "none such"}, 404),
        ({"size": 1, "source_volid": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19"}, 404),
        ({"size": 1, "snapshot_id": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19"}, 404),
        ({"size": 1, "volume_type": "__DEFAULT__", "consistencygroup_id": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19"}, 404),
        (
            {
                "size": 1,
                "source_volid": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19",
                "snapshot_id": "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19",
            },
            400,
        ),
    ],
)
def test_a_wrong_wish_is_refused_and_leaves_nothing(demo: Any, fields: dict[str, Any], status: int) -> None:
    answer = demo.post(f"{V3}/volumes", {"volume": fields})
    assert answer.status == status
    assert demo.get(f"{V3}/volumes").json() == {"volumes": []}


def test_size_may_be_a_string_of_digits(demo: Any) -> None:
    assert demo.post(f"{V3}/volumes", {"volume": {"size": "2"}}).json()["volume"]["size"] == 2


def test_unknown_fields_are_refused_from_3_53_on(demo: Any) -> None:
    body = {"volume": {"size": 1, "colour": "red"}}
    assert demo.post(f"{V3}/volumes", body, headers=at("3.52")).status == 202
    assert demo.post(f"{V3}/volumes", body, headers=at("3.53")).status == 400


def test_hints_may_stand_beside_the_volume(demo: Any) -> None:
    body = {"volume": {"size": 1}, "OS-SCH-HNT:scheduler_hints": {"same_host": []}}
    assert demo.post(f"{V3}/volumes", body, headers=LATEST).status == 202


@pytest.mark.parametrize("version", ["3.0", "3.71"])
def test_everything_but_the_size_may_be_null(demo: Any, version: str) -> None:
    optional = ["name", "description", "display_name", "display_description", "volume_type", "availability_zone",
                "imageRef", "image_id", "snapshot_id", "source_volid", "consistencygroup_id", "metadata",
                "multiattach"]  # fmt: skip
    body = {"volume": dict.fromkeys(optional) | {"size": 1}, "OS-SCH-HNT:scheduler_hints": None}
    answer = demo.post(f"{V3}/volumes", body, headers=at(version))
    assert answer.status == 202, answer


# -- update, metadata


def test_an_update_changes_what_it_names(make: Any, demo: Any) -> None:
    id = make(name="old", description="kept")["id"]
    answer = demo.put(f"{V3}/volumes/{id}", {"volume": {"name": "new"}})
    assert answer.status == 200
    assert answer.json()["volume"].keys() == BASE_FIELDS
    assert (answer.json()["volume"]["name"], answer.json()["volume"]["description"]) == ("new", "kept")
    assert demo.put(f"{V3}/volumes/{id}", {"volume": {"description": None}}).json()["volume"]["description"] is None
    assert demo.put(f"{V3}/volumes/{id}", {"volume": {}}, headers=at("3.53")).status == 400


def test_metadata_is_merged_replaced_and_deleted(make: Any, demo: Any) -> None:
    url = f"{V3}/volumes/{make(metadata={'a': '1'})['id']}/metadata"
    assert demo.post(url, {"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert demo.put(url, {"metadata": {"c": "3"}}).json() == {"metadata": {"c": "3"}}
    assert demo.put(f"{url}/c", {"meta": {"c": "4"}}).json() == {"meta": {"c": "4"}}
    assert demo.put(f"{url}/c", {"meta": {"d": "4"}}).status == 400
    assert demo.put(f"{url}/c", {"meta": {"c": "4", "d": "4"}}).status == 400
    assert demo.get(f"{url}/c").json() == {"meta": {"c": "4"}}
    assert demo.delete(f"{url}/c").status == 200
    assert (demo.get(f"{url}/c").status, demo.delete(f"{url}/c").status) == (404, 404)
    assert demo.get(url).json() == {"metadata": {}}


def test_metadata_is_changed_only_if_it_matches(make: Any, demo: Any) -> None:
    url = f"{V3}/volumes/{make(metadata={'a': '1'})['id']}/metadata"
    tag = demo.get(url, headers=at("3.15")).headers["ETag"]
    assert demo.get(url).headers["ETag"] is None
    other = demo.put(url, {"metadata": {}}, headers={**at("3.15"), "If-Match": '"other"'})
    assert (other.status, list(other.json())) == (412, ["computeFault"])
    assert demo.put(url, {"metadata": {"b": "2"}}, headers={**at("3.15"), "If-Match": tag}).status == 200
    assert demo.put(url, {"metadata": {}}, headers={**at("3.15"), "If-Match": tag}).status == 412


# -- delete


def test_a_deleted_volume_is_gone_with_its_quota(make: Any, cloud: Any, demo: Any, backend: Any) -> None:
    before = demo.get(f"{V3}/limits").json()
    id = make()["id"]
    assert demo.get(f"{V3}/limits").json() != before
    answer = demo.delete(f"{V3}/volumes/{id}")
    assert (answer.status, answer.body) == (202, b"")
    assert volume(demo, id)["status"] == "deleting"
    cloud.settle()
    gone = demo.get(f"{V3}/volumes/{id}")
    assert gone.status == 404
    assert gone.json() == {"itemNotFound": {"code": 404, "message": f"Volume {id} could not be found."}}
    assert demo.get(f"{V3}/limits").json() == before
    assert not list(backend.volumes.values())


def test_a_volume_is_not_deleted_twice_at_once(make: Any, demo: Any) -> None:
    id = make()["id"]
    assert [demo.delete(f"{V3}/volumes/{id}").status for _ in range(2)] == [202, 409]


def test_only_an_administrator_deletes_by_force(cloud: Any, demo: Any, admin: Any, backend: Any) -> None:
    id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    assert demo.delete(f"{V3}/volumes/{id}?force=true", headers=at("3.23")).status == 403
    assert admin.delete(f"{V3}/volumes/{id}?force=true", headers=at("3.22")).status == 409
    assert admin.delete(f"{V3}/volumes/{id}?force=true", headers=at("3.23")).status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    assert not list(backend.volumes.values())


def test_each_field_of_the_encryption_of_a_volume_is_shown_as_text(make: Any, demo: Any) -> None:
    url = f"{V3}/volumes/{make()['id']}/encryption"
    assert demo.get(url).json() == {"encryption_key_id": None}
    answer = demo.get(f"{url}/encryption_key_id")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert demo.get(f"{url}/colour").status == 404


# -- isolation and roles


def test_a_volume_of_another_project_does_not_exist(make: Any, demo: Any, stranger: Any) -> None:
    id = make(metadata={"k": "v"})["id"]
    encryption = f"/volumes/{id}/encryption"
    paths = [f"/volumes/{id}", f"/volumes/{id}/metadata", f"/volumes/{id}/metadata/k"]
    paths += [encryption, f"{encryption}/encryption_key_id"]
    for path in paths:
        assert stranger.get(V3 + path).status == 404, path
    assert stranger.put(f"{V3}/volumes/{id}", {"volume": {"name": "x"}}).status == 404
    assert stranger.delete(f"{V3}/volumes/{id}").status == 404
    assert stranger.post(f"{V3}/volumes", {"volume": {"source_volid": id}}).status == 404
    assert stranger.post(f"{V3}/attachments", {"attachment": {"volume_uuid": id}}, headers=LATEST).status == 404
    actions: Any = {
        "os-extend": {"new_size": 2}, "os-reserve": None, "os-unreserve": None, "os-begin_detaching": None,
        "os-roll_detaching": None, "os-detach": None, "os-set_bootable": {"bootable": True},
        "os-attach": {"mountpoint": "/dev/vdb", "host_name": "h"}, "os-update_readonly_flag": {"readonly": True},
        "os-initialize_connection": {"connector": {"host": "h"}}, "os-show_image_metadata": None,
        "os-terminate_connection": {"connector": {"host": "h"}}, "os-set_image_metadata": {"metadata": {}},
        "os-unset_image_metadata": {"key": "k"},
    }  # fmt: skip
    for action, body in actions.items():
        assert stranger.post(f"{V3}/volumes/{id}/action", {action: body}).status == 404, action
    assert stranger.get(f"{V3}/volumes").json() == {"volumes": []}
    assert stranger.get(f"{V3}/volumes?marker={id}").status == 404
    assert stranger.get(f"{V3}/volumes/detail?all_tenants=1").json() == {"volumes": []}
    assert stranger.get(f"{V3}/volumes/summary", headers=at("3.12")).json()["volume-summary"]["total_count"] == 0
    assert volume(demo, id)["status"] == "available"


def test_an_administrator_sees_all_projects_on_demand(make: Any, admin: Any, stranger: Any) -> None:
    mine, theirs = make(), make(client=stranger)
    assert admin.get(f"{V3}/volumes").json() == {"volumes": []}
    found = admin.get(f"{V3}/volumes/detail?all_tenants=1").json()["volumes"]
    assert {each["id"] for each in found} == {mine["id"], theirs["id"]}
    project = theirs["os-vol-tenant-attr:tenant_id"]
    found = admin.get(f"{V3}/volumes?all_tenants=true&project_id={project}").json()["volumes"]
    assert [each["id"] for each in found] == [theirs["id"]]
    assert volume(admin, theirs["id"])["os-vol-host-attr:host"] == "cloudctl@volumes#volumes"


def test_a_reader_changes_nothing(make: Any, demo: Any, join: Any) -> None:
    id = make()["id"]
    reader = join("looker", "demo", "reader")
    assert volume(reader, id)["status"] == "available"
    assert reader.post(f"{V3}/volumes", {"volume": {"size": 1}}).status == 403
    assert reader.put(f"{V3}/volumes/{id}", {"volume": {"name": "x"}}).status == 403
    assert reader.delete(f"{V3}/volumes/{id}").status == 403
    refused = reader.post(f"{V3}/volumes/{id}/action", {"os-extend": {"new_size": 2}})
    assert refused.status == 403
    assert "forbidden" in refused.json()


# -- quota


def test_beyond_the_quota_nothing_is_made(make: Any, demo: Any, admin: Any) -> None:
    project = make()["os-vol-tenant-attr:tenant_id"]
    admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {"volumes": 2, "gigabytes": 3}})
    refused = demo.post(f"{V3}/volumes", {"volume": {"size": 3}})
    assert (refused.status, refused.headers["Retry-After"]) == (413, "0")
    assert refused.json()["overLimit"]["retryAfter"] == "0"
    assert "exceed" in refused.json()["overLimit"]["message"]
    make()
    refused = demo.post(f"{V3}/volumes", {"volume": {"size": 1}})
    assert refused.status == 413
    assert "Maximum number of volumes allowed (2) exceeded" in refused.json()["overLimit"]["message"]
    assert len(demo.get(f"{V3}/volumes").json()["volumes"]) == 2


@pytest.mark.parametrize("counter", ["per_volume_gigabytes", "volumes___DEFAULT__", "gigabytes___DEFAULT__"])
def test_every_counter_is_kept(make: Any, demo: Any, admin: Any, counter: str) -> None:
    project = make(size=1)["os-vol-tenant-attr:tenant_id"]
    assert admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {counter: 1}}).status == 200
    refused = demo.post(f"{V3}/volumes", {"volume": {"size": 2}})
    assert refused.status == 413
    assert "exceed" in refused.json()["overLimit"]["message"]


def test_nothing_is_behind_a_trailing_slash(demo: Client) -> None:
    """A client that lost an id must not be shown, or delete, something else."""
    for method in ("GET", "PUT", "DELETE"):
        assert demo.request(method, f"{V3}/volumes/", {"volume": {}} if method == "PUT" else None).status == 404
    assert demo.get(f"{V3}/").status == 200
