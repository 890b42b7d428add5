"""Images of servers, and servers that get a new image: createImage, rebuild, rescue, passwords."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, Unfit
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.image.store import ImageStore
from cloudctl.testing.cloud import connection
from cloudctl.volume.creation import boot_snapshot
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def image(demo: Asking, image_id: str) -> Any:
    found = demo.client.get(f"/image/v2/images/{image_id}")
    return None if found.status == 404 else found.json()


def images(demo: Asking) -> set[str]:
    return {each["id"] for each in demo.client.get("/image/v2/images?visibility=private").json()["images"]}


def snapshot(demo: Asking, server_id: str, name: str = "snap", **body: Any) -> str:
    answer = demo.act(server_id, {"createImage": {"name": name, **body}}, LATEST)
    assert answer.status == 202, answer
    return str(answer.json()["image_id"])


def other_image(demo: Asking, **fields: Any) -> str:
    body = {"name": "other", "disk_format": "raw", "container_format": "bare", **fields}
    made = demo.client.post("/image/v2/images", body).json()["id"]
    binary = {"Content-Type": "application/octet-stream"}
    assert demo.client.put(f"/image/v2/images/{made}/file", body=b"other bytes", headers=binary).status == 204
    return str(made)


# -- createImage


@pytest.mark.parametrize(
    ("key", "said"), [("os_glance_import_task", "reserved"), ("locations", "reserved"), ("size", "read-only")]
)
def test_what_the_image_service_keeps_for_itself_is_no_metadata(
    demo: Asking, server_id: str, key: str, said: str
) -> None:
    before = images(demo)
    answer = demo.act(server_id, {"createImage": {"name": "x", "metadata": {key: "x"}}})
    assert refusal(answer) == (403, "forbidden", f"Attribute '{key}' is {said}.")
    assert (demo.server(server_id)["OS-EXT-STS:task_state"], images(demo)) == (None, before)


def test_an_image_is_made_while_the_server_goes_on(demo: Asking, server_id: str) -> None:
    made = snapshot(demo, server_id, metadata={"mine": "yes"})
    assert image(demo, made)["status"] == "saving"
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", "image_snapshot_pending")
    demo.cloud.settle()
    shown = image(demo, made)
    assert (shown["status"], shown["visibility"], shown["name"]) == ("active", "private", "snap")
    assert shown["size"] > 0 and shown["min_disk"] == 1
    assert (shown["image_type"], shown["instance_uuid"], shown["base_image_ref"], shown["mine"]) == (
        "snapshot", server_id, demo.image, "yes",
    )  # fmt: skip
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


def test_a_server_boots_from_the_image_of_another(demo: Asking, server_id: str) -> None:
    made = snapshot(demo, server_id)
    demo.cloud.settle()
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(demo.boot(imageRef=made)) == "ACTIVE"


def test_an_image_of_a_server_is_private_to_its_project(demo: Asking, stranger: Asking, server_id: str) -> None:
    made = snapshot(demo, server_id)
    demo.cloud.settle()
    assert image(stranger, made) is None


def test_before_2_45_the_image_is_named_in_a_header(demo: Asking, server_id: str) -> None:
    answer = demo.act(server_id, {"createImage": {"name": "snap"}}, "2.44")
    assert (answer.status, answer.body) == (202, b"")
    made = answer.headers["location"].rpartition("/")[2]
    assert image(demo, made)["name"] == "snap"
    assert answer.headers["location"].endswith(f"/image/v2/images/{made}")


def test_nothing_is_left_of_an_image_that_fails(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    before = images(demo)
    hypervisor.behaviour.fail("ensure_captured", times=None, error=DriverError("it is broken"))
    made = snapshot(demo, server_id)
    demo.cloud.settle()
    assert image(demo, made) is None and images(demo) == before
    assert not demo.cloud.cloud.made(ImageStore).path(made).exists()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


@pytest.mark.parametrize("action", [{"createImage": {"name": "x"}}, {"shelve": None}])
def test_an_image_over_the_limit_of_what_is_stored_is_not_kept(
    demo: Asking, admin: Asking, server_id: str, action: dict[str, Any]
) -> None:
    before = images(demo)
    service = admin.client.get("/identity/v3/services?type=image").json()["services"][0]["id"]
    limit = {"service_id": service, "resource_name": "image_size_total", "default_limit": 0}
    assert admin.client.post("/identity/v3/registered_limits", {"registered_limits": [limit]}).status == 201
    assert demo.act(server_id, action).status == 202
    demo.cloud.settle()
    found = demo.server(server_id)
    assert images(demo) == before and (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    told = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert [(each["action"], each["message"]) for each in told] == [(*action, "Error"), ("create", None)]


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0])
def test_nothing_is_left_of_an_image_that_is_deleted_meanwhile(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor, seconds: float
) -> None:
    hypervisor.behaviour.delays["ensure_captured"] = 0.7
    made = snapshot(demo, server_id)
    demo.cloud.advance(seconds)
    assert demo.client.delete(f"/image/v2/images/{made}").status == 204
    demo.cloud.settle()
    assert image(demo, made) is None and not demo.cloud.cloud.made(ImageStore).path(made).exists()
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


def test_a_delete_of_the_server_ends_its_image(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.delays["ensure_captured"] = 0.7
    made = snapshot(demo, server_id)
    demo.cloud.advance(0.3)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and image(demo, made) is None
    assert not demo.cloud.cloud.made(ImageStore).path(made).exists()


def test_a_protected_image_that_fails_stays_without_data(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_captured", times=None, error=DriverError("it is broken"))
    made = snapshot(demo, server_id)
    patch = [{"op": "replace", "path": "/protected", "value": True}]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert demo.client.patch(f"/image/v2/images/{made}", patch, headers=headers).status == 200
    demo.cloud.settle()
    assert image(demo, made)["status"] == "queued"
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


WRONG_NAMES = [{"name": name} for name in ("", " ", " x", "x ", "x\ny", "x" * 256)]


@pytest.mark.parametrize("body", [None, {}, *WRONG_NAMES, {"name": "x", "metadata": {"a": 1}}])
def test_a_wrong_image_body_is_refused(demo: Asking, server_id: str, body: Any) -> None:
    assert refusal(demo.act(server_id, {"createImage": body}))[:2] == (400, "badRequest")


def test_no_second_image_at_once(demo: Asking, server_id: str) -> None:
    snapshot(demo, server_id)
    said = f"Cannot 'createImage' instance {server_id} while it is in task_state image_snapshot_pending"
    assert refusal(demo.act(server_id, {"createImage": {"name": "x"}})) == (409, "conflictingRequest", said)


def test_metadata_over_the_quota_are_refused(demo: Asking, server_id: str) -> None:
    body = {"name": "x", "metadata": {f"key{number}": "x" for number in range(129)}}
    assert refusal(demo.act(server_id, {"createImage": body}))[:2] == (413, "entityTooLarge")


# -- rebuild


def test_a_rebuild_keeps_all_but_the_disk(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    before = demo.server(server_id)
    made = other_image(demo)
    answer = demo.act(
        server_id,
        {"rebuild": {"imageRef": made, "name": "new", "metadata": {"a": "b"}, "description": "d", "adminPass": "pw"}},
        LATEST,
    )
    shown = answer.json()["server"]
    assert answer.status == 202 and answer.headers["location"].endswith(server_id)
    assert (shown["status"], shown["adminPass"], shown["image"]["id"]) == ("REBUILD", "pw", made)
    demo.cloud.advance(5)
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["name"], found["metadata"]) == ("ACTIVE", "new", {"a": "b"})
    assert found["addresses"] == before["addresses"] and found["description"] == "d"
    assert found["OS-SRV-USG:launched_at"] > before["OS-SRV-USG:launched_at"]
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.name, guest.spec.admin_password) == (Power.RUNNING, "new", "pw")
    assert there(guest.spec.image).id == made and guest.log.count("Linux version") == 1


MORE_SINCE = {
    (2, 9): "locked",
    (2, 19): "description",
    (2, 26): "tags",
    (2, 54): "key_name",
    (2, 57): "user_data",
    (2, 63): "trusted_image_certificates",
    (2, 71): "server_groups",
    (2, 73): "locked_reason",
}
SHOWN_BY_A_REBUILD = {
    "OS-DCF:diskConfig", "accessIPv4", "accessIPv6", "addresses", "adminPass", "created", "flavor", "hostId", "id",
    "image", "links", "metadata", "name", "progress", "status", "tenant_id", "updated", "user_id",
}  # fmt: skip


@pytest.mark.parametrize("minor", [1, 9, 19, 26, 54, 57, 63, 71, 74])
def test_a_rebuild_shows_what_its_version_knows(demo: Asking, admin: Asking, server_id: str, minor: int) -> None:
    for who in (demo, admin):
        shown = who.act(server_id, {"rebuild": {"imageRef": demo.image}}, f"2.{minor}").json()["server"]
        demo.cloud.settle()
        assert shown.keys() == SHOWN_BY_A_REBUILD | {key for since, key in MORE_SINCE.items() if (2, minor) >= since}
        ((address,),) = shown["addresses"].values()
        assert address.keys() == {"addr", "version"}
    for who in (demo, admin):
        shown = who.act(server_id, {"rebuild": {"imageRef": demo.image}}, "2.75").json()["server"]
        demo.cloud.settle()
        kept = who.server(server_id, "2.75").keys() - {"OS-EXT-SRV-ATTR:user_data"}
        assert shown.keys() == kept | {"adminPass", "user_data"}


def test_a_rebuild_keeps_the_volumes(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    volume_id = demo.volume()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}})
    demo.cloud.settle()
    assert demo.act(server_id, {"rebuild": {"imageRef": demo.image}}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE" and demo.volume_status(volume_id) == "in-use"
    assert [each.volume_id for each in there(hypervisor.guests.get(server_id)).spec.volumes] == [volume_id]


def test_a_server_that_is_off_stays_off(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    assert demo.act(server_id, {"rebuild": {"imageRef": demo.image}}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF" and there(hypervisor.guests.get(server_id)).power is Power.STOPPED


def test_a_rebuild_leads_out_of_error(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_defined", times=1, error=DriverError("it is broken"))
    demo.act(server_id, {"rebuild": {"imageRef": demo.image}})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["fault"]["message"]) == ("ERROR", "it is broken")
    assert demo.act(server_id, {"rebuild": {"imageRef": demo.image}}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


def test_an_image_that_the_host_cannot_run_costs_no_disk(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    made = other_image(demo, img_hv_type="xen")
    demo.act(server_id, {"rebuild": {"imageRef": made}})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert found["status"] == "ERROR" and found["fault"]["message"].startswith("No valid host was found.")
    assert there(hypervisor.guests.get(server_id)).spec.host not in found["fault"]["message"]
    assert there(hypervisor.guests.get(server_id)).power is Power.RUNNING


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({}, None),
        ({"imageRef": UNKNOWN}, None),
        ({"imageRef": ""}, None),
        ({"imageRef": "x"}, None),
        ({"description": "early"}, "2.18"),
        ({"key_name": "none"}, "2.54"),
        ({"hostname": "-x-"}, LATEST),
        ({"surplus": 1}, LATEST),
    ],
)
def test_a_wrong_rebuild_is_refused(demo: Asking, server_id: str, body: Any, version: str | None) -> None:
    full = {"imageRef": demo.image, **body} if body else body
    assert refusal(demo.act(server_id, {"rebuild": full}, version))[:2] == (400, "badRequest")
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


def test_an_image_of_another_project_is_not_there(demo: Asking, stranger: Asking, server_id: str) -> None:
    made = other_image(stranger)
    said = (400, "badRequest", "Can not find requested image")
    assert refusal(demo.act(server_id, {"rebuild": {"imageRef": made}})) == said
    assert refusal(demo.act(server_id, {"rescue": {"rescue_image_ref": made}})) == said


def test_a_key_is_changed_and_dropped(demo: Asking, server_id: str) -> None:
    key = demo.post("/os-keypairs", {"keypair": {"name": "mine"}})
    assert key.status == 200
    for name in ("mine", None):
        demo.act(server_id, {"rebuild": {"imageRef": demo.image, "key_name": name}}, LATEST)
        demo.cloud.settle()
        assert demo.server(server_id)["key_name"] == name


# -- rescue


def test_a_server_is_rescued_and_runs_again(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    answer = demo.act(server_id, {"rescue": {"adminPass": "pw"}})
    assert (answer.status, answer.json()) == (200, {"adminPass": "pw"})
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "rescuing"
    demo.cloud.settle()
    assert demo.status(server_id) == "RESCUE"
    guest = there(hypervisor.guests.get(server_id))
    assert guest.rescued and guest.spec.admin_password == "pw"
    assert demo.act(server_id, {"unrescue": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE" and not there(hypervisor.guests.get(server_id)).rescued


def test_a_rescue_without_words_has_a_password_of_its_own(demo: Asking, server_id: str) -> None:
    assert len(demo.act(server_id, {"rescue": None}).json()["adminPass"]) == 12


def test_a_rescue_that_fails_is_an_error(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_rescued", times=None, error=DriverError("it is broken"))
    demo.act(server_id, {"rescue": None})
    demo.cloud.settle()
    assert demo.status(server_id) == "ERROR"


@pytest.fixture
def half_rescued(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> str:
    """A server whose guest is rescued, though its rescue has failed."""
    hypervisor.behaviour.fail("ensure_rescued", error=Unfit("its kernel has too many arguments"), after=True)
    demo.act(server_id, {"rescue": None})
    demo.cloud.settle()
    assert demo.status(server_id) == "ERROR" and there(hypervisor.guests.get(server_id)).rescued
    return server_id


def test_after_a_rescue_that_failed_a_hard_reboot_leads_back_to_the_own_disk(
    demo: Asking, half_rescued: str, hypervisor: FakeHypervisor
) -> None:
    demo.act(half_rescued, {"reboot": {"type": "HARD"}})
    demo.cloud.settle()
    assert demo.status(half_rescued) == "ACTIVE" and not there(hypervisor.guests.get(half_rescued)).rescued


def test_stopped_after_a_rescue_that_failed_a_server_starts_from_its_own_disk(
    demo: Asking, half_rescued: str, hypervisor: FakeHypervisor
) -> None:
    for action in ("os-stop", "os-start"):
        demo.act(half_rescued, {action: None})
        demo.cloud.settle()
    assert demo.status(half_rescued) == "ACTIVE" and not there(hypervisor.guests.get(half_rescued)).rescued


def test_a_rescue_after_one_that_failed_is_another(demo: Asking, half_rescued: str, hypervisor: FakeHypervisor) -> None:
    demo.act(half_rescued, {"rescue": {"adminPass": "another"}})
    demo.cloud.settle()
    assert demo.status(half_rescued) == "RESCUE"
    assert there(hypervisor.guests.get(half_rescued)).spec.admin_password == "another"


@pytest.mark.parametrize("body", [{"rescue_image_ref": UNKNOWN}, {"rescue_image_ref": ""}, {"x": 1}, [], "x"])
def test_a_wrong_rescue_is_refused(demo: Asking, server_id: str, body: Any) -> None:
    assert refusal(demo.act(server_id, {"rescue": body}))[:2] == (400, "badRequest")


# -- passwords


def test_a_password_reaches_the_guest_and_is_forgotten(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    assert demo.act(server_id, {"changePassword": {"adminPass": "new-secret"}}).status == 202
    assert demo.status(server_id) == "PASSWORD"
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    assert there(hypervisor.guests.get(server_id)).spec.admin_password == "new-secret"
    assert "new-secret" not in "\n".join(connection(demo.cloud.cloud).iterdump())


@pytest.mark.parametrize(("error", "status"), [(Unfit("no agent"), "ACTIVE"), (DriverError("it is broken"), "ERROR")])
def test_a_password_that_nobody_takes(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor, error: Exception, status: str
) -> None:
    hypervisor.behaviour.fail("ensure_password", times=None, error=error)
    demo.act(server_id, {"changePassword": {"adminPass": "x"}})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == (status, None)


@pytest.mark.parametrize("body", [None, {}, {"adminPass": None}, {"adminPass": 1}, {"adminPass": "x" * 256}])
def test_a_wrong_password_body_is_refused(demo: Asking, server_id: str, body: Any) -> None:
    assert refusal(demo.act(server_id, {"changePassword": body}))[:2] == (400, "badRequest")


# -- kernels and ramdisks


def begun_with(demo: Asking, kernel_id: str, name: str = "kernel_id") -> tuple[str, str]:
    """Status of a server from an image with this property, and why it has failed."""
    server_id = demo.boot(imageRef=other_image(demo, **{name: kernel_id}))
    found = demo.get(f"/servers/{server_id}").json()["server"]
    return found["status"], found.get("fault", {}).get("message", "")


@pytest.mark.parametrize("name", ["kernel_id", "ramdisk_id"])
def test_a_kernel_is_no_file_of_this_machine_and_no_image_of_another_project(
    demo: Asking, admin: Asking, name: str
) -> None:
    theirs = other_image(admin, visibility="private")
    for wanted in ("/etc/passwd", "../../cloudctl.sqlite", theirs, UNKNOWN):
        status, why = begun_with(demo, wanted, name)
        assert status == "ERROR" and "No image found" in why, (wanted, status, why)


def test_a_kernel_is_an_image_that_the_owner_may_use(demo: Asking) -> None:
    mine = other_image(demo)
    assert begun_with(demo, mine) == ("ACTIVE", "")


def test_guests_and_snapshots_keep_their_kernel_without_the_images(demo: Asking, hypervisor: FakeHypervisor) -> None:
    kernel, store = other_image(demo), demo.cloud.cloud.made(ImageStore)
    origin = other_image(demo, kernel_id=kernel, os_command_line="quiet")
    server_id = demo.boot(imageRef=origin)
    for gone in (kernel, origin):
        assert demo.client.delete(f"/image/v2/images/{gone}").status == 204
        demo.act(server_id, {"reboot": {"type": "HARD"}})
        demo.cloud.settle()
        found = there(there(hypervisor.guests.get(server_id)).spec.image)
        # The guest has its own: no file of the store is made another one.
        assert found.kernel_path == f"{store.path(kernel)}.gone"
        assert found.properties["os_command_line"] == "quiet"
    made = image(demo, snapshot(demo, server_id))
    assert (made["kernel_id"], made["os_command_line"]) == (kernel, "quiet")


# -- volumes of an image that has no data


def test_a_volume_of_an_image_of_volumes_is_made_of_its_boot_volume(demo: Asking) -> None:
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=[{**device, "volume_size": 2}])
    made = snapshot(demo, server_id)
    demo.cloud.settle()
    assert image(demo, made)["size"] == 0
    kept = demo.client.get("/volume/v3/snapshots").json()["snapshots"][0]["id"]
    body = {"volume": {"imageRef": made}}
    found = demo.client.post("/volume/v3/volumes", body).json()["volume"]
    assert (found["snapshot_id"], found["size"]) == (kept, 2)
    demo.cloud.settle()
    assert demo.volume_status(found["id"]) == "available"
    assert demo.client.post("/volume/v3/volumes", {"volume": {"imageRef": made, "size": 1}}).status == 400
    assert demo.client.delete(f"/volume/v3/snapshots/{kept}").status == 202
    demo.cloud.settle()
    assert demo.client.post("/volume/v3/volumes", body).status == 404


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", None),
        ("no JSON", None),
        ("[1]", None),
        ('{"a": 1}', None),
        ('[{"source_type": "snapshot", "boot_index": 1, "snapshot_id": "b"}]', None),
        ('[{"source_type": "snapshot", "boot_index": 0, "snapshot_id": "\\ud800"}]', None),
        ('[{"source_type": "snapshot", "boot_index": 0, "snapshot_id": "\\u0000"}]', None),
        ('[{"source_type": "snapshot", "boot_index": 0, "snapshot_id": "a"}]', "a"),
        ('[{"source_type": "snapshot", "boot_index": 0, "snapshot_id": "\\ud800"}]', None),
    ],
)
def test_which_snapshot_an_image_names(text: str, found: str | None) -> None:
    assert boot_snapshot({"block_device_mapping": text}) == found
