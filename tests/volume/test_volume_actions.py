"""Actions on volumes over HTTP. Reference: volume.md, section 3; volume-states.md, section 4."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, Unreachable
from tests.volume.asking import LATEST, V3, act, volume

SERVER = "1f2d3c4b-5a69-4788-9a0b-1c2d3e4f5061"
OTHER = "2f2d3c4b-5a69-4788-9a0b-1c2d3e4f5062"


def reset(admin: Any, id: str, **fields: Any) -> None:
    assert act(admin, id, "os-reset_status", fields).status == 202


# -- extend


def test_a_volume_grows_on_the_backend(make: Any, cloud: Any, demo: Any, backend: Any) -> None:
    id = make(size=1)["id"]
    assert act(demo, id, "os-extend", {"new_size": 3}).status == 202
    assert volume(demo, id)["status"] == "extending"
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalGigabytesUsed"] == 3
    cloud.settle()
    assert (volume(demo, id)["status"], volume(demo, id)["size"]) == ("available", 3)
    assert backend.volumes.get(id).size_gib == 3


def test_a_volume_in_use_grows_from_3_42_on(make: Any, cloud: Any, demo: Any) -> None:
    id = make()["id"]
    act(demo, id, "os-attach", {"instance_uuid": SERVER, "mountpoint": "/dev/vdb"})
    assert act(demo, id, "os-extend", {"new_size": 2}, "3.41").status == 409
    assert act(demo, id, "os-extend", {"new_size": 2}, "3.42").status == 202
    cloud.settle()
    assert (volume(demo, id)["status"], volume(demo, id)["size"]) == ("in-use", 2)


@pytest.mark.parametrize("size", [1, 0, "x", None, 2**31, 10**30])
def test_a_volume_only_grows(make: Any, demo: Any, size: Any) -> None:
    assert act(demo, make()["id"], "os-extend", {"new_size": size}).status == 400


def test_growth_needs_quota(make: Any, demo: Any, admin: Any) -> None:
    made = make()
    admin.put(f"{V3}/os-quota-sets/{made['os-vol-tenant-attr:tenant_id']}", {"quota_set": {"gigabytes": 2}})
    refused = act(demo, made["id"], "os-extend", {"new_size": 3})
    assert refused.status == 413
    assert "exceeds allowed gigabytes quota" in refused.json()["overLimit"]["message"]
    assert volume(demo, made["id"])["status"] == "available"


def test_growth_that_fails_keeps_the_size_and_gives_the_quota_back(
    make: Any, cloud: Any, demo: Any, backend: Any
) -> None:
    id = make()["id"]
    backend.behaviour.fail("ensure_extended", error=DriverError("no more room"))
    act(demo, id, "os-extend", {"new_size": 3})
    cloud.settle()
    assert (volume(demo, id)["status"], volume(demo, id)["size"]) == ("error_extending", 1)
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalGigabytesUsed"] == 1
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert (message["resource_uuid"], message["event_id"]) == (id, "VOLUME_VOLUME_007_010")
    assert demo.delete(f"{V3}/volumes/{id}").status == 202


# -- flags


def test_flags_are_set(make: Any, demo: Any) -> None:
    id = make()["id"]
    answer = act(demo, id, "os-set_bootable", {"bootable": "true"})
    assert (answer.status, answer.body) == (200, b"")
    assert act(demo, id, "os-update_readonly_flag", {"readonly": True}).status == 202
    found = volume(demo, id)
    assert (found["bootable"], found["metadata"]) == ("true", {"readonly": "True"})
    assert act(demo, id, "os-attach", {"instance_uuid": SERVER, "mountpoint": "/dev/vdb"}).status == 400
    assert act(demo, id, "os-attach", {"instance_uuid": SERVER, "mountpoint": "vdb", "mode": "ro"}).status == 202
    assert volume(demo, id)["metadata"] == {"readonly": "True", "attached_mode": "ro"}
    assert act(demo, id, "os-update_readonly_flag", {"readonly": False}).status == 409


def test_image_metadata_is_set_shown_and_unset(make: Any, demo: Any) -> None:
    id = make()["id"]
    assert act(demo, id, "os-set_image_metadata", {"metadata": {"a": "1"}}).json() == {"metadata": {"a": "1"}}
    assert act(demo, id, "os-set_image_metadata", {"metadata": {"b": "2"}}).json()["metadata"].keys() == {"a", "b"}
    assert volume(demo, id)["volume_image_metadata"] == {"a": "1", "b": "2"}
    assert act(demo, id, "os-unset_image_metadata", {"key": "a"}).status == 200
    assert act(demo, id, "os-unset_image_metadata", {"key": "a"}).status == 404
    assert act(demo, id, "os-show_image_metadata").json() == {"metadata": {"b": "2"}}


def test_image_metadata_is_as_long_as_properties_of_images(make: Any, demo: Any) -> None:
    """The signature of an image by a key of 2048 bits has 344 characters."""
    id, signed = make()["id"], {"img_signature": "x" * 344}
    assert act(demo, id, "os-set_image_metadata", {"metadata": signed}).json() == {"metadata": signed}
    assert act(demo, id, "os-set_image_metadata", {"metadata": {"k": "x" * 65536}}).status == 400


# -- statuses set by hand


def test_an_administrator_sets_a_status(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]
    assert act(demo, id, "os-reset_status", {"status": "error"}).status == 403
    reset(admin, id, status="error")
    assert volume(demo, id)["status"] == "error"
    reset(admin, id, migration_status="migrating")
    assert volume(admin, id)["migration_status"] == "migrating"
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    reset(admin, id, migration_status="none")
    assert volume(admin, id)["migration_status"] is None


@pytest.mark.parametrize(
    "body",
    [{}, {"status": "deleting"}, {"status": "happy"}, {"status": "in-use"}, {"attach_status": "x"}, {"status": None}],
)
def test_a_status_that_cannot_be_is_refused(make: Any, admin: Any, demo: Any, body: Any) -> None:
    id = make()["id"]
    assert act(admin, id, "os-reset_status", body).status == 400
    assert volume(demo, id)["status"] == "available"


def test_a_reset_to_detached_lets_the_volume_be_deleted(
    make: Any, cloud: Any, demo: Any, admin: Any, backend: Any
) -> None:
    id = make()["id"]
    asked = {"volume_uuid": id, "instance_uuid": SERVER, "connector": {"host": "h1"}}
    demo.post(f"{V3}/attachments", {"attachment": asked}, headers=LATEST)
    assert backend.volumes.get(id).hosts == ("h1",)
    reset(admin, id, status="available", attach_status="detached")
    assert volume(demo, id)["attachments"] == []
    assert demo.delete(f"{V3}/volumes/{id}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    assert not list(backend.volumes.values())


def test_force_delete_works_from_every_status_but_not_under_an_attachment(
    make: Any, cloud: Any, demo: Any, admin: Any
) -> None:
    id = make()["id"]
    act(demo, id, "os-attach", {"instance_uuid": SERVER, "mountpoint": "/dev/vdb"})
    assert act(admin, id, "os-force_delete").status == 409
    act(demo, id, "os-detach")
    reset(admin, id, status="error_deleting")
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    assert act(demo, id, "os-force_delete").status == 403
    assert act(admin, id, "os-force_delete").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").status == 404


# -- the classic way to attach


def test_the_classic_way_from_reservation_to_detach(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]

    def status() -> str:
        return str(volume(demo, id)["status"])

    assert act(demo, id, "os-reserve").status == 202 and status() == "attaching"
    refused = act(demo, id, "os-reserve")
    assert refused.status == 409
    assert (
        "must be available to reserve, but the status is attaching" in refused.json()["conflictingRequest"]["message"]
    )
    assert act(demo, id, "os-unreserve").status == 202 and status() == "available"
    assert act(demo, id, "os-unreserve").status == 202 and status() == "available"
    act(demo, id, "os-reserve")
    assert act(demo, id, "os-attach", {"instance_uuid": SERVER, "mountpoint": "/dev/vdb"}).status == 202
    assert status() == "in-use"
    (attachment,) = volume(demo, id)["attachments"]
    assert (attachment["server_id"], attachment["device"], attachment["id"]) == (SERVER, "/dev/vdb", id)
    assert attachment["host_name"] is None and attachment["attached_at"]
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    assert act(demo, id, "os-begin_detaching").status == 202 and status() == "detaching"
    assert act(demo, id, "os-roll_detaching").status == 202 and status() == "in-use"
    act(demo, id, "os-begin_detaching")
    assert act(demo, id, "os-detach", {"attachment_id": attachment["attachment_id"]}).status == 202
    assert status() == "available" and volume(demo, id)["attachments"] == []
    assert act(demo, id, "os-begin_detaching").status == 409


def test_a_volume_has_one_server_unless_its_type_lets_it_have_more(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]
    attach = {"instance_uuid": SERVER, "mountpoint": "/dev/vdb"}
    act(demo, id, "os-attach", attach)
    assert act(demo, id, "os-attach", {**attach, "instance_uuid": OTHER}).status == 409
    shared = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    admin.post(f"{V3}/types", {"volume_type": shared})
    id = make(volume_type="shared")["id"]
    assert volume(demo, id)["multiattach"] is True
    for server in (SERVER, OTHER):
        assert act(demo, id, "os-attach", {**attach, "instance_uuid": server}).status == 202
    assert {each["server_id"] for each in volume(demo, id)["attachments"]} == {SERVER, OTHER}
    assert act(demo, id, "os-detach").status == 400
    one = volume(demo, id)["attachments"][0]["attachment_id"]
    assert act(demo, id, "os-detach", {"attachment_id": one}).status == 202
    assert volume(demo, id)["status"] == "in-use"


def test_a_connection_is_made_and_ended_on_the_backend(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    answer = act(demo, id, "os-initialize_connection", {"connector": {"host": "h1", "ip": "10.0.0.1"}})
    assert answer.status == 200
    info = answer.json()["connection_info"]
    assert info["driver_volume_type"] == "fake" and info["data"]["volume_id"] == id
    assert backend.volumes.get(id).hosts == ("h1",)
    assert act(demo, id, "os-terminate_connection", {"connector": None}).status == 202
    assert backend.volumes.get(id).hosts == ()
    assert act(demo, id, "os-initialize_connection", {"connector": {"ip": "10.0.0.1"}}).status == 400


def test_a_backend_that_does_not_answer_is_unavailable(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("connect", error=Unreachable("down"))
    answer = act(demo, id, "os-initialize_connection", {"connector": {"host": "h1"}})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "serviceUnavailable" in answer.json()


def test_an_attachment_to_a_host_ends_with_its_connection(make: Any, cloud: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    act(demo, id, "os-initialize_connection", {"connector": {"host": "h1"}})
    act(demo, id, "os-attach", {"host_name": "h1", "mountpoint": "/dev/vdb"})
    assert act(demo, id, "os-detach").status == 202
    assert volume(demo, id)["status"] == "detaching"
    cloud.settle()
    assert volume(demo, id)["status"] == "available"
    assert backend.volumes.get(id).hosts == ()


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("os-attach", {"mountpoint": "/dev/vdb"}),
        ("os-attach", {"instance_uuid": SERVER}),
        ("os-attach", {"instance_uuid": "x", "mountpoint": "/dev/vdb"}),
        ("os-attach", {"instance_uuid": SERVER, "mountpoint": "m" * 256}),
        ("os-attach", {"instance_uuid": SERVER, "mountpoint": "m", "mode": "wr"}),
        ("os-detach", {"attachment_id": 1}),
        ("os-initialize_connection", None),
        ("os-initialize_connection", {"connector": []}),
        ("os-set_bootable", {"bootable": "perhaps"}),
        ("os-set_bootable", {}),
        ("os-set_image_metadata", {"metadata": {"k": None}}),
        ("os-unset_image_metadata", {"key": ""}),
        ("os-fly", {}),
    ],
)
def test_a_wrong_action_is_refused(make: Any, demo: Any, action: str, body: Any) -> None:
    id = make()["id"]
    assert act(demo, id, action, body).status == 400
    assert volume(demo, id)["status"] == "available"


def test_an_action_is_the_only_key_of_its_body(make: Any, demo: Any) -> None:
    id = make()["id"]
    body: Any
    for body in ({}, {"os-reserve": None, "os-unreserve": None}, []):
        assert demo.post(f"{V3}/volumes/{id}/action", body).status == 400


def test_a_volume_in_error_is_detached_by_force(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]
    server = "6f1d2c3b-0000-4000-8000-000000000000"
    assert act(demo, id, "os-attach", {"instance_uuid": server, "mountpoint": "/dev/vdb"}).status == 202
    attachment = volume(demo, id)["attachments"][0]["attachment_id"]
    assert act(admin, id, "os-reset_status", {"status": "error"}).status == 202
    assert act(admin, id, "os-force_detach", {"attachment_id": attachment}).status == 202
    found = volume(demo, id)
    assert (found["status"], found["attachments"]) == ("available", [])
