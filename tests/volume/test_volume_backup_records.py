"""Records of backups, by which another cloud finds them. Reference: volume.md, section 6."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.volume.asking import V3, volume
from tests.volume.backing_up import UNKNOWN, changed, content, fill, held, in_small_pieces, restore, shown


@pytest.fixture(params=["objects", "directory"])
def cloud(request: pytest.FixtureRequest) -> Iterator[MemoryCloud]:
    made = MemoryCloud(in_small_pieces(request.param))
    yield made
    made.close()


def test_a_backup_comes_back_by_its_record(
    make: Any, back_up: Any, demo: Any, admin: Any, cloud: Any, backend: Any
) -> None:
    id = make(name="original")["id"]
    fill(backend, id, content("a"))
    backup = back_up(id)
    url = f"{V3}/backups/{backup['id']}/export_record"
    assert demo.get(url).status == 403
    record = admin.get(url).json()["backup-record"]
    assert admin.post(f"{V3}/backups/import_record", {"backup-record": record}).status == 409
    answer = admin.post(f"{V3}/backups/import_record", changed(record, id=UNKNOWN))
    assert (answer.status, answer.json()["backup"]["id"]) == (201, UNKNOWN)
    cloud.settle()
    assert shown(admin, UNKNOWN)["status"] == "available"
    # Its pieces stay while one of the two needs them.
    assert demo.delete(f"{V3}/backups/{backup['id']}").status == 202
    cloud.settle()
    restored = restore(admin, UNKNOWN).json()["restore"]["volume_id"]
    cloud.settle()
    assert volume(admin, restored)["status"] == "available" and held(backend, restored) == content("a")
    assert admin.delete(f"{V3}/backups/{UNKNOWN}").status == 202
    cloud.settle()
    # Nothing is left to be brought back. Records of earlier releases are read, too.
    assert record["backup_service"].startswith("cinder.backup.drivers.")
    former = {"backup-record": {**record, "backup_service": "cloudctl.archive"}}
    assert admin.post(f"{V3}/backups/import_record", former).status == 201
    cloud.settle()
    assert shown(admin, backup["id"])["status"] == "error"


def test_wrong_records_are_refused(make: Any, back_up: Any, admin: Any) -> None:
    record = admin.get(f"{V3}/backups/{back_up(make()['id'])['id']}/export_record").json()["backup-record"]
    wrong = [
        {"backup-record": {**record, "backup_url": "no base64"}},
        {"backup-record": {**record, "backup_url": base64.b64encode(b"[]").decode()}},
        {"backup-record": {**record, "backup_service": "cinder.backup.drivers.swift"}},
        changed(record, kept_as="../../etc"), changed(record, size=0), changed(record, data_timestamp="then"),
        changed(record, id=None), changed(record, colour="red"), changed(record, name="a\0b"),
    ]  # fmt: skip
    assert {admin.post(f"{V3}/backups/import_record", each).status for each in wrong} == {400}


def test_no_record_makes_a_backup_build_on_itself(make: Any, back_up: Any, admin: Any, cloud: Any) -> None:
    """Neither it nor the one between them could be deleted: others build on it."""
    record = admin.get(f"{V3}/backups/{back_up(make()['id'])['id']}/export_record").json()["backup-record"]
    other = UNKNOWN[:-1] + "1"

    def brought(id: str, parent: str) -> int:
        answer = admin.post(f"{V3}/backups/import_record", changed(record, id=id, parent_id=parent))
        cloud.settle()
        return int(answer.status)

    assert [brought(UNKNOWN, UNKNOWN), brought(UNKNOWN, other), brought(other, UNKNOWN)] == [400, 201, 400]
    assert admin.delete(f"{V3}/backups/{UNKNOWN}").status == 202
    cloud.settle()
    assert brought(other, UNKNOWN) == 201
