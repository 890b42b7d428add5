"""Backups through the API. Reference: volume.md, section 6; volume-states.md, section 6."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume.archives import Archives
from cloudctl.volume.tables import Backup, Volume
from tests.volume.asking import LATEST, V3, act, at, volume
from tests.volume.backing_up import UNKNOWN, content, fill, held, in_small_pieces, kept, restore, shown


@pytest.fixture(params=["objects", "directory"])
def cloud(request: pytest.FixtureRequest) -> Iterator[MemoryCloud]:
    made = MemoryCloud(in_small_pieces(request.param))
    yield made
    made.close()


def set_status(cloud: Any, which: Any, id: str, status: str) -> None:
    changed = which.update().where(which.c.id == id).values(status=status)
    cloud.transact(lambda conn: conn.execute(changed).rowcount)


def attach(cloud: Any, demo: Any, volume_id: str) -> None:
    body = {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}
    assert act(demo, volume_id, "os-attach", body).status == 202
    cloud.settle()


def test_a_backup_is_made_shown_and_deleted(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make(size=2)["id"]
    fill(backend, id, content("a", "b"))
    body = {"volume_id": id, "name": "n", "description": "d", "container": "mine"}
    answer = demo.post(f"{V3}/backups", {"backup": body})
    made = answer.json()["backup"]
    assert (answer.status, made.keys(), made["name"]) == (202, {"id", "name", "links"}, "n")
    assert (shown(demo, made["id"])["status"], volume(demo, id)["status"]) == ("creating", "backing-up")
    cloud.settle()
    found = shown(demo, made["id"])
    told = {name: found[name] for name in ("status", "size", "object_count", "container", "volume_id", "fail_reason")}
    assert told == {
        "status": "available", "size": 2, "object_count": 2, "container": "mine", "volume_id": id, "fail_reason": None,
    }  # fmt: skip
    assert (found["is_incremental"], found["has_dependent_backups"]) == (False, False)
    assert volume(demo, id)["status"] == "available"
    assert len(kept(cloud)) == 2
    assert demo.delete(f"{V3}/backups/{made['id']}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/backups/{made['id']}").status == 404
    assert kept(cloud) == {}


@pytest.mark.parametrize(
    ("version", "added", "for_admin"),
    [
        ("3.0", set(), set()),
        ("3.18", set(), {"os-backup-project-attr:project_id"}),
        ("3.43", {"metadata"}, {"os-backup-project-attr:project_id"}),
        ("3.56", {"metadata"}, {"os-backup-project-attr:project_id", "user_id"}),
    ],
)
def test_fields_come_with_their_microversion(
    make: Any, back_up: Any, demo: Any, admin: Any, version: str, added: set[str], for_admin: set[str]
) -> None:
    base = {
        "id", "name", "links", "description", "status", "size", "object_count", "availability_zone", "container",
        "created_at", "updated_at", "data_timestamp", "fail_reason", "volume_id", "snapshot_id", "is_incremental",
        "has_dependent_backups",
    }  # fmt: skip
    id = back_up(make()["id"])["id"]
    assert shown(demo, id, version).keys() == base | added
    assert shown(admin, id, version).keys() == base | added | for_admin
    (listed,) = demo.get(f"{V3}/backups", headers=at(version)).json()["backups"]
    assert listed.keys() == {"id", "name", "links"}
    (detailed,) = demo.get(f"{V3}/backups/detail", headers=at(version)).json()["backups"]
    assert detailed.keys() == base | added


def test_incremental_backups_keep_only_what_has_changed(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    refused = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "incremental": True}})
    assert (refused.status, "No backups available" in refused.json()["conflictingRequest"]["message"]) == (409, True)
    assert volume(demo, id)["status"] == "available"
    versions = [content("a", "b", "c"), content("a", "x", "c"), content("a", "x", "c", "d")]
    made = []
    for number, text in enumerate(versions):
        fill(backend, id, text)
        made.append(back_up(id, incremental=number > 0))
    assert [each["object_count"] for each in made] == [3, 1, 1]
    assert [each["is_incremental"] for each in made] == [False, True, True]
    assert [shown(demo, each["id"])["has_dependent_backups"] for each in made] == [True, True, False]
    assert len(kept(cloud)) == 5
    for each, text in zip(made, versions, strict=True):
        assert restore(demo, each["id"], volume_id=id).status == 202
        cloud.settle()
        assert held(backend, id) == text


def test_a_backup_that_others_build_on_stays(make: Any, back_up: Any, demo: Any, admin: Any, cloud: Any) -> None:
    id = make()["id"]
    full, next_ = back_up(id), back_up(id, incremental=True)
    refused = demo.delete(f"{V3}/backups/{full['id']}")
    assert (refused.status, refused.json()["conflictingRequest"]["message"]) == (
        409,
        "Invalid backup: Incremental backups exist for this backup.",
    )
    assert admin.post(f"{V3}/backups/{full['id']}/action", {"os-force_delete": None}).status == 409
    assert demo.delete(f"{V3}/backups/{next_['id']}").status == 202
    cloud.settle()
    assert demo.delete(f"{V3}/backups/{full['id']}").status == 202


def test_an_incremental_backup_builds_on_the_newest_that_is_available(
    make: Any, back_up: Any, demo: Any, cloud: Any
) -> None:
    id = make()["id"]
    older, newer = back_up(id), back_up(id)
    set_status(cloud, Backup.table, newer["id"], "error")
    back_up(id, incremental=True)
    assert [shown(demo, each["id"])["has_dependent_backups"] for each in (older, newer)] == [True, False]


def test_who_backs_up_the_volume_of_another_project_does_it_for_their_own(
    make: Any, back_up: Any, demo: Any, admin: Any, cloud: Any
) -> None:
    id = make()["id"]
    theirs = back_up(id)["id"]
    wish = {"backup": {"volume_id": id, "incremental": True}}
    assert admin.post(f"{V3}/backups", wish).status == 409  # there is none of this project to build on
    made = admin.post(f"{V3}/backups", {"backup": {"volume_id": id}}).json()["backup"]["id"]
    cloud.settle()
    assert demo.get(f"{V3}/backups/{made}").status == 404
    assert (
        shown(admin, made)["os-backup-project-attr:project_id"]
        != shown(admin, theirs)["os-backup-project-attr:project_id"]
    )
    assert admin.post(f"{V3}/backups", wish).status == 202
    cloud.settle()
    assert [shown(admin, each)["has_dependent_backups"] for each in (made, theirs)] == [True, False]
    used = admin.get(f"{V3}/limits").json()["limits"]["absolute"]
    assert (used["totalBackupsUsed"], used["totalBackupGigabytesUsed"]) == (2, 2)


def test_a_snapshot_is_backed_up_whatever_its_volume_does(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    fill(backend, id, content("a"))
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]
    cloud.settle()
    fill(backend, id, content("b"))
    attach(cloud, demo, id)
    later = back_up(id, force=True)
    body = {"volume_id": id, "snapshot_id": snapshot["id"], "incremental": True}
    # The only backup is younger than the snapshot.
    assert demo.post(f"{V3}/backups", {"backup": body}).status == 409
    made = back_up(id, snapshot_id=snapshot["id"])
    assert (made["snapshot_id"], made["data_timestamp"]) == (snapshot["id"], snapshot["created_at"])
    assert demo.get(f"{V3}/snapshots/{snapshot['id']}").json()["snapshot"]["status"] == "available"
    ids = [restore(demo, each["id"]).json()["restore"]["volume_id"] for each in (made, later)]
    cloud.settle()
    assert [held(backend, each) for each in ids] == [content("a"), content("b")]
    other = make()["id"]
    assert demo.post(f"{V3}/backups", {"backup": {**body, "volume_id": other, "incremental": False}}).status == 400


def test_a_volume_in_use_needs_force_and_is_frozen_first(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    fill(backend, id, content("a"))
    attach(cloud, demo, id)
    refused = demo.post(f"{V3}/backups", {"backup": {"volume_id": id}})
    assert refused.json()["conflictingRequest"]["message"].endswith("must use the force flag.")
    made = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "force": True}}).json()["backup"]
    assert volume(demo, id)["status"] == "backing-up"
    cloud.settle()
    assert (shown(demo, made["id"])["status"], volume(demo, id)["status"]) == ("available", "in-use")
    assert backend.behaviour.calls["ensure_snapshot"] == 1 and backend.frozen.values() == []


def test_what_one_machine_has_exported_or_assembled_another_one_does_again(
    make: Any, demo: Any, cloud: Any, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are its own: here they go when the step that made them is over."""
    id = make()["id"]
    fill(backend, id, content("a"))
    attach(cloud, demo, id)
    exported, assembled = type(backend).ensure_exported, Archives.assemble
    done: list[str] = []

    async def export(self: Any, id: str, path: str, snapshot_id: str | None = None) -> str:
        found: str = await exported(self, id, path, snapshot_id)
        done.append(path)
        if len(done) == 1:
            Path(path).unlink()
        return found

    async def assemble(self: Any, ctx: Any, backup: Any, target: Path) -> None:
        await assembled(self, ctx, backup, target)
        done.append(str(target))
        if len(done) == 3:
            target.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(type(backend), "ensure_exported", export)
        patch.setattr(Archives, "assemble", assemble)
        made = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "force": True}}).json()["backup"]
        cloud.settle()
        assert shown(demo, made["id"])["status"] == "available" and backend.frozen.values() == []
        restored = demo.post(f"{V3}/backups/{made['id']}/restore", {"restore": {}}).json()["restore"]["volume_id"]
        cloud.settle()
    assert len(done) == 4
    assert volume(demo, restored)["status"] == "available"
    assert held(backend, restored) == held(backend, id)


