"""Backups of servers, and images of servers that boot from volumes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from tests.compute.asking import LATEST, Asking, refusal
from tests.compute.test_server_images_api import image, images, other_image, snapshot
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def root_volume(demo: Asking, **more: Any) -> dict[str, Any]:
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    return {"imageRef": None, "block_device_mapping_v2": [{**device, "volume_size": 1, **more}]}


def snapshots(demo: Asking) -> dict[str, str]:
    """Volume → the status of its snapshot."""
    found = demo.client.get("/volume/v3/snapshots").json()["snapshots"]
    return {each["volume_id"]: each["status"] for each in found}


def test_the_image_of_a_server_that_boots_from_a_volume_describes_its_disks(
    demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot(**root_volume(demo, delete_on_termination=True))
    other = demo.volume(2)
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": other}})
    demo.cloud.settle()
    volumes = [each["id"] for each in demo.server(server_id)["os-extended-volumes:volumes_attached"]]
    made = snapshot(demo, server_id, metadata={"mine": "yes"})
    assert image(demo, made)["status"] == "saving"
    demo.cloud.settle()
    shown = image(demo, made)
    assert (shown["status"], shown["size"], shown["bdm_v2"], shown["mine"]) == ("active", 0, "True", "yes")
    assert demo.client.get(f"/image/v2/images/{made}/file").status == 204
    root, second = json.loads(shown["block_device_mapping"])
    assert (root["source_type"], root["destination_type"], root["boot_index"]) == ("snapshot", "volume", 0)
    assert (root["volume_size"], root["delete_on_termination"]) == (1, True)
    assert (second["volume_size"], second["device_name"], second["boot_index"]) == (2, "/dev/vdb", None)
    assert snapshots(demo) == dict.fromkeys(volumes, "available")
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)

    again = demo.boot(imageRef=made)
    guest = there(hypervisor.guests.get(again)).spec
    assert (demo.status(again), demo.server(again)["image"], guest.image) == ("ACTIVE", "", None)
    assert [(each.boot_index, each.device) for each in guest.volumes] == [(0, "/dev/vda"), (None, "/dev/vdb")]
    assert not {each.volume_id for each in guest.volumes} & {*volumes}


def test_a_device_of_such_an_image_can_be_given_otherwise(demo: Asking, hypervisor: FakeHypervisor) -> None:
    made = snapshot(demo, demo.boot(**root_volume(demo)))
    demo.cloud.settle()
    volume_id = demo.volume(imageRef=demo.image)
    wish = {"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": 0}
    server_id = demo.boot(imageRef=made, block_device_mapping_v2=[wish])
    assert [each.volume_id for each in there(hypervisor.guests.get(server_id)).spec.volumes] == [volume_id]


NUMBER = '[{{"source_type": "snapshot", "destination_type": "volume", "snapshot_id": "x", "{}": {}}}]'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", '[{"source_type": "image"}]', '[{"source_type": "snapshot"}]', "[" * 9999),
        *(NUMBER.format(name, value) for name in ("volume_size", "boot_index") for value in ("1e999", "NaN")),
    ],
)
def test_what_an_image_says_of_disks_may_be_nonsense(demo: Asking, text: str) -> None:
    made = other_image(demo, block_device_mapping=text, bdm_v2="True")
    assert refusal(demo.create(imageRef=made))[:2] == (400, "badRequest")


@pytest.mark.parametrize(
    "odd",
    [{"tag": "\ud800"}, {"tag": "\0"}, {"disk_bus": "x" * 17}, {"volume_size": 2**63}, {"snapshot_id": "\ud800"}],
    ids=str,
)
def test_what_an_image_says_of_a_disk_is_checked_as_if_it_had_been_asked_for(demo: Asking, odd: Any) -> None:
    made = snapshot(demo, demo.boot(**root_volume(demo)))
    demo.cloud.settle()
    text = json.dumps([json.loads(image(demo, made)["block_device_mapping"])[0] | odd])
    other = other_image(demo, block_device_mapping=text, bdm_v2="True")
    assert refusal(demo.create(imageRef=other))[:2] == (400, "badRequest")


@pytest.mark.parametrize(("size", "status"), [("1e30", 400), (str(2**31), 400), ("-1", 400), ("null", 202), ("1", 202)])
def test_what_an_image_says_of_a_disks_size_may_be_nonsense(
    demo: Asking, admin: Asking, size: str, status: int
) -> None:
    made = snapshot(demo, demo.boot(**root_volume(demo)))
    demo.cloud.settle()
    project = demo.server(demo.boot())["tenant_id"]
    unlimited = {"quota_set": {"gigabytes": -1}}
    assert admin.client.put(f"/volume/v3/os-quota-sets/{project}", unlimited).status == 200
    (disk,) = json.loads(image(demo, made)["block_device_mapping"])
    text = json.dumps([{**disk, "volume_size": json.loads(size)}])
    other = other_image(demo, block_device_mapping=text, bdm_v2="True")
    assert demo.create(imageRef=other).status == status


@pytest.mark.parametrize("odd", ["\\ud800", "\\u0000"])
def test_what_an_image_says_of_disks_may_be_no_text(demo: Asking, odd: str) -> None:
    for name in ("snapshot_id", "device_name", "tag"):
        each = {"source_type": "snapshot", "destination_type": "volume", "snapshot_id": "x", "boot_index": 0, name: "?"}
        made = other_image(demo, block_device_mapping=json.dumps([each]).replace("?", odd), bdm_v2="True")
        assert refusal(demo.create(imageRef=made))[:2] == (400, "badRequest")


def test_nothing_is_left_of_such_an_image_that_fails(demo: Asking, volumes: FakeVolumeBackend) -> None:
    server_id = demo.boot(**root_volume(demo))
    volumes.behaviour.fail("ensure_snapshot", times=None, error=DriverError("it is broken"))
    made = snapshot(demo, server_id)
    demo.cloud.settle()
    assert image(demo, made) is None and snapshots(demo) == {}
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


def test_what_a_server_that_boots_from_a_volume_cannot(demo: Asking) -> None:
    server_id = demo.boot(**root_volume(demo))
    assert refusal(demo.act(server_id, {"rescue": None}))[:2] == (400, "badRequest")
    backup = {"name": "x", "backup_type": "daily", "rotation": 1}
    assert refusal(demo.act(server_id, {"createBackup": backup}))[:2] == (400, "badRequest")
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


# -- createBackup


def back_up(demo: Asking, server_id: str, name: str, type: str = "daily", rotation: int = 2) -> str:
    body = {"name": name, "backup_type": type, "rotation": rotation}
    answer = demo.act(server_id, {"createBackup": body}, LATEST)
    assert answer.status == 202, answer
    demo.cloud.settle()
    demo.cloud.advance(1)
    return str(answer.json()["image_id"])


def test_the_oldest_backups_of_a_type_go(demo: Asking, server_id: str) -> None:
    weekly = back_up(demo, server_id, "w", type="weekly")
    kept = [back_up(demo, server_id, f"d{number}") for number in range(4)][2:]
    assert images(demo) == {weekly, *kept}
    shown = image(demo, kept[0])
    assert (shown["image_type"], shown["backup_type"], shown["instance_uuid"]) == ("backup", "daily", server_id)
    other = demo.boot(name="other")
    assert image(demo, back_up(demo, other, "d", rotation=1)) is not None
    assert images(demo) > {weekly, *kept}
    back_up(demo, server_id, "none", rotation=0)
    assert not images(demo) & {*kept}


def test_a_protected_backup_stays(demo: Asking, server_id: str) -> None:
    made = back_up(demo, server_id, "first")
    patch = [{"op": "replace", "path": "/protected", "value": True}]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert demo.client.patch(f"/image/v2/images/{made}", patch, headers=headers).status == 200
    back_up(demo, server_id, "second", rotation=0)
    assert images(demo) == {made}


@pytest.mark.parametrize(
    "wrong", [{"rotation": -1}, {"rotation": "x"}, {"name": "x "}, {"backup_type": None}, {"x": 1}]
)
def test_a_wrong_backup_is_refused(demo: Asking, server_id: str, wrong: dict[str, Any]) -> None:
    body = {"name": "x", "backup_type": "daily", "rotation": 1, **wrong}
    assert refusal(demo.act(server_id, {"createBackup": body}))[:2] == (400, "badRequest")


def test_a_backup_is_told_as_one(demo: Asking, server_id: str) -> None:
    body = {"name": "x", "backup_type": "daily", "rotation": 1}
    answer = demo.act(server_id, {"createBackup": body})
    assert (answer.status, answer.body) == (202, b"") and "/image/v2/images/" in answer.headers["location"]
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "image_backup"
    demo.cloud.settle()
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert [each["action"] for each in actions] == ["createBackup", "create"]
