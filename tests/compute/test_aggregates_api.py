"""Aggregates of hosts, and the zones that come out of them. Reference: compute.md, section 15."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.asking import LATEST, Asking, refusal


def made(admin: Asking, name: str = "rack", **wanted: Any) -> dict[str, Any]:
    answer = admin.post("/os-aggregates", {"aggregate": {"name": name, **wanted}}, LATEST)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()["aggregate"]
    return found


def act(admin: Asking, number: int, **action: Any) -> Any:
    return admin.post(f"/os-aggregates/{number}/action", action, LATEST)


def zone_of(admin: Asking, host: str) -> str:
    return str(admin.get(f"/os-services?host={host}").json()["services"][0]["zone"])


def test_an_aggregate_is_made_changed_and_deleted(admin: Asking) -> None:
    first = made(admin, availability_zone="east")
    assert first.keys() == {
        "id", "uuid", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at",
    }  # fmt: skip
    path = f"/os-aggregates/{first['id']}"
    shown = admin.get(path, "2.40").json()["aggregate"]
    assert "uuid" not in shown
    assert (shown["hosts"], shown["metadata"], shown["updated_at"]) == ([], {"availability_zone": "east"}, None)
    changed = admin.put(path, {"aggregate": {"name": "other", "availability_zone": "west"}}).json()["aggregate"]
    assert (changed["name"], changed["availability_zone"]) == ("other", "west")
    assert changed["updated_at"] is not None
    metadata = act(admin, first["id"], set_metadata={"metadata": {"ssd": "true", "availability_zone": None}})
    assert metadata.json()["aggregate"]["metadata"] == {"ssd": "true"}
    assert [each["name"] for each in admin.get("/os-aggregates").json()["aggregates"]] == ["other"]
    assert admin.delete(path).status == 200
    assert admin.get(path).status == 404


def test_the_hosts_of_an_aggregate_are_in_its_zone(admin: Asking, demo: Asking) -> None:
    first = made(admin, availability_zone="east")
    shown = act(admin, first["id"], add_host={"host": "fake-2"}).json()["aggregate"]
    assert shown["hosts"] == ["fake-2"]
    assert zone_of(admin, "fake-2") == "east"
    admin.cloud.advance(15)  # what the driver tells of the host changes nothing
    assert zone_of(admin, "fake-2") == "east"
    zones = {each["zoneName"] for each in demo.get("/os-availability-zone").json()["availabilityZoneInfo"]}
    assert zones == {"nova", "east"}
    server = admin.server(demo.boot(availability_zone="east"))
    assert (server["OS-EXT-SRV-ATTR:host"], server["OS-EXT-AZ:availability_zone"]) == ("fake-2", "east")
    # A server stays in its zone, so the zone stays, too.
    number = first["id"]
    assert act(admin, number, remove_host={"host": "fake-2"}).status == 409
    assert act(admin, number, set_metadata={"metadata": {"availability_zone": "west"}}).status == 400
    assert admin.put(f"/os-aggregates/{number}", {"aggregate": {"availability_zone": "west"}}).status == 400
    assert admin.delete(f"/os-aggregates/{number}").status == 400
    demo.delete(f"/servers/{server['id']}")
    admin.cloud.settle()
    assert act(admin, number, remove_host={"host": "fake-2"}).json()["aggregate"]["hosts"] == []
    assert zone_of(admin, "fake-2") == "nova"
    assert admin.delete(f"/os-aggregates/{number}").status == 200


def test_an_aggregate_that_gets_a_zone_moves_its_hosts(admin: Asking) -> None:
    first = made(admin)
    act(admin, first["id"], add_host={"host": "fake-1"})
    assert zone_of(admin, "fake-1") == "nova"
    act(admin, first["id"], set_metadata={"metadata": {"availability_zone": "east"}})
    assert zone_of(admin, "fake-1") == "east"
    act(admin, first["id"], set_metadata={"metadata": {"availability_zone": None}})
    assert zone_of(admin, "fake-1") == "nova"


def test_a_host_is_in_one_zone(admin: Asking) -> None:
    east, west, none = (
        made(admin, "a", availability_zone="east"),
        made(admin, "b", availability_zone="west"),
        made(admin),
    )
    act(admin, east["id"], add_host={"host": "fake-1"})
    assert act(admin, west["id"], add_host={"host": "fake-1"}).status == 409
    assert act(admin, east["id"], add_host={"host": "fake-1"}).status == 409
    assert act(admin, none["id"], add_host={"host": "fake-1"}).status == 200
    assert admin.put(f"/os-aggregates/{none['id']}", {"aggregate": {"availability_zone": "west"}}).status == 409
    assert zone_of(admin, "fake-1") == "east"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "rack"}, 409),
        ({"name": ""}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": " x"}, 400),
        ({"name": "x\ny"}, 400),
        ({"name": "x", "availability_zone": "east "}, 400),
        ({"name": "x", "availability_zone": "ea\tst"}, 400),
        ({"name": "x", "availability_zone": "a:b"}, 400),
        ({"name": "x", "availability_zone": ""}, 400),
        ({"name": "x", "metadata": {}}, 400),
    ],
)
def test_a_wrong_aggregate_is_refused(admin: Asking, body: dict[str, Any], status: int) -> None:
    made(admin)
    assert admin.post("/os-aggregates", {"aggregate": body}).status == status


def test_a_change_takes_the_spaces_off_a_name(admin: Asking) -> None:
    path = f"/os-aggregates/{made(admin)['id']}"
    assert admin.put(path, {"aggregate": {"name": " other "}}).json()["aggregate"]["name"] == "other"
    assert admin.put(path, {"aggregate": {"name": "an\tother"}}).status == 400


def test_unknown_aggregates_and_hosts_are_not_there(admin: Asking) -> None:
    number = made(admin)["id"]
    assert act(admin, number, add_host={"host": "nowhere"}).status == 404
    assert act(admin, number, remove_host={"host": "fake-1"}).status == 404
    assert act(admin, 999, add_host={"host": "fake-1"}).status == 404
    assert admin.get("/os-aggregates/999").status == 404
    assert admin.get("/os-aggregates/-1").status == 404
    assert admin.get("/os-aggregates/x").status == 400
    assert admin.put(f"/os-aggregates/{number}", {"aggregate": {}}).status == 400


def test_images_are_ready_on_hosts(admin: Asking) -> None:
    path = f"/os-aggregates/{made(admin)['id']}/images"
    cached = {"id": admin.image}
    assert admin.post(path, {"cache": [cached]}, "2.81").status == 202
    assert admin.post(path, {"cache": [cached]}, "2.80").status == 404
    assert admin.post(path, {"cache": [cached, cached]}, "2.81").status == 400
    assert admin.post(path, {"cache": []}, "2.81").status == 400


def test_members_see_no_aggregates(demo: Asking) -> None:
    assert refusal(demo.get("/os-aggregates"))[:2] == (403, "forbidden")
    assert demo.post("/os-aggregates", {"aggregate": {"name": "mine"}}).status == 403