@pytest.mark.parametrize("status", ["error", "creating", "maintenance", "extending", "backing-up"])
def test_a_volume_that_is_not_ready_is_not_backed_up(make: Any, demo: Any, cloud: Any, status: str) -> None:
    id = make()["id"]
    set_status(cloud, Volume.table, id, status)
    answer = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "force": True}})
    assert (answer.status, f'"{status}"' in answer.json()["conflictingRequest"]["message"]) == (409, True)


def test_a_backup_outlives_its_volume(make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make(size=2, name="original", metadata={"app": "db"})["id"]
    assert act(demo, id, "os-set_bootable", {"bootable": True}).status == 200
    fill(backend, id, content("a"))
    backup = back_up(id)
    assert demo.delete(f"{V3}/volumes/{id}").status == 202
    cloud.settle()
    answer = restore(demo, backup["id"])
    told = answer.json()["restore"]
    assert (answer.status, told["backup_id"], told["volume_name"]) == (
        202,
        backup["id"],
        f"restore_backup_{backup['id']}",
    )
    found = volume(demo, told["volume_id"])
    assert (found["status"], found["size"]) == ("restoring-backup", 2)
    assert shown(demo, backup["id"])["status"] == "restoring"
    assert restore(demo, backup["id"]).status == 409
    assert demo.delete(f"{V3}/backups/{backup['id']}").status == 409
    cloud.settle()
    found = volume(demo, told["volume_id"])
    assert (found["status"], found["bootable"]) == ("available", "true")
    # What was chosen for it is the original's.
    assert (found["name"], found["metadata"]) == ("original", {"app": "db", "src_backup_id": backup["id"]})
    named = restore(demo, backup["id"], name="mine").json()["restore"]["volume_id"]
    cloud.settle()
    assert volume(demo, named)["name"] == "mine"
    assert shown(demo, backup["id"])["status"] == "available"
    assert held(backend, told["volume_id"]) == content("a")


def test_a_backup_is_restored_over_a_volume_that_is_large_enough(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id, small, large = make(size=2)["id"], make(size=1)["id"], make(size=3)["id"]
    fill(backend, id, content("a"))
    backup = back_up(id)
    fill(backend, large, content("b"))
    refused = restore(demo, backup["id"], volume_id=small)
    assert (refused.status, "too small" in refused.json()["conflictingRequest"]["message"]) == (409, True)
    assert shown(demo, backup["id"])["status"] == "available"
    assert restore(demo, backup["id"], volume_id=large, name="ignored").json()["restore"]["volume_id"] == large
    assert volume(demo, large)["status"] == "restoring-backup"
    cloud.settle()
    assert (volume(demo, large)["status"], volume(demo, large)["size"]) == ("available", 3)
    assert held(backend, large) == content("a")
    # Over its own origin: that is no news.
    assert restore(demo, backup["id"], volume_id=id).status == 202
    cloud.settle()
    assert volume(demo, id)["metadata"] == {}
    attach(cloud, demo, id)
    assert restore(demo, backup["id"], volume_id=id).status == 409


def test_a_volume_is_made_of_a_backup_from_3_47_on(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make(size=2)["id"]
    fill(backend, id, content("a"))
    backup = back_up(id)

    def create(version: str = "3.47", **fields: Any) -> Any:
        wish = {"backup_id": backup["id"], **fields}
        return demo.post(f"{V3}/volumes", {"volume": wish}, headers=at(version))

    assert create("3.46").status == 400  # a size is missing, for what it is made of is not looked at
    assert create(size=1).status == 400
    assert create(source_volid=id).status == 400
    made = create(size=3).json()["volume"]
    assert (made["status"], made["size"]) == ("creating", 3)
    assert create().status == 409
    cloud.settle()
    assert volume(demo, made["id"])["status"] == "available"
    assert held(backend, made["id"]) == content("a")


# -- what goes wrong


def test_a_backup_that_fails_says_why(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("ensure_exported", error=DriverError("the disk is broken"))
    made = demo.post(f"{V3}/backups", {"backup": {"volume_id": id}}).json()["backup"]
    cloud.settle()
    found = shown(demo, made["id"])
    assert (found["status"], found["fail_reason"]) == ("error", "the disk is broken")
    assert volume(demo, id)["status"] == "available"
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert (message["resource_type"], message["event_id"]) == ("VOLUME_BACKUP", "VOLUME_VOLUME_BACKUP_013_020")
    assert demo.delete(f"{V3}/backups/{made['id']}").status == 202


def test_a_backend_that_is_away_for_a_while_fails_nothing(make: Any, back_up: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("ensure_exported", times=3, error=Unreachable("away"))
    assert back_up(id)["status"] == "available"


def test_a_damaged_backup_spoils_no_new_volume(make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    fill(backend, id, content("a"))
    backup = back_up(id)
    (piece,) = kept(cloud).values()
    piece.write_bytes(b"something else")
    new = restore(demo, backup["id"]).json()["restore"]["volume_id"]
    cloud.settle()
    assert (volume(demo, new)["status"], shown(demo, backup["id"])["status"]) == ("error", "available")
    assert restore(demo, backup["id"], volume_id=id).status == 202
    cloud.settle()
    assert volume(demo, id)["status"] == "error_restoring"
    assert demo.delete(f"{V3}/volumes/{id}").status == 202
    (first, second) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert {first["event_id"], second["event_id"]} == {"VOLUME_VOLUME_BACKUP_015_026"}


def test_while_the_service_is_disabled_nothing_is_backed_up(make: Any, demo: Any, admin: Any) -> None:
    id = make()["id"]
    switch = {"host": "cloudctl", "binary": "cinder-backup"}
    assert admin.put(f"{V3}/os-services/disable", switch).status == 200
    answer = demo.post(f"{V3}/backups", {"backup": {"volume_id": id}})
    assert (answer.status, answer.json()["serviceUnavailable"]["message"]) == (
        503,
        "Service cinder-backup could not be found.",
    )
    assert admin.put(f"{V3}/os-services/enable", switch).status == 200
    assert demo.post(f"{V3}/backups", {"backup": {"volume_id": id}}).status == 202


# -- the record


def test_a_record_changes_from_3_9_on(make: Any, back_up: Any, demo: Any) -> None:
    id = back_up(make()["id"], name="n", metadata={"a": "b"})["id"]
    url = f"{V3}/backups/{id}"
    assert demo.put(url, {"backup": {"name": "m"}}, headers=at("3.8")).status == 404
    answer = demo.put(url, {"backup": {"name": "m", "description": "d"}}, headers=at("3.9"))
    assert (answer.status, answer.json()["backup"].keys()) == (200, {"id", "name", "links"})
    assert demo.put(url, {"backup": {}}, headers=LATEST).status == 400
    assert demo.put(url, {"backup": {"metadata": {"c": "d"}}}, headers=at("3.42")).status == 400
    assert shown(demo, id)["metadata"] == {"a": "b"}
    assert demo.put(url, {"backup": {"metadata": {"c": "d"}}}, headers=at("3.43")).status == 200
    found = shown(demo, id)
    assert (found["name"], found["description"], found["metadata"]) == ("m", "d", {"c": "d"})


def test_lists_are_filtered_sorted_and_paged(make: Any, back_up: Any, demo: Any) -> None:
    one, other = make()["id"], make()["id"]
    ids = [back_up(one, name="a")["id"], back_up(one, name="b")["id"], back_up(other, name="c")["id"]]

    def listed(query: str, version: str = "3.71") -> list[str]:
        answer = demo.get(f"{V3}/backups?{query}", headers=at(version))
        assert answer.status == 200, answer
        return [each["id"] for each in answer.json()["backups"]]

    assert listed("") == ids[::-1]
    assert listed(f"volume_id={one}") == [ids[1], ids[0]]
    assert listed("sort=name:asc") == ids
    assert listed("name~=b") == [ids[1]]
    assert listed("status=error") == []
    assert demo.get(f"{V3}/backups?colour=red", headers=at("3.31")).status == 400
    page = demo.get(f"{V3}/backups/detail?limit=2&with_count=true", headers=LATEST).json()
    assert ([each["id"] for each in page["backups"]], page["count"]) == (ids[:0:-1], 3)
    assert "/v3/backups/detail?" in page["backups_links"][0]["href"]
    assert listed(f"marker={ids[1]}") == [ids[0]]
    assert demo.get(f"{V3}/backups?marker={UNKNOWN}").status == 404


def test_another_project_sees_nothing(make: Any, back_up: Any, stranger: Any, admin: Any) -> None:
    id = make()["id"]
    backup = back_up(id)
    url = f"{V3}/backups/{backup['id']}"
    assert stranger.get(f"{V3}/backups/detail?all_tenants=1").json()["backups"] == []
    assert stranger.get(f"{V3}/backups?marker={backup['id']}").status == 404
    for answer in (
        stranger.get(url),
        stranger.delete(url),
        stranger.put(url, {"backup": {"name": "x"}}, headers=LATEST),
        restore(stranger, backup["id"]),
        stranger.post(f"{V3}/backups", {"backup": {"volume_id": id}}),
        stranger.post(f"{V3}/volumes", {"volume": {"backup_id": backup["id"]}}, headers=LATEST),
    ):
        assert answer.status == 404, answer
    own = stranger.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    assert restore(stranger, backup["id"], volume_id=own).status == 404
    assert [each["id"] for each in admin.get(f"{V3}/backups?all_tenants=1").json()["backups"]] == [backup["id"]]


def test_an_administrator_sets_statuses_and_deletes_by_force(
    make: Any, back_up: Any, demo: Any, admin: Any, cloud: Any
) -> None:
    id = back_up(make()["id"])["id"]
    url = f"{V3}/backups/{id}/action"
    assert demo.post(url, {"os-reset_status": {"status": "error"}}).status == 403
    assert admin.post(url, {"os-reset_status": {"status": "creating"}}).status == 400
    assert admin.post(url, {"os-reset_status": {"status": "error"}}).status == 202
    assert restore(demo, id).status == 409
    set_status(cloud, Backup.table, id, "error_deleting")
    assert demo.delete(f"{V3}/backups/{id}").status == 409
    assert demo.post(url, {"os-force_delete": None}).status == 403
    assert admin.post(url, {"os-force_delete": None}).status == 202
    cloud.settle()
    assert demo.get(f"{V3}/backups/{id}").status == 404 and kept(cloud) == {}


def test_backups_count(make: Any, back_up: Any, demo: Any, admin: Any, cloud: Any) -> None:
    project = demo.get("/identity/v3/auth/projects").json()["projects"][0]["id"]
    id = make(size=2)["id"]
    backup = back_up(id)
    absolute = demo.get(f"{V3}/limits").json()["limits"]["absolute"]
    assert (absolute["totalBackupsUsed"], absolute["totalBackupGigabytesUsed"]) == (1, 2)
    assert absolute["totalGigabytesUsed"] == 2

    def refused(**limits: int) -> str:
        assert admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": limits}).status == 200
        answer = demo.post(f"{V3}/backups", {"backup": {"volume_id": id}})
        assert (answer.status, answer.headers["retry-after"]) == (413, "0")
        assert admin.delete(f"{V3}/os-quota-sets/{project}").status == 200
        assert volume(demo, id)["status"] == "available"
        return str(answer.json()["overLimit"]["message"])

    assert "BackupLimitExceeded: Maximum number of backups allowed (1) exceeded" in refused(backups=1)
    assert "exceeds allowed Backup gigabytes quota" in refused(backup_gigabytes=3)
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    assert act(demo, id, "os-extend", {"new_size": 5}).status == 202
    cloud.settle()
    # What counts is the size of the snapshot, which is that of the backup.
    assert admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {"backup_gigabytes": 4}}).status == 200
    small = back_up(id, snapshot_id=snapshot)
    assert small["size"] == 2 and demo.delete(f"{V3}/backups/{small['id']}").status == 202
    cloud.settle()
    assert demo.delete(f"{V3}/backups/{backup['id']}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalBackupGigabytesUsed"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {}, {"volume_id": "x"}, {"volume_id": UNKNOWN, "name": "x" * 256}, {"volume_id": UNKNOWN, "force": "perhaps"},
        {"volume_id": UNKNOWN, "incremental": None}, {"volume_id": UNKNOWN, "container": "x" * 256},
        {"volume_id": UNKNOWN, "snapshot_id": "x"}, {"volume_id": UNKNOWN, "metadata": {"k": 1}},
        {"volume_id": UNKNOWN, "colour": "red"},
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused(demo: Any, body: dict[str, Any]) -> None:
    assert demo.post(f"{V3}/backups", {"backup": body}, headers=LATEST).status == 400


def test_fields_of_later_versions_are_unknown_before(make: Any, demo: Any) -> None:
    body = {"volume_id": make()["id"]}
    for field, version, before in (("metadata", "3.43", "3.42"), ("availability_zone", "3.51", "3.50")):
        wish = {"backup": {**body, field: {} if field == "metadata" else "mars"}}
        assert demo.post(f"{V3}/backups", wish, headers=at(before)).status == 400
        assert demo.post(f"{V3}/backups", wish, headers=at(version)).status == (202 if field == "metadata" else 400)


def test_what_there_is_not_is_not_found(demo: Any) -> None:
    assert demo.post(f"{V3}/backups", {"backup": {"volume_id": UNKNOWN}}).status == 404
    assert restore(demo, UNKNOWN).status == 404
    assert demo.get(f"{V3}/backups/{UNKNOWN}").json()["itemNotFound"]["message"] == (
        f"Backup {UNKNOWN} could not be found."
    )
