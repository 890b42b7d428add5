"""Backups of volumes whose backend tells what has changed since the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume.archives import Archives
from tests.volume.asking import V3, act, volume
from tests.volume.backing_up import PIECE, UNKNOWN, content, fill, held, in_small_pieces, restore, shown

TELLS = {"driver": {"volume": {"fake": {"tells_changes": True}}}}


@pytest.fixture(params=["objects", "directory"])
def cloud(request: pytest.FixtureRequest) -> Iterator[MemoryCloud]:
    made = MemoryCloud({**in_small_pieces(request.param), **TELLS})
    yield made
    made.close()


def restored(cloud: Any, demo: Any, backend: Any, backup_id: str) -> str:
    id = restore(demo, backup_id).json()["restore"]["volume_id"]
    cloud.settle()
    assert volume(demo, id)["status"] == "available"
    return held(backend, id)


def marks(backend: Any, volume_id: str) -> list[str]:
    return list(backend.volumes.get(volume_id).marks)


def test_each_reads_what_has_changed_since_the_one_before(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    whole = content("a", "b", "c", "d")
    # A part of a piece, a piece that has become empty, and a volume that has become longer.
    held = [whole, "x" + whole[1:]]
    held.append(held[1].replace("b", "\0"))
    held.append(held[2] + content("e")[:100])
    made = []
    for number, text in enumerate(held):
        fill(backend, id, text)
        made.append(back_up(id, incremental=number > 0))
        assert marks(backend, id) == [made[-1]["id"]]
    assert [each["object_count"] for each in made] == [4, 1, 0, 1]
    calls = backend.behaviour.calls
    assert (calls["ensure_changes_exported"], calls["ensure_exported"], calls["ensure_snapshot"]) == (4, 0, 0)
    assert [restored(cloud, demo, backend, each["id"]) for each in made] == held


def test_the_mark_goes_with_its_backup_and_what_follows_reads_all(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    fill(backend, id, content("a", "b"))
    back_up(id)
    second = back_up(id, incremental=True)
    demo.delete(f"{V3}/backups/{second['id']}")
    cloud.settle()
    assert marks(backend, id) == []
    fill(backend, id, content("a", "c"))
    third = back_up(id, incremental=True)
    assert (third["object_count"], marks(backend, id)) == (1, [third["id"]])
    assert restored(cloud, demo, backend, third["id"]) == content("a", "c")
    demo.delete(f"{V3}/volumes/{id}")
    cloud.settle()
    assert backend.volumes.get(id) is None
    demo.delete(f"{V3}/backups/{third['id']}")
    cloud.settle()
    assert demo.get(f"{V3}/backups/{third['id']}").status == 404


def test_one_of_a_snapshot_has_no_mark_and_takes_none_away(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    fill(backend, id, content("a"))
    first = back_up(id)
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    fill(backend, id, content("b"))
    second = back_up(id, snapshot_id=snapshot, incremental=True)
    assert marks(backend, id) == [first["id"]]
    third = back_up(id, incremental=True)
    assert [restored(cloud, demo, backend, each["id"]) for each in (second, third)] == [content("a"), content("b")]


def test_a_volume_in_use_is_marked_instead_of_frozen(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    fill(backend, id, content("a"))
    act(demo, id, "os-attach", {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"})
    cloud.settle()
    made = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "force": True}}).json()["backup"]
    cloud.settle()
    assert (shown(demo, made["id"])["status"], volume(demo, id)["status"]) == ("available", "in-use")
    assert (backend.behaviour.calls["ensure_snapshot"], marks(backend, id)) == (0, [made["id"]])
    assert restored(cloud, demo, backend, made["id"]) == content("a")


def test_what_one_machine_has_exported_another_one_exports_again(
    make: Any, back_up: Any, demo: Any, cloud: Any, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are its own, and one of them alone says nothing: here one goes when both are there."""
    id = make()["id"]
    fill(backend, id, content("a", "b"))
    back_up(id)
    fill(backend, id, content("a", "c"))
    noted, done = Archives.note, []

    async def note(self: Archives, backup: Any, extents: Sequence[Any]) -> None:
        await noted(self, backup, extents)
        done.append(backup.id)
        if len(done) == 1:
            self._extents(backup).unlink()
            # It is written to meanwhile; what is backed up is what was marked.
            fill(backend, id, content("a", "d"))

    with monkeypatch.context() as patch:
        patch.setattr(Archives, "note", note)
        made = demo.post(f"{V3}/backups", {"backup": {"volume_id": id, "incremental": True}}).json()["backup"]
        cloud.settle()
    assert (len(done), shown(demo, made["id"])["status"]) == (2, "available")
    assert restored(cloud, demo, backend, made["id"]) == content("a", "c")
    last = back_up(id, incremental=True)
    assert restored(cloud, demo, backend, last["id"]) == content("a", "d")
    assert len(content("a")) == PIECE
