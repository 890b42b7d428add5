"""The audit of volume backends: what differs is told, and mended where that is possible."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import update
from twisted.internet.defer import ensureDeferred

from cloudctl.db.columns import utc
from cloudctl.drivers.boundary import call
from cloudctl.drivers.fake.volume import Snapshot, Volume
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import SnapshotState
from cloudctl.volume import audit
from cloudctl.volume.tables import Volume as Row
from tests.volume.asking import V3, act, at, volume

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


@pytest.fixture
def look(cloud: Any) -> Any:
    """What the audit finds now: (kind, id, whether it is mended)."""

    def found() -> list[tuple[str, str, bool]]:
        cloud.advance(1)
        ended: list[Any] = []
        ensureDeferred(cloud.cloud.audit.checks["volume"]()).addBoth(ended.append)
        return sorted((each.kind, each.resource_id, each.submitted) for each in ended[0])

    return found


def attached(cloud: Any, demo: Any, volume_id: str) -> None:
    """To a machine that is none of the cloud's servers."""
    body = {"volume_uuid": volume_id, "instance_uuid": None, "connector": {"host": "outside"}}
    made = demo.post(f"{V3}/attachments", {"attachment": body}, headers=at("3.44")).json()["attachment"]
    path = f"{V3}/attachments/{made['id']}/action"
    assert demo.post(path, {"os-complete": None}, headers=at("3.44")).status == 204
    cloud.settle()


def test_where_all_is_well_nothing_is_found(make: Any, demo: Any, cloud: Any, look: Any) -> None:
    attached(cloud, demo, make()["id"])
    assert demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": make()["id"]}}).status == 202
    cloud.settle()
    assert look() == []


def test_looking_keeps_nobody_from_writing(make: Any, cloud: Any, backend: Any, look: Any, monkeypatch: Any) -> None:
    kept, small = make()["id"], make(size=3)["id"]
    backend.volumes.put(small, evolve(backend.volumes.get(small), size_gib=1))
    backend.volumes.put(kept, evolve(backend.volumes.get(kept), size_gib=9))
    run = cloud.db.run
    written: list[Any] = []

    def noting(fn: Any, *args: Any) -> Any:
        written.append((fn.__module__, args))
        return run(fn, *args)

    monkeypatch.setattr(cloud.db, "run", noting)
    assert look() == sorted([("volume-larger", kept, False), ("volume-smaller", small, True)])
    assert [args for module, args in written if module == audit.__name__] == [([("volume", small)],)]


def test_what_was_well_is_read_again_once_anything_has_changed(
    make: Any, cloud: Any, backend: Any, look: Any, monkeypatch: Any
) -> None:
    id = make(size=3)["id"]
    assert look() == []
    compare, rounds = audit._volumes, list[Any]()

    def noting(conn: Any, before: Any, found: Any) -> Any:
        rounds.append(found)
        return compare(conn, before, found)

    monkeypatch.setattr(audit, "_volumes", noting)
    assert (look(), rounds) == ([], [])
    # In the backend: what is told once is told as long as it is so.
    backend.volumes.put(id, evolve(backend.volumes.get(id), size_gib=9))
    assert [look(), look(), len(rounds)] == [[("volume-larger", id, False)]] * 2 + [2]
    backend.volumes.put(id, evolve(backend.volumes.get(id), size_gib=3))
    assert [look(), look(), len(rounds)] == [[], [], 3]
    # And in the database.
    cloud.transact(lambda conn: conn.execute(update(Row).where(Row.id == id).values(size=2)))
    assert look() == [("volume-larger", id, False)]


def test_a_volume_that_changed_as_the_round_began_is_looked_at_by_the_next_one(
    make: Any, cloud: Any, backend: Any, look: Any
) -> None:
    id = make()["id"]
    backend.volumes.delete(id)
    then = utc(cloud.clock.seconds() + 1.0)
    cloud.transact(lambda conn: conn.execute(update(Row).where(Row.id == id).values(updated_at=then)))
    assert [look(), look()] == [[], [("volume-missing", id, False)]]


def test_a_volume_that_is_too_small_grows(make: Any, demo: Any, cloud: Any, backend: Any, look: Any) -> None:
    id = make(size=3)["id"]
    backend.volumes.put(id, evolve(backend.volumes.get(id), size_gib=1))
    assert look() == [("volume-smaller", id, True)]
    # Its task is under way.
    assert look() == []
    cloud.settle()
    assert backend.volumes.get(id).size_gib == 3 and volume(demo, id)["status"] == "available"
    assert look() == []


