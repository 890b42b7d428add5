"""What came after 2.96. Reference: compute-microversions.md, section 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cloudctl.compute.remembered import remembered, told
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.compute.asking import LATEST, V21, Asking, at

ELSEWHERE = "11111111-1111-1111-1111-111111111111"


# -- 2.97: shares, of which there is no service


def test_a_server_has_no_shares_and_none_is_found(demo: Asking, admin: Asking) -> None:
    server_id = demo.boot()
    path = f"/servers/{server_id}/shares"
    assert demo.get(path, "2.97").json() == {"shares": []}
    assert demo.get(path, "2.96").status == 404
    refused = demo.post(path, {"share": {"share_id": ELSEWHERE, "tag": "data-1"}}, "2.97")
    assert refused.status == 404 and ELSEWHERE in refused.json()["itemNotFound"]["message"]
    assert demo.post(path, {"share": {"share_id": "x"}}, "2.97").status == 400
    assert demo.post(path, {"share": {"share_id": ELSEWHERE, "tag": "a b"}}, "2.97").status == 400
    assert demo.get(f"{path}/{ELSEWHERE}", "2.97").status == demo.delete(f"{path}/{ELSEWHERE}", "2.97").status == 404
    assert demo.get(f"/servers/{ELSEWHERE}/shares", "2.97").status == 404


# -- 2.98: properties of the image


def image_of(demo: Asking, server_id: str, version: str = "2.98") -> dict[str, Any]:
    image: dict[str, Any] = demo.server(server_id, version)["image"]
    return image


def say(admin: Asking, image_id: str, name: str, value: str) -> None:
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    change = [{"op": "add", "path": f"/{name}", "value": value}]
    assert admin.client.request("PATCH", f"/image/v2/images/{image_id}", change, headers=headers).status == 200


def test_a_server_shows_what_its_image_said_when_its_disk_was_made(demo: Asking, admin: Asking) -> None:
    say(admin, demo.image, "hw_disk_bus", "virtio")
    server_id = demo.boot()
    assert "properties" not in image_of(demo, server_id, "2.97")
    before = image_of(demo, server_id)["properties"]
    assert before["hw_disk_bus"] == "virtio"
    say(admin, demo.image, "hw_disk_bus", "sata")
    assert image_of(demo, server_id)["properties"] == before
    listed = demo.get("/servers/detail", "2.98").json()["servers"]
    assert [each["image"]["properties"] for each in listed] == [before]
    rebuilt = demo.act(server_id, {"rebuild": {"imageRef": demo.image}}, "2.98").json()["server"]
    assert rebuilt["image"]["properties"] == {**before, "hw_disk_bus": "sata"}
    demo.cloud.settle()
    assert image_of(demo, server_id)["properties"] == {**before, "hw_disk_bus": "sata"}


def test_a_server_moves_to_where_its_image_wanted_to_be_when_its_disk_was_made(demo: Asking, admin: Asking) -> None:
    server_id = demo.boot()
    source = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    say(admin, demo.image, "img_hv_type", "hyperv")
    assert demo.server(demo.boot())["status"] == "ERROR"
    assert admin.act(server_id, {"os-migrateLive": {"host": None, "block_migration": "auto"}}, "2.96").status == 202
    demo.cloud.settle()
    moved = admin.server(server_id)
    assert moved["status"] == "ACTIVE" and moved["OS-EXT-SRV-ATTR:host"] != source


def test_a_server_that_boots_from_a_volume_has_no_image(demo: Asking) -> None:
    device = {"uuid": demo.image, "source_type": "image", "destination_type": "volume", "volume_size": 1}
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=[{**device, "boot_index": 0}])
    assert demo.server(server_id, "2.98")["image"] == ""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"os_distro": "debian"}, {"os_distro": "debian"}),
        ({"trait:CUSTOM_X": "required"}, {"trait:CUSTOM_X": "required"}),
        ({"a/b": "1", "ä": "2", "n" * 256: "3"}, {}),
        ({"long": "x" * 256}, {"long": "x" * 255}),
    ],
)
def test_what_is_told_of_an_image(said: Mapping[str, str], kept: Mapping[str, str]) -> None:
    assert told(remembered(said)) == kept


def test_what_places_a_server_and_starts_its_guest_is_remembered_whole() -> None:
    said = {"vendor-os": "linux", "os_command_line": "console=ttyS0 " * 20}
    assert remembered(said) == said


# -- 2.100: hints


def test_a_server_shows_the_hints_that_it_was_made_with(demo: Asking) -> None:
    body = demo.body() | {"os:scheduler_hints": {"different_host": [ELSEWHERE], "query": '["=", "$x", 1]'}}
    made = demo.post("/servers", body, "2.100")
    demo.cloud.settle()
    shown = demo.server(made.json()["server"]["id"], "2.100")
    assert shown["scheduler_hints"] == body["os:scheduler_hints"]
    assert demo.server(demo.boot(), "2.100")["scheduler_hints"] == {}


# -- 2.101: an attachment that is only promised


def test_who_attaches_a_volume_is_told_nothing(demo: Asking) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    path = f"/servers/{server_id}/os-volume_attachments"
    answer = demo.post(path, {"volumeAttachment": {"volumeId": volume_id}}, "2.101")
    assert (answer.status, answer.body) == (202, b"")
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "in-use"


# -- 2.102: flavors, and queries


def test_flavors_are_listed_by_name_and_no_longer_say_what_nothing_heeds(admin: Asking) -> None:
    old = admin.get("/flavors/detail", "2.101").json()["flavors"]
    new = admin.get("/flavors/detail", "2.102").json()["flavors"]
    gone = {"rxtx_factor", "OS-FLV-DISABLED:disabled"}
    assert [set(each) - gone for each in old] == [set(each) for each in new] and gone <= set(old[0])
    for path in ("/flavors", "/flavors/detail"):
        found = admin.get(f"{path}?name=^m1.t", "2.102").json()["flavors"]
        assert [each["name"] for each in found] == ["m1.tiny"]
    assert admin.get("/flavors?name=(", "2.102").status == 400
    flavor = {"name": "f", "ram": 64, "vcpus": 1, "disk": 1, "rxtx_factor": 2.0}
    assert admin.post("/flavors", {"flavor": flavor}, "2.102").status == 400
    assert admin.post("/flavors", {"flavor": flavor}, "2.101").status == 200


@pytest.mark.parametrize(
    "path", ["/flavors/1", "/os-keypairs", "/os-server-groups", "/limits", "/os-availability-zone"]
)
def test_a_parameter_that_a_call_does_not_have_is_refused(demo: Asking, path: str) -> None:
    assert demo.get(f"{path}?colour=red", "2.101").status in (200, 400)
    refused = demo.get(f"{path}?colour=red", "2.102")
    assert refused.status == 400 and "'colour'" in refused.json()["badRequest"]["message"]
    assert demo.get(path, "2.102").status == 200


def test_a_parameter_of_later_versions_is_no_parameter_yet(demo: Asking) -> None:
    """Below 2.75 none is refused, and what is not known is not heeded."""
    assert len(demo.get("/flavors?name=^m1.t", "2.74").json()["flavors"]) > 1
    assert demo.get("/flavors?name=^m1.t", "2.101").status == 400


# -- 2.103


def test_the_old_path_of_servers_from_volumes_is_gone(demo: Asking) -> None:
    assert demo.post("/os-volumes_boot", demo.body(), "2.103").status == 404
    assert demo.post("/os-volumes_boot", demo.body(), "2.102").status == 202


# -- 2.104: the zone


def pin(demo: Asking, server_id: str, zone: str | None, version: str = "2.104") -> Any:
    return demo.put(f"/servers/{server_id}", {"server": {"pinned_availability_zone": zone}}, version)


def test_a_server_may_be_let_out_of_its_zone_and_kept_in_it_again(demo: Asking) -> None:
    server_id = demo.boot(availability_zone="nova")
    assert pin(demo, server_id, None, "2.103").status == 400
    assert pin(demo, server_id, None).json()["server"]["pinned_availability_zone"] is None
    shown = demo.server(server_id)
    assert (shown["pinned_availability_zone"], shown["OS-EXT-AZ:availability_zone"]) == (None, "nova")
    refused = pin(demo, server_id, "elsewhere")
    assert refused.status == 400 and "elsewhere" in refused.json()["badRequest"]["message"]
    assert pin(demo, server_id, "nova").json()["server"]["pinned_availability_zone"] == "nova"
    assert demo.server(server_id)["pinned_availability_zone"] == "nova"
    assert pin(demo, server_id, None, "2.104").status == 200


def test_where_a_server_may_go_follows_its_pin(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    """Out of its zone it may only go once it is let."""
    body = {"aggregate": {"name": "east", "availability_zone": "east"}}
    aggregate = admin.post("/os-aggregates", body).json()["aggregate"]["id"]
    server_id = demo.boot(availability_zone="nova")
    mine = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    for name in hypervisor.machines:
        if name != mine:
            added = admin.post(f"/os-aggregates/{aggregate}/action", {"add_host": {"host": name}})
            assert added.status == 200, added
    admin.act(server_id, {"migrate": None})
    demo.cloud.settle()
    assert admin.server(server_id)["OS-EXT-SRV-ATTR:host"] == mine
    assert pin(demo, server_id, None).status == 200
    assert admin.act(server_id, {"migrate": None}).status == 202
    demo.cloud.settle()
    assert admin.server(server_id)["OS-EXT-AZ:availability_zone"] == "east"


def test_a_server_that_is_nowhere_is_pinned_to_no_zone(demo: Asking) -> None:
    server_id = demo.boot(availability_zone="nova")
    demo.act(server_id, {"shelve": None})
    demo.cloud.settle()
    assert pin(demo, server_id, "nova").status == 409
    assert pin(demo, server_id, None).status == 200
    assert demo.server(server_id)["pinned_availability_zone"] is None


def test_volumes_keep_a_server_where_they_are(demo: Asking) -> None:
    server_id = demo.boot(availability_zone="nova")
    path = f"/servers/{server_id}/os-volume_attachments"
    demo.post(path, {"volumeAttachment": {"volumeId": demo.volume()}})
    demo.cloud.settle()
    demo.act(server_id, {"shelve": None})
    demo.cloud.settle()
    assert pin(demo, server_id, None).status == 200
    shown = demo.server(server_id)
    assert (shown["pinned_availability_zone"], shown["OS-EXT-AZ:availability_zone"]) == (None, "nova")


def test_a_console_of_the_newest_type_is_known_and_not_to_be_had(demo: Asking) -> None:
    server_id = demo.boot()
    path = f"/servers/{server_id}/remote-consoles"
    body = {"remote_console": {"protocol": "spice", "type": "spice-direct"}}
    early, late = demo.post(path, body, "2.98"), demo.post(path, body, "2.99")
    assert early.status == late.status == 400
    assert "is not a console type of protocol spice" in early.json()["badRequest"]["message"]
    assert "Unavailable console type spice-direct" in late.json()["badRequest"]["message"]


def test_the_highest_version_is_offered(demo: Asking) -> None:
    assert demo.client.get(f"{V21}/", headers=at("latest")).json()["version"]["version"] == LATEST
