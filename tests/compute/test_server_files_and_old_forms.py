"""What older clients send when they create servers: files for the guest, the first form of block devices."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cloudctl.drivers import guest_data
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.compute.asking import Asking, refusal
from tests.there import there

MOTD = base64.b64encode(b"welcome\n").decode()


def personality(path: str = "/etc/motd", contents: str = MOTD) -> dict[str, Any]:
    return {"personality": [{"path": path, "contents": contents}]}


def bootable(demo: Asking, **wishes: Any) -> str:
    return demo.volume(imageRef=demo.image, **wishes)


# -- personality


def test_a_guest_finds_the_files_that_it_was_made_with(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot(**personality())
    drive = guest_data.files(there(hypervisor.guests.get(server_id)).spec)
    assert drive["openstack/content/0000"] == b"welcome\n"
    told = json.loads(drive["openstack/latest/meta_data.json"])
    assert told["files"] == [{"path": "/etc/motd", "content_path": "/content/0000"}]


def test_a_rebuild_may_bring_other_files(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot(**personality())
    wanted = {"imageRef": demo.image, **personality("/etc/issue")}
    assert demo.act(server_id, {"rebuild": wanted}).status == 202
    demo.cloud.settle()
    assert [each.path for each in there(hypervisor.guests.get(server_id)).spec.files] == ["/etc/issue"]


def test_no_files_are_taken_from_2_57_on(demo: Asking) -> None:
    assert demo.create("2.56", **personality()).status == 202
    assert refusal(demo.create("2.57", **personality()))[0] == 400
    server_id = demo.boot()
    assert refusal(demo.act(server_id, {"rebuild": {"imageRef": demo.image, **personality()}}, "2.57"))[0] == 400


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"personality": [personality()["personality"][0]] * 6}, "Personality file limit exceeded"),
        (personality("/" + "x" * 255), "Personality file path exceeds maximum 255"),
        (
            personality(contents=base64.b64encode(b"x" * 10241).decode()),
            "Personality file content exceeds maximum 10240",
        ),
    ],
)
def test_files_beyond_the_quota_are_refused(demo: Asking, wish: dict[str, Any], said: str) -> None:
    assert refusal(demo.create(**wish)) == (413, "entityTooLarge", said)


def test_files_that_are_not_base64_are_refused(demo: Asking) -> None:
    assert refusal(demo.create(**personality(contents="!")))[:2] == (400, "badRequest")


# -- user data


def test_user_data_may_be_broken_into_lines(demo: Asking, hypervisor: FakeHypervisor) -> None:
    told = base64.encodebytes(b"#!/bin/sh\n" * 30).decode()
    assert "\n" in told.strip()
    server_id = demo.boot(user_data=told)
    assert guest_data.user_data(there(hypervisor.guests.get(server_id)).spec) == b"#!/bin/sh\n" * 30


# -- block_device_mapping, and the path of those times


def test_a_server_boots_from_the_volume_that_is_called_vda(demo: Asking, hypervisor: FakeHypervisor) -> None:
    root, other = bootable(demo), demo.volume()
    mapping = [{"device_name": "vdb", "volume_id": other}, {"device_name": "vda", "volume_id": root}]
    server_id = demo.boot(block_device_mapping=mapping)
    volumes = {each.volume_id: each for each in there(hypervisor.guests.get(server_id)).spec.volumes}
    assert volumes[root].boot_index == 0 and volumes[other].device == "/dev/vdb"
    assert demo.server(server_id)["image"] == ""


def test_without_an_image_the_first_device_is_the_root_disk(demo: Asking) -> None:
    server_id = demo.boot(imageRef=None, block_device_mapping=[{"device_name": "sda", "volume_id": bootable(demo)}])
    assert (demo.status(server_id), demo.server(server_id)["image"]) == ("ACTIVE", "")


def test_a_volume_is_made_of_the_snapshot_that_is_named(demo: Asking) -> None:
    volume_id = demo.volume()
    body = {"snapshot": {"volume_id": volume_id}}
    snapshot_id = demo.client.post("/volume/v3/snapshots", body).json()["snapshot"]["id"]
    demo.cloud.settle()
    wish = {"device_name": "vdc", "snapshot_id": snapshot_id, "volume_size": "1", "delete_on_termination": True}
    server_id = demo.boot(block_device_mapping=[wish])
    (attached,) = demo.server(server_id)["os-extended-volumes:volumes_attached"]
    assert attached["delete_on_termination"] is True and attached["id"] != volume_id


def test_both_forms_of_block_devices_at_once_are_refused(demo: Asking) -> None:
    volume_id = bootable(demo)
    new = [{"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": 0}]
    answer = demo.create(
        imageRef=None,
        block_device_mapping=[{"device_name": "vda", "volume_id": volume_id}],
        block_device_mapping_v2=new,
    )
    said = "Using different block_device_mapping syntaxes is not allowed in the same request."
    assert refusal(answer) == (400, "badRequest", said)


def test_a_device_is_left_out_only_if_no_device_says_so(demo: Asking) -> None:
    """Null is what clients send that write every key: it said no in the old form, and was refused in the new one."""

    def attached(**body: Any) -> int:
        return len(demo.server(demo.boot(**body))["os-extended-volumes:volumes_attached"])

    old = {"device_name": "vdb", "volume_id": demo.volume()}
    assert attached(block_device_mapping=[{**old, "no_device": True}]) == 0
    assert attached(block_device_mapping=[{**old, "no_device": None}]) == 1
    new = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    image = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": demo.image}
    assert attached(block_device_mapping_v2=[image, {**new, "no_device": "true"}]) == 0
    assert attached(block_device_mapping_v2=[image, {**new, "no_device": None}]) == 1


def test_a_device_that_names_nothing_is_refused(demo: Asking) -> None:
    assert refusal(demo.create(block_device_mapping=[{"device_name": "vdb"}]))[:2] == (400, "badRequest")


@pytest.mark.parametrize("version", [None, "2.102"])
def test_servers_are_made_at_the_old_path_too(demo: Asking, version: str | None) -> None:
    volume_id = bootable(demo)
    device = {"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": 0}
    made = demo.post("/os-volumes_boot", demo.body(imageRef="", block_device_mapping_v2=[device]), version)
    assert made.status == 202, made
    demo.cloud.settle()
    assert demo.status(made.json()["server"]["id"]) == "ACTIVE"


# -- what is said of a wrong value


def test_a_refusal_shows_the_value(demo: Asking) -> None:
    said = refusal(demo.create(min_count="many"))[2]
    assert said.startswith("Invalid input for field/attribute min_count. Value: many. ")
    said = refusal(demo.create(networks=[{"uuid": "x y"}]))[2]
    assert "Invalid input for field/attribute uuid. Value: x y. " in said