def test_a_volume_that_is_too_large_is_told_of(make: Any, cloud: Any, backend: Any, look: Any) -> None:
    id = make(size=1)["id"]
    backend.volumes.put(id, evolve(backend.volumes.get(id), size_gib=2))
    assert look() == [("volume-larger", id, False)]
    assert backend.volumes.get(id).size_gib == 2


def test_a_host_that_lost_a_volume_gets_it_back(make: Any, demo: Any, cloud: Any, backend: Any, look: Any) -> None:
    id = make()["id"]
    attached(cloud, demo, id)
    backend.volumes.put(id, evolve(backend.volumes.get(id), hosts=()))
    assert look() == [("volume-unconnected", id, True)]
    cloud.settle()
    assert backend.volumes.get(id).hosts == ("outside",)


def test_a_host_without_an_attachment_is_told_of(make: Any, backend: Any, look: Any) -> None:
    id = make()["id"]
    backend.volumes.put(id, evolve(backend.volumes.get(id), hosts=("stray",)))
    assert look() == [("volume-connected", id, False)]
    assert backend.volumes.get(id).hosts == ("stray",)


def test_what_is_missing_is_told_of_and_stays_as_it_is(
    make: Any, demo: Any, cloud: Any, backend: Any, look: Any
) -> None:
    id = make()["id"]
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    backend.frozen.delete(snapshot)
    assert look() == [("snapshot-missing", snapshot, False)]
    backend.volumes.delete(id)
    assert look() == [("snapshot-missing", snapshot, False), ("volume-missing", id, False)]
    assert volume(demo, id)["status"] == "available"


def test_what_nobody_knows_is_told_of_and_never_deleted(backend: Any, look: Any) -> None:
    backend.volumes.put("stray", Volume("stray", 1))
    backend.frozen.put("odd", Snapshot(SnapshotState("odd", "stray", 1)))
    assert look() == [("snapshot-unknown", "odd", False), ("volume-unknown", "stray", False)]
    assert backend.volumes.get("stray") is not None and backend.frozen.get("odd") is not None


def test_a_frozen_copy_of_a_volume_is_nothing_unknown(
    make: Any, demo: Any, cloud: Any, backend: Any, look: Any
) -> None:
    """Of a volume that is being backed up while it is in use."""
    id = make()["id"]
    assert act(demo, id, "os-attach", {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}).status == 202
    cloud.settle()
    backend.behaviour.delay("ensure_exported", 10)
    body = {"volume_id": id, "force": True}
    assert demo.post(f"{V3}/backups", {"backup": body}).status == 202
    cloud.advance(0.5)
    assert len(backend.frozen.values()) == 1
    assert look() == []
    cloud.settle()


@pytest.mark.parametrize("status", ["creating", "error", "deleting", "extending", "restoring-backup"])
def test_a_volume_that_changes_is_not_in_question(
    make: Any, admin: Any, backend: Any, look: Any, status: str, cloud: Any
) -> None:
    from tests.volume.test_volume_states import set_status

    id = make()["id"]
    set_status(cloud, id, status)
    backend.volumes.delete(id)
    assert look() == []


def test_what_came_or_went_while_the_backend_was_asked_is_not_in_question(
    make: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    """A volume that was made after the backend had answered, and one that was deleted then."""
    gone = make()["id"]
    cloud.advance(1)

    def take(conn: Any) -> Any:
        return audit._before(conn)

    before = cloud.transact(take)
    seen = tuple(each.state for each in backend.volumes.values())
    assert demo.delete(f"{V3}/volumes/{gone}").status == 202
    make()
    assert cloud.transact(audit._volumes, before, seen)[0] == []
    assert cloud.transact(audit._snapshots, before, ()) == []


def test_a_backend_without_snapshots_is_not_asked_for_them(cloud: Any, backend: Any) -> None:
    from zope.interface import directlyProvides

    class Plain:
        inventory = backend.inventory

    plain: Any = Plain()
    directlyProvides(plain, IVolumeBackend)
    ended: list[Any] = []
    call(audit.check(cloud.db, plain)).addBoth(ended.append)
    assert ended == [[]]
