"""Backups in the object store: their user sees them in his account, and what he does to them has its price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume import backups, moving_backups
from tests.volume.asking import LATEST, V3, volume
from tests.volume.backing_up import PIECE, changed, content, fill, held, in_small_pieces, kept, restore, shown

# Four objects of two pieces each.
WHOLE = content("a", "b", "c", "d", "e", "f", "g", "h")


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    """Two pieces in an object."""
    made = MemoryCloud({"volume": {"backup_piece": PIECE, "backup_object": 2 * PIECE}})
    yield made
    made.close()


@pytest.fixture
def account(demo: Any) -> str:
    project = demo.get("/identity/v3/auth/projects").json()["projects"][0]["id"]
    return f"/object-store/v1/AUTH_{project}"


def names(demo: Any, container: str) -> list[str]:
    return [each["name"] for each in demo.get(f"{container}?format=json").json()]


def told(demo: Any) -> str:
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    return str(message["user_message"])


def test_they_are_in_the_container_that_was_named(
    make: Any, back_up: Any, demo: Any, stranger: Any, backend: Any, account: str
) -> None:
    id = make()["id"]
    fill(backend, id, WHOLE)
    full = back_up(id, container="mine")
    fill(backend, id, WHOLE.replace("c", "x"))
    more = back_up(id, container="others", incremental=True)
    assert (full["object_count"], more["object_count"]) == (4, 1)
    found = names(demo, f"{account}/mine")
    assert all(name.startswith(f"volume_{id}/") and f"az_nova_backup_{full['id']}" in name for name in found)
    assert [name.rpartition(full["id"])[2] for name in found] == ["-00001", "-00002", "-00003", "-00004", "_metadata"]
    assert demo.get(f"{account}/mine/{found[1]}").body == content("c", "d").encode()
    assert [name.rpartition(more["id"])[2] for name in names(demo, f"{account}/others")] == ["-00001", "_metadata"]
    assert stranger.get(f"{account}/mine").status in (403, 404)


def test_each_of_a_chain_is_restored(make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    versions = [WHOLE, WHOLE.replace("c", "x"), content("x", "a", "h", "y"), content("a") + "\0" * PIECE + "rest"]
    made = []
    for number, text in enumerate(versions):
        fill(backend, id, text)
        made.append(back_up(id, incremental=number > 0)["id"])
    for backup_id, text in zip(made, versions, strict=True):
        assert restore(demo, backup_id, volume_id=id).status == 202
        cloud.settle()
        assert (volume(demo, id)["status"], held(backend, id)) == ("available", text)


def test_what_their_user_deletes_is_told_by_the_restore(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any, account: str
) -> None:
    id = make()["id"]
    fill(backend, id, WHOLE)
    backup = back_up(id, container="mine")
    gone = names(demo, f"{account}/mine")[2]
    assert demo.delete(f"{account}/mine/{gone}").status == 204
    new = restore(demo, backup["id"]).json()["restore"]["volume_id"]
    cloud.settle()
    assert (volume(demo, new)["status"], shown(demo, backup["id"])["status"]) == ("error", "available")
    assert f"There is no object {gone} in container mine any more." in told(demo)
    # Nor can anything build on one whose table of contents is gone.
    for name in names(demo, f"{account}/mine"):
        demo.delete(f"{account}/mine/{name}")
    assert demo.delete(f"{account}/mine").status == 204
    more = back_up(id, incremental=True)
    assert more["status"] == "error" and "in container mine any more" in more["fail_reason"]
    for each in (more, backup):
        assert demo.delete(f"{V3}/backups/{each['id']}").status == 202
        cloud.settle()
    assert demo.get(f"{V3}/backups").json()["backups"] == [] and kept(cloud) == {}


def test_what_their_user_writes_over_is_not_taken_for_the_volume(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any, account: str
) -> None:
    id = make()["id"]
    fill(backend, id, WHOLE)
    backup = back_up(id, container="mine")
    first = names(demo, f"{account}/mine")[0]
    assert demo.put(f"{account}/mine/{first}", {"something": "else"}).status == 201
    assert restore(demo, backup["id"], volume_id=id).status == 202
    cloud.settle()
    assert volume(demo, id)["status"] == "error_restoring"
    assert "has changed since the backup was made" in told(demo)


def test_a_table_of_contents_that_its_user_wrote_leads_nowhere(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any, account: str
) -> None:
    """It would be read whole, and could name the objects of others."""
    id = make()["id"]
    fill(backend, id, WHOLE)
    backup = back_up(id, container="mine")
    contents = names(demo, f"{account}/mine")[-1]
    forged = {**demo.get(f"{account}/mine/{contents}").json(), "parent": f"other/theirs/{contents}"}
    assert demo.put(f"{account}/mine/{contents}", forged).status == 201
    assert back_up(id, incremental=True)["status"] == "error"
    assert restore(demo, backup["id"], volume_id=id).status == 202
    cloud.settle()
    assert volume(demo, id)["status"] == "error_restoring"
    latest = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"][0]["user_message"]
    assert "has changed since the backup was made" in latest


def test_a_container_without_room_takes_no_backup(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any, account: str
) -> None:
    assert demo.put(f"{account}/small", headers={"X-Container-Meta-Quota-Bytes": "2500"}).status == 201
    id = make()["id"]
    fill(backend, id, WHOLE)
    backup = back_up(id, container="small")
    assert (backup["status"], backup["fail_reason"]) == ("error", "Upload exceeds quota.")
    assert (volume(demo, id)["status"], kept(cloud)) == ("available", {})


@pytest.mark.parametrize("container", ["a/b", "x" * 255 + "/", "é" * 200])
def test_what_is_no_name_of_a_container_is_refused(make: Any, demo: Any, container: str) -> None:
    id = make()["id"]
    answer = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "container": container}})
    assert answer.status == 400 and volume(demo, id)["status"] == "available"


def test_a_record_names_nothing_but_a_backup(make: Any, back_up: Any, admin: Any) -> None:
    id = back_up(make()["id"])["id"]
    record = admin.get(f"{V3}/backups/{id}/export_record").json()["backup-record"]
    for wrong in ("project/container/", "project/container/other", f"a/b/volume_{id}/20260101000000/az_x_backup_y"):
        assert admin.post(f"{V3}/backups/import_record", changed(record, kept_at=wrong)).status == 400


@pytest.fixture
def older() -> Iterator[MemoryCloud]:
    """A cloud that keeps backups in a directory."""
    made = MemoryCloud(in_small_pieces("directory"))
    yield made
    made.close()


def old_backups(older: MemoryCloud, user: str = "demo") -> tuple[str, Callable[..., str]]:
    """A volume, and how to back it up with a content."""
    demo, backend = older.client(user), older.cloud.drivers.volume
    id = str(demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"])
    older.settle()

    def make(text: str, *, incremental: bool) -> str:
        fill(backend, id, text)
        wish = {"volume_id": id, "incremental": incremental, "container": "moved"}
        backup_id = str(demo.post(f"{V3}/backups", {"backup": wish}).json()["backup"]["id"])
        older.settle()
        return backup_id

    return id, make


def test_an_imported_one_is_moved_without_the_record_of_what_it_builds_on(older: MemoryCloud) -> None:
    demo, admin, backend = older.client("demo"), older.client("admin"), older.cloud.drivers.volume
    id, make = old_backups(older)
    texts = [content("a", "b", "c"), content("a", "x", "c")]
    made = [make(text, incremental=number > 0) for number, text in enumerate(texts)]
    record = admin.get(f"{V3}/backups/{made[1]}/export_record").json()["backup-record"]
    for each in made:
        older.transact(backups.forget, each)
    assert demo.get(f"{V3}/backups").json()["backups"] == []
    assert admin.post(f"{V3}/backups/import_record", {"backup-record": record}).status == 201
    older.settle()
    now = utc(older.clock.seconds())
    assert older.transact(lambda conn: moving_backups.move_all(conn, now)) == 1
    older.settle()
    # Those of the other one stay: they may be another cloud's.
    assert sorted(f"_backup_{made[1]}" in name for name in kept(older)) == [False] * 3 + [True] * 3
    assert restore(admin, made[1], volume_id=id).status == 202
    older.settle()
    assert (volume(demo, id)["status"], held(backend, id)) == ("available", texts[1])


def test_one_is_moved_though_what_it_builds_on_stays(older: MemoryCloud) -> None:
    admin, backend = older.client("admin"), older.cloud.drivers.volume
    id, make = old_backups(older, "admin")
    texts = [content("a", "b", "c"), content("a", "x", "c")]
    first = make(texts[0], incremental=False)
    record = admin.get(f"{V3}/backups/{first}/export_record").json()["backup-record"]
    twin = changed(record, id="6f1d2c3b-0000-4000-8000-00000000000a")
    assert admin.post(f"{V3}/backups/import_record", twin).status == 201
    older.settle()
    second = make(texts[1], incremental=True)
    now = utc(older.clock.seconds())
    assert older.transact(lambda conn: moving_backups.move_all(conn, now)) == 1
    older.settle()
    assert sum(f"_backup_{second}" in name for name in kept(older)) == 3
    assert restore(admin, second, volume_id=id).status == 202
    older.settle()
    assert (volume(admin, id)["status"], held(backend, id)) == ("available", texts[1])


def test_those_in_a_directory_can_be_moved(older: MemoryCloud) -> None:
    demo, backend = older.client("demo"), older.cloud.drivers.volume
    id, make = old_backups(older)
    texts = [content("a", "b", "c"), content("a", "x", "c"), content("a", "x", "c", "d")]
    made = [make(text, incremental=number > 0) for number, text in enumerate(texts[:2])]
    names = set(kept(older))
    assert not any("/" in name for name in names)
    now = utc(older.clock.seconds())
    assert older.transact(lambda conn: moving_backups.move_all(conn, now)) == 2
    assert older.transact(lambda conn: moving_backups.move_all(conn, now)) == 0
    older.settle()
    assert {name.rpartition("_backup_")[2] for name in kept(older)} == {
        f"{made[0]}-00001", f"{made[0]}-00002", f"{made[0]}-00003", f"{made[1]}-00001",
    }  # fmt: skip
    # What builds on one that was moved is where that is, whatever the configuration says of new ones.
    made.append(make(texts[2], incremental=True))
    assert all("/" in name for name in kept(older))
    for backup_id, text in zip(made, texts, strict=True):
        assert restore(demo, backup_id, volume_id=id).status == 202
        older.settle()
        assert (volume(demo, id)["status"], held(backend, id)) == ("available", text)
    for backup_id in reversed(made):
        assert demo.delete(f"{V3}/backups/{backup_id}").status == 202
        older.settle()
    assert kept(older) == {}
