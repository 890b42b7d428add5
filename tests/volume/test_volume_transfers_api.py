"""Transfers over HTTP. Reference: volume.md, section 11."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import Unreachable
from tests.volume.asking import LATEST, V3, act, at, volume

OLD, NEW = f"{V3}/os-volume-transfer", f"{V3}/volume-transfers"


def offer(client: Any, volume_id: str, url: str = OLD, version: str = "3.0", **more: Any) -> dict[str, Any]:
    answer = client.post(url, {"transfer": {"volume_id": volume_id, "name": "t", **more}}, headers=at(version))
    assert answer.status == 202, answer
    found: dict[str, Any] = answer.json()["transfer"]
    return found


def accept(client: Any, transfer: dict[str, Any], url: str = OLD, **headers: str) -> Any:
    body = {"accept": {"auth_key": transfer["auth_key"]}}
    return client.post(f"{url}/{transfer['id']}/accept", body, headers=headers or LATEST)


def test_a_volume_changes_its_project(make: Any, demo: Any, stranger: Any) -> None:
    id = make()["id"]
    made = offer(demo, id)
    assert set(made) == {"id", "name", "volume_id", "links", "created_at", "auth_key"}
    assert len(made["auth_key"]) == 16 and volume(demo, id)["status"] == "awaiting-transfer"
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    shown = {key: value for key, value in made.items() if key != "auth_key"}
    assert demo.get(f"{OLD}/{made['id']}").json() == {"transfer": shown}
    assert demo.get(f"{OLD}/detail").json() == {"transfers": [shown]}
    summary = {key: shown[key] for key in ("id", "name", "volume_id", "links")}
    assert demo.get(OLD).json() == {"transfers": [summary]}
    # The other project does not see it, and may have it.
    assert stranger.get(f"{OLD}/{made['id']}").status == 404
    assert stranger.get(f"{OLD}/detail").json() == {"transfers": []}
    assert accept(stranger, {**made, "auth_key": "0" * 16}).status == 400
    assert demo.get(f"{OLD}/{made['id']}").status == 200
    answer = accept(stranger, made)
    assert (answer.status, answer.json()) == (202, {"transfer": summary})
    assert volume(stranger, id)["status"] == "available"
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    assert accept(stranger, made).status == 404


def test_no_host_of_the_former_owner_keeps_a_volume(make: Any, demo: Any, stranger: Any, backend: Any) -> None:
    id = make()["id"]
    connect = "os-initialize_connection", {"connector": {"host": "h1"}}
    assert act(demo, id, *connect).status == 200
    made = offer(demo, id)
    # Nor does one come in just before.
    assert act(demo, id, *connect).status == 409
    assert accept(stranger, {**made, "auth_key": "0" * 16}).status == 400
    assert backend.volumes.get(id).hosts == ("h1",)
    backend.behaviour.fail("disconnect", error=Unreachable("down"))
    assert accept(stranger, made).status == 503
    assert volume(demo, id)["status"] == "awaiting-transfer"
    assert accept(stranger, made).status == 202
    assert backend.volumes.get(id).hosts == ()


def test_an_offer_is_withdrawn(make: Any, demo: Any, stranger: Any) -> None:
    id = make()["id"]
    made = offer(demo, id)
    assert demo.post(OLD, {"transfer": {"volume_id": id}}).status == 409
    assert stranger.delete(f"{OLD}/{made['id']}").status == 404
    assert demo.delete(f"{OLD}/{made['id']}").status == 202
    assert volume(demo, id)["status"] == "available"
    assert accept(stranger, made).status == 404


def test_fields_come_with_versions(make: Any, demo: Any) -> None:
    id = make()["id"]
    assert demo.post(NEW, {"transfer": {"volume_id": id}}, headers=at("3.54")).status == 404
    assert demo.post(OLD, {"transfer": {"volume_id": id, "no_snapshots": True}}, headers=at("3.54")).status == 400
    made = offer(demo, id, NEW, "3.55", no_snapshots=True)
    assert made["no_snapshots"] is True and "accepted" not in made
    newest = demo.get(f"{NEW}/{made['id']}", headers=LATEST).json()["transfer"]
    assert newest["accepted"] is False and newest["destination_project_id"] is None
    assert newest["source_project_id"] == volume(demo, id)["os-vol-tenant-attr:tenant_id"]
    assert "no_snapshots" not in demo.get(f"{OLD}/{made['id']}").json()["transfer"]


@pytest.mark.parametrize("stay", [False, True])
def test_snapshots_go_with_the_volume_or_stay(make: Any, cloud: Any, demo: Any, stranger: Any, stay: bool) -> None:
    id = make()["id"]
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    assert demo.post(OLD, {"transfer": {"volume_id": id}}).status == 409  # it is being made
    cloud.settle()
    made = offer(demo, id, NEW, "3.55", no_snapshots=stay)
    assert accept(stranger, made, NEW).status == 202
    there, here = stranger.get(f"{V3}/snapshots/{snapshot}").status, demo.get(f"{V3}/snapshots/{snapshot}").status
    assert (there, here) == ((404, 200) if stay else (200, 404))


def test_snapshots_that_a_former_owner_kept_stay_when_the_volume_goes_on(
    make: Any, cloud: Any, demo: Any, stranger: Any, admin: Any
) -> None:
    id = make()["id"]
    kept = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    assert accept(stranger, offer(demo, id, NEW, "3.55", no_snapshots=True), NEW).status == 202
    mine = stranger.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    # What the former owner does with it is no reason to refuse.
    admin.post(f"{V3}/snapshots/{kept}/action", {"os-reset_status": {"status": "error"}})
    assert accept(admin, offer(stranger, id, NEW, "3.55"), NEW).status == 202
    seen = [[client.get(f"{V3}/snapshots/{each}").status for each in (kept, mine)] for client in (demo, stranger)]
    assert seen == [[200, 404], [404, 404]]
    listed = admin.get(f"{V3}/snapshots").json()["snapshots"]
    assert [each["id"] for each in listed] == [mine]


def test_the_quota_of_the_other_project_counts(make: Any, demo: Any, stranger: Any, admin: Any) -> None:
    mine = volume(stranger, make(client=stranger)["id"])["os-vol-tenant-attr:tenant_id"]
    made = offer(demo, make()["id"])
    admin.put(f"{V3}/os-quota-sets/{mine}", {"quota_set": {"volumes": 1}})
    answer = accept(stranger, made)
    assert answer.status == 413 and "exceed" in answer.json()["overLimit"]["message"]
    assert volume(demo, made["volume_id"])["status"] == "awaiting-transfer"
    admin.put(f"{V3}/os-quota-sets/{mine}", {"quota_set": {"volumes": 2}})
    assert accept(stranger, made).status == 202


def test_a_project_that_takes_its_own_offer_needs_no_quota_for_it(make: Any, demo: Any, admin: Any) -> None:
    made = make()
    admin.put(f"{V3}/os-quota-sets/{made['os-vol-tenant-attr:tenant_id']}", {"quota_set": {"volumes": 1}})
    assert accept(demo, offer(demo, made["id"])).status == 202
    assert volume(demo, made["id"])["status"] == "available"


def test_an_offer_goes_with_its_volume(make: Any, cloud: Any, demo: Any, admin: Any) -> None:
    made = offer(demo, make()["id"])
    assert admin.post(f"{V3}/volumes/{made['volume_id']}/action", {"os-force_delete": None}).status == 202
    cloud.settle()
    assert demo.get(f"{OLD}/{made['id']}").status == 404


def test_offers_are_paged_and_filtered(make: Any, demo: Any, admin: Any) -> None:
    several = [offer(demo, make()["id"])["id"] for _ in range(2)]
    page = demo.get(f"{OLD}?limit=1&sort=created_at:asc").json()
    assert [each["id"] for each in page["transfers"]] == several[:1] and "transfers_links" in page
    assert [each["id"] for each in demo.get(f"{OLD}?id={several[1]}").json()["transfers"]] == several[1:]
    assert admin.get(OLD).json() == {"transfers": []}
    assert len(admin.get(f"{OLD}?all_tenants=1").json()["transfers"]) == 2
