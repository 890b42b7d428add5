"""Snapshots through the API. Reference: volume.md, section 5; volume-states.md, section 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError, InUse
from cloudctl.volume.tables import Snapshot
from tests.volume.asking import LATEST, V3, act, at, volume

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


@pytest.fixture
def freeze(cloud: Any, demo: Any) -> Callable[..., dict[str, Any]]:
    """`freeze(volume_id, …)`: a snapshot that is ready."""

    def made(volume_id: str, **fields: Any) -> dict[str, Any]:
        answer = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": volume_id, **fields}})
        assert answer.status == 202, answer
        cloud.settle()
        return shown(demo, answer.json()["snapshot"]["id"])

    return made


def shown(client: Any, snapshot_id: str, version: str = "3.0") -> dict[str, Any]:
    answer = client.get(f"{V3}/snapshots/{snapshot_id}", headers=at(version))
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()["snapshot"]
    return found


def fill(backend: Any, volume_id: str, content: str) -> None:
    backend.volumes.put(volume_id, evolve(backend.volumes.get(volume_id), head=content))


def attach(cloud: Any, demo: Any, volume_id: str) -> None:
    body = {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}
    assert act(demo, volume_id, "os-attach", body).status == 202
    cloud.settle()


def set_status(cloud: Any, snapshot_id: str, status: str) -> None:
    changed = Snapshot.table.update().where(Snapshot.id == snapshot_id).values(status=status)
    cloud.transact(lambda conn: conn.execute(changed).rowcount)


def test_a_snapshot_is_made_shown_and_deleted(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make(size=2)["id"]
    body = {"volume_id": id, "name": " s ", "description": "d", "metadata": {"a": "b"}}
    answer = demo.post(f"{V3}/snapshots", {"snapshot": body})
    made = answer.json()["snapshot"]
    assert answer.status == 202
    assert (made["status"], made["size"], made["volume_id"], made["name"]) == ("creating", 2, id, "s")
    assert "os-extended-snapshot-attributes:progress" not in made
    assert shown(demo, made["id"])["os-extended-snapshot-attributes:progress"] == "0%"
    cloud.settle()
    found = shown(demo, made["id"])
    assert (found["status"], found["os-extended-snapshot-attributes:progress"]) == ("available", "100%")
    assert found["metadata"] == {"a": "b"}
    assert backend.frozen.get(made["id"]).state.volume_id == id
    assert demo.delete(f"{V3}/snapshots/{made['id']}").status == 202
    assert shown(demo, made["id"])["status"] == "deleting"
    cloud.settle()
    assert demo.get(f"{V3}/snapshots/{made['id']}").status == 404
    assert backend.frozen.values() == []


@pytest.mark.parametrize(
    ("version", "added"),
    [
        ("3.0", set()),
        ("3.14", {"group_snapshot_id"}),
        ("3.41", {"group_snapshot_id", "user_id"}),
        ("3.65", {"group_snapshot_id", "user_id", "consumes_quota"}),
    ],
)
def test_fields_come_with_their_microversion(make: Any, freeze: Any, demo: Any, version: str, added: set[str]) -> None:
    base = {"id", "volume_id", "name", "description", "status", "size", "metadata", "created_at", "updated_at"}
    more = {"os-extended-snapshot-attributes:progress", "os-extended-snapshot-attributes:project_id"}
    id = freeze(make()["id"])["id"]
    assert shown(demo, id, version).keys() == base | more | added
    (listed,) = demo.get(f"{V3}/snapshots", headers=at(version)).json()["snapshots"]
    assert listed.keys() == base | added
    (detailed,) = demo.get(f"{V3}/snapshots/detail", headers=at(version)).json()["snapshots"]
    assert detailed.keys() == base | more | added


def test_a_volume_in_use_is_frozen_by_force_or_from_3_66_on(make: Any, demo: Any, cloud: Any) -> None:
    id = make()["id"]
    attach(cloud, demo, id)
    body: dict[str, Any] = {"snapshot": {"volume_id": id}}
    assert demo.post(f"{V3}/snapshots", body, headers=at("3.65")).status == 409
    assert demo.post(f"{V3}/snapshots", body, headers=at("3.66")).status == 202
    assert demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id, "force": "true"}}).status == 202
    told = {"snapshot": {"volume_id": id, "force": False}}
    assert demo.post(f"{V3}/snapshots", told, headers=at("3.66")).status == 400
    assert demo.post(f"{V3}/snapshots", told, headers=at("3.65")).status == 409
    cloud.settle()
    assert volume(demo, id)["status"] == "in-use"


def test_a_volume_is_made_of_a_snapshot_with_its_content(
    make: Any, freeze: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make(size=2)["id"]
    assert act(demo, id, "os-set_bootable", {"bootable": True}).status == 200
    fill(backend, id, "then")
    snapshot = freeze(id)
    fill(backend, id, "now")
    body = {"snapshot_id": snapshot["id"]}
    made = demo.post(f"{V3}/volumes", {"volume": body}).json()["volume"]
    larger = demo.post(f"{V3}/volumes", {"volume": {**body, "size": 3}}).json()["volume"]
    assert demo.post(f"{V3}/volumes", {"volume": {**body, "size": 1}}).status == 400
    cloud.settle()
    assert (volume(demo, made["id"])["status"], made["size"], made["bootable"]) == ("available", 2, "true")
    assert volume(demo, larger["id"])["snapshot_id"] == snapshot["id"]
    assert [backend.volumes.get(each["id"]).head for each in (made, larger)] == ["then", "then"]
    # What was made of it stays when it goes.
    assert demo.delete(f"{V3}/snapshots/{snapshot['id']}").status == 202
    cloud.settle()
    assert backend.volumes.get(made["id"]).head == "then"


def test_a_snapshot_that_is_not_ready_is_no_source(make: Any, freeze: Any, demo: Any, cloud: Any) -> None:
    snapshot = freeze(make()["id"])
    set_status(cloud, snapshot["id"], "error")
    answer = demo.post(f"{V3}/volumes", {"volume": {"snapshot_id": snapshot["id"]}})
    assert (answer.status, "Originating snapshot" in answer.json()["conflictingRequest"]["message"]) == (409, True)
    assert demo.post(f"{V3}/volumes", {"volume": {"snapshot_id": UNKNOWN}}).status == 404


def test_a_volume_with_snapshots_goes_only_with_them(
    make: Any, freeze: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    first, second = freeze(id), freeze(id)
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    set_status(cloud, first["id"], "backing-up")
    assert demo.delete(f"{V3}/volumes/{id}?cascade=true").status == 409
    assert shown(demo, second["id"])["status"] == "available"
    set_status(cloud, first["id"], "error")
    assert demo.delete(f"{V3}/volumes/{id}?cascade=true").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    assert demo.get(f"{V3}/snapshots").json()["snapshots"] == []
    assert backend.frozen.values() == [] and backend.volumes.values() == []


def test_snapshots_do_not_stay_in_deletion_if_their_volume_cannot_be_deleted(
    make: Any, freeze: Any, demo: Any, admin: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    snapshot = freeze(id)
    backend.behaviour.fail("ensure_snapshot_absent", error=DriverError("it is broken"))
    assert demo.delete(f"{V3}/volumes/{id}?cascade=true").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").json()["volume"]["status"] == "error_deleting"
    assert shown(demo, snapshot["id"])["status"] == "error_deleting"
    assert admin.delete(f"{V3}/volumes/{id}?cascade=true&force=true", headers=LATEST).status == 202
    cloud.settle()
    assert demo.get(f"{V3}/snapshots").json()["snapshots"] == []


def test_what_fails_says_so(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("ensure_snapshot", error=DriverError("it is broken"))
    made = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]
    cloud.settle()
    assert shown(demo, made["id"])["status"] == "error"
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert (message["resource_type"], message["resource_uuid"]) == ("VOLUME_SNAPSHOT", made["id"])
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert demo.delete(f"{V3}/snapshots/{made['id']}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/snapshots/{made['id']}").status == 404


def test_a_snapshot_that_is_needed_is_available_again(
    make: Any, freeze: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    snapshot = freeze(make()["id"])
    backend.behaviour.fail("ensure_snapshot_absent", error=InUse("a volume depends on it"))
    assert demo.delete(f"{V3}/snapshots/{snapshot['id']}").status == 202
    cloud.settle()
    assert shown(demo, snapshot["id"])["status"] == "available"
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert "busy" in message["user_message"]


def test_names_and_metadata_change(make: Any, freeze: Any, demo: Any) -> None:
    id = freeze(make()["id"])["id"]
    url = f"{V3}/snapshots/{id}"
    assert demo.put(url, {"snapshot": {"name": "n", "description": None}}).json()["snapshot"]["name"] == "n"
    assert demo.put(url, {"snapshot": {"display_name": "m"}}).json()["snapshot"]["name"] == "m"
    assert demo.put(url, {"snapshot": {}}).status == 400
    assert demo.post(f"{url}/metadata", {"metadata": {"a": "1"}}).json() == {"metadata": {"a": "1"}}
    assert demo.put(f"{url}/metadata/b", {"meta": {"b": "2"}}).json() == {"meta": {"b": "2"}}
    assert demo.put(f"{url}/metadata/b", {"meta": {"c": "2"}}).status == 400
    assert demo.get(f"{url}/metadata").json() == {"metadata": {"a": "1", "b": "2"}}
    assert demo.delete(f"{url}/metadata/a").status == 200
    assert demo.delete(f"{url}/metadata/a").status == 404
    assert demo.get(f"{url}/metadata/b").json() == {"meta": {"b": "2"}}
    tag = demo.get(f"{url}/metadata", headers=at("3.15")).headers["etag"]
    replaced = {"json": {"metadata": {"x": "y"}}, "headers": {**at("3.15"), "If-Match": tag}}
    assert demo.put(f"{url}/metadata", **replaced).json() == {"metadata": {"x": "y"}}
    assert demo.put(f"{url}/metadata", **replaced).status == 412


def test_lists_are_filtered_sorted_and_paged(make: Any, freeze: Any, demo: Any, cloud: Any) -> None:
    one, other = make()["id"], make()["id"]
    ids = [freeze(one, name="a", metadata={"k": "v"})["id"], freeze(one, name="b")["id"], freeze(other, name="c")["id"]]

    def listed(query: str, version: str = "3.71") -> list[str]:
        answer = demo.get(f"{V3}/snapshots?{query}", headers=at(version))
        assert answer.status == 200, answer
        return [each["id"] for each in answer.json()["snapshots"]]

    assert listed("") == ids[::-1]
    assert listed(f"volume_id={one}") == [ids[1], ids[0]]
    assert listed("sort=name:asc") == ids
    assert listed("name=b") == [ids[1]]
    assert listed("name~=b", "3.34") == [ids[1]]
    assert listed("metadata={'k':'v'}") == [ids[0]]
    assert listed("status=error") == []
    assert listed("availability_zone=nova") == ids[::-1]
    assert listed("availability_zone=mars") == []
    assert listed("created_at=gt:2020-01-01T00:00:00") == ids[::-1]
    assert demo.get(f"{V3}/snapshots?colour=red", headers=at("3.31")).status == 400
    page = demo.get(f"{V3}/snapshots/detail?limit=2&with_count=true", headers=LATEST).json()
    assert ([each["id"] for each in page["snapshots"]], page["count"]) == (ids[:0:-1], 3)
    assert page["snapshots_links"][0]["href"].endswith(f"/v3/snapshots/detail?with_count=true&marker={ids[1]}&limit=2")
    assert listed(f"marker={ids[1]}") == [ids[0]]
    assert demo.get(f"{V3}/snapshots?marker={UNKNOWN}").status == 404


def test_another_project_sees_nothing(make: Any, freeze: Any, stranger: Any, admin: Any) -> None:
    snapshot = freeze(make()["id"])
    url = f"{V3}/snapshots/{snapshot['id']}"
    assert stranger.get(f"{V3}/snapshots/detail?all_tenants=1").json()["snapshots"] == []
    assert stranger.get(f"{V3}/snapshots?marker={snapshot['id']}").status == 404
    for answer in (
        stranger.get(url),
        stranger.delete(url),
        stranger.put(url, {"snapshot": {"name": "x"}}),
        stranger.get(f"{url}/metadata"),
        stranger.post(f"{url}/metadata", {"metadata": {}}),
        stranger.post(f"{V3}/snapshots", {"snapshot": {"volume_id": snapshot["volume_id"]}}),
        stranger.post(f"{V3}/volumes", {"volume": {"snapshot_id": snapshot["id"]}}),
        stranger.post(f"{url}/action", {"os-update_snapshot_status": {"status": "error"}}),
    ):
        assert answer.status == 404, answer
    assert admin.get(url).status == 200
    assert [each["id"] for each in admin.get(f"{V3}/snapshots?all_tenants=1").json()["snapshots"]] == [snapshot["id"]]
    assert admin.get(f"{V3}/snapshots").json()["snapshots"] == []


# -- actions


def test_an_administrator_sets_statuses_and_deletes_by_force(
    make: Any, freeze: Any, demo: Any, admin: Any, cloud: Any, backend: Any
) -> None:
    id = freeze(make()["id"])["id"]
    url = f"{V3}/snapshots/{id}/action"
    assert demo.post(url, {"os-reset_status": {"status": "error"}}).status == 403
    assert admin.post(url, {"os-reset_status": {"status": "purple"}}).status == 400
    assert admin.post(url, {"os-reset_status": {"status": "error_deleting"}}).status == 202
    assert demo.delete(f"{V3}/snapshots/{id}").status == 409
    assert demo.post(url, {"os-force_delete": None}).status == 403
    assert admin.post(url, {"os-force_delete": None}).status == 202
    cloud.settle()
    assert demo.get(f"{V3}/snapshots/{id}").status == 404 and backend.frozen.values() == []


def test_a_service_says_how_far_a_snapshot_is(make: Any, freeze: Any, demo: Any, cloud: Any) -> None:
    id = freeze(make()["id"])["id"]
    url = f"{V3}/snapshots/{id}/action"

    def report(**said: str) -> int:
        return int(demo.post(url, {"os-update_snapshot_status": said}).status)

    assert report(status="available") == 400
    set_status(cloud, id, "creating")
    assert report(status="creating", progress="50%") == 202
    assert shown(demo, id)["os-extended-snapshot-attributes:progress"] == "50%"
    assert report(status="deleting") == 400
    assert report(status="available", progress="101%") == 400
    assert report(status="available", progress="100%") == 202
    assert shown(demo, id)["status"] == "available"


def test_a_volume_is_reverted_to_its_latest_snapshot(
    make: Any, freeze: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    fill(backend, id, "then")
    older = freeze(id)
    latest = freeze(id)
    other = freeze(make()["id"])
    fill(backend, id, "now")
    assert act(demo, id, "revert", {"snapshot_id": latest["id"]}, "3.39").status in (400, 404)
    assert act(demo, id, "revert", {"snapshot_id": older["id"]}).status == 400
    assert act(demo, id, "revert", {"snapshot_id": other["id"]}).status == 400
    assert act(demo, id, "revert", {"snapshot_id": UNKNOWN}).status == 404
    assert act(demo, id, "revert", {"snapshot_id": latest["id"]}).status == 202
    assert (volume(demo, id)["status"], shown(demo, latest["id"])["status"]) == ("reverting", "restoring")
    cloud.settle()
    assert (volume(demo, id)["status"], shown(demo, latest["id"])["status"]) == ("available", "available")
    assert backend.volumes.get(id).head == "then"
    assert act(demo, id, "os-extend", {"new_size": 2}).status == 202
    cloud.settle()
    assert act(demo, id, "revert", {"snapshot_id": latest["id"]}).status == 400
    attach(cloud, demo, id)
    newest = freeze(id, force=True)
    assert act(demo, id, "revert", {"snapshot_id": newest["id"]}).status == 409


# -- quotas


def test_snapshots_count(make: Any, freeze: Any, demo: Any, admin: Any, cloud: Any) -> None:
    project = demo.get("/identity/v3/auth/projects").json()["projects"][0]["id"]
    id = make(size=2)["id"]
    snapshot = freeze(id)
    used = demo.get(f"{V3}/os-quota-sets/{project}?usage=true").json()["quota_set"]
    counted = {name: used[name]["in_use"] for name in ("volumes", "snapshots", "gigabytes")}
    assert counted == {"volumes": 1, "snapshots": 1, "gigabytes": 4}
    assert (used["snapshots___DEFAULT__"]["in_use"], used["gigabytes___DEFAULT__"]["in_use"]) == (1, 4)
    absolute = demo.get(f"{V3}/limits").json()["limits"]["absolute"]
    assert (absolute["totalSnapshotsUsed"], absolute["totalGigabytesUsed"]) == (1, 4)

    def refused(limits: dict[str, int], *, body: Any = None) -> str:
        assert admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": limits}).status == 200
        answer = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}})
        assert (answer.status, answer.headers["retry-after"]) == (413, "0")
        assert admin.delete(f"{V3}/os-quota-sets/{project}").status == 200
        return str(answer.json()["overLimit"]["message"])

    assert "SnapshotLimitExceeded: Maximum number of snapshots allowed (1) exceeded" in refused({"snapshots": 1})
    assert "exceeds allowed gigabytes quota" in refused({"gigabytes": 5})
    assert "snapshots___DEFAULT__" in refused({"snapshots___DEFAULT__": 1})
    assert "exceeds" in refused({"gigabytes___DEFAULT__": 5})
    assert demo.delete(f"{V3}/snapshots/{snapshot['id']}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalGigabytesUsed"] == 2


@pytest.mark.parametrize(
    "body",
    [
        {}, {"volume_id": "x"}, {"volume_id": UNKNOWN, "name": "x" * 256},
        {"volume_id": UNKNOWN, "metadata": {"": "x"}}, {"volume_id": UNKNOWN, "metadata": {"k": 1}},
        {"volume_id": UNKNOWN, "force": "perhaps"}, {"volume_id": UNKNOWN, "colour": "red"},
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused(demo: Any, body: dict[str, Any]) -> None:
    assert demo.post(f"{V3}/snapshots", {"snapshot": body}).status == 400


def test_a_snapshot_of_no_volume_is_looked_for_and_not_found(demo: Any) -> None:
    assert demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": None}}).status == 404


def test_a_snapshot_of_an_unknown_volume_is_not_found(demo: Any) -> None:
    assert demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": UNKNOWN}}).status == 404
