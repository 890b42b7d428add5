"""Scenarios of the workflows for snapshots, backups and images of volumes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from sqlalchemy import delete, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import InUse
from cloudctl.drivers.fake.volume import Volume
from cloudctl.object_store import containers
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Object
from cloudctl.volume import backups, moving_backups
from cloudctl.volume.archive import Archive
from cloudctl.volume.kinds import (
    DELETE_VOLUME,
    LEND_SNAPSHOT,
    LEND_VOLUME,
    MEND_VOLUME,
    REIMAGE_VOLUME,
    RESTORE_VOLUME,
    REVERT_VOLUME,
    UPLOAD_VOLUME,
)
from cloudctl.volume.tables import Backup
from tests.crash import asks
from tests.crash.asks import V3, good, make
from tests.crash.scenario import Scenario, broken
from tests.crash.stage import Stage

IMPORTED = "6f1d2c3b-0000-4000-8000-00000000000a"
CONTENT = b"what a volume holds"
Told = tuple[str, str]
Check = Callable[[Stage, Told], None]


def full_volume(stage: Stage) -> str:
    """A volume made from an image, so that it has content."""
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", CONTENT)
    stage.settle()
    return asks.volume(stage, imageRef=image_id)


def used_volume(stage: Stage) -> str:
    """A volume with content, attached to a server."""
    volume_id = full_volume(stage)
    asks.attach_volume(stage, asks.running(stage), volume_id)
    stage.settle()
    return volume_id


def status(stage: Stage, kind: str, id: str) -> str:
    answer = stage.demo.get(f"{V3}/{kind}s/{id}", headers=asks.NEWEST)
    return "gone" if answer.status == 404 else str(good(answer)[kind]["status"])


def act(stage: Stage, volume_id: str, action: str, body: object) -> None:
    good(stage.demo.post(f"{V3}/volumes/{volume_id}/action", {action: body}, headers=asks.NEWEST))


def kept(stage: Stage, id: str) -> bool:
    """Whether the archive has anything with this name."""
    named = stage.cloud.transact(lambda conn: conn.scalars(select(Object.name)).all())
    return any(id in name for name in (*asks.files(stage), *stage._files(), *named))


# -- snapshots: (volume, snapshot)


def makes_snapshot(stage: Stage) -> Told:
    volume_id = full_volume(stage)
    return volume_id, str(make(stage, f"{V3}/snapshots", "snapshot", volume_id=volume_id)["id"])


def has_snapshot(stage: Stage) -> Told:
    told = makes_snapshot(stage)
    stage.settle()
    return told


def deletes_snapshot(stage: Stage) -> Told:
    told = has_snapshot(stage)
    good(stage.demo.delete(f"{V3}/snapshots/{told[1]}"))
    return told


def forces_snapshot_away(stage: Stage, told: Told) -> None:
    good(stage.admin.post(f"{V3}/snapshots/{told[1]}/action", {"os-force_delete": None}))


def deletes_all(stage: Stage) -> Told:
    told = has_snapshot(stage)
    good(stage.demo.delete(f"{V3}/volumes/{told[0]}?cascade=true"))
    return told


def reverts(stage: Stage) -> Told:
    volume_id, snapshot_id = has_snapshot(stage)
    stage.drivers.volume.volumes.put(volume_id, Volume(volume_id, 1, "something else"))
    act(stage, volume_id, "revert", {"snapshot_id": snapshot_id})
    return volume_id, snapshot_id


def is_busy(stage: Stage) -> None:
    stage.drivers.volume.behaviour.fail("ensure_snapshot_absent", times=None, error=InUse("volumes depend on it"))


def snapshot_is(expected: str, there: bool, volume: str = "available") -> Check:
    def check(stage: Stage, told: Told) -> None:
        volume_id, snapshot_id = told
        assert status(stage, "snapshot", snapshot_id) == expected
        assert status(stage, "volume", volume_id) == volume
        frozen = stage.drivers.volume.frozen.get(snapshot_id)
        assert (frozen is not None) is there
        assert frozen is None or frozen.head.encode() == CONTENT
        if volume == "available":
            assert stage.drivers.volume.volumes.get(volume_id).head.encode() == CONTENT

    return check


# -- backups: (volume, backup)


def backs_up(stage: Stage) -> Told:
    volume_id = full_volume(stage)
    return volume_id, str(make(stage, f"{V3}/backups", "backup", volume_id=volume_id)["id"])


def backs_up_in_use(stage: Stage) -> Told:
    volume_id = used_volume(stage)
    return volume_id, str(make(stage, f"{V3}/backups", "backup", volume_id=volume_id, force=True)["id"])


def has_backup(stage: Stage) -> Told:
    told = backs_up(stage)
    stage.settle()
    return told


def deletes_backup(stage: Stage) -> Told:
    told = has_backup(stage)
    good(stage.demo.delete(f"{V3}/backups/{told[1]}"))
    return told


def forces_backup_away(stage: Stage, told: Told) -> None:
    good(stage.admin.post(f"{V3}/backups/{told[1]}/action", {"os-force_delete": None}))


def backup_is(expected: str, volume: str = "available") -> Check:
    def check(stage: Stage, told: Told) -> None:
        volume_id, backup_id = told
        assert status(stage, "backup", backup_id) == expected
        assert status(stage, "volume", volume_id) == volume
        assert kept(stage, backup_id) is (expected == "available")
        assert not stage.drivers.volume.frozen.values()

    return check


def imports(stage: Stage) -> Told:
    volume_id, backup_id = has_backup(stage)
    record = good(stage.admin.get(f"{V3}/backups/{backup_id}/export_record"))["backup-record"]
    told = orjson.loads(base64.b64decode(record["backup_url"])) | {"id": IMPORTED}
    record["backup_url"] = base64.b64encode(orjson.dumps(told)).decode()
    good(stage.admin.post(f"{V3}/backups/import_record", {"backup-record": record}))
    return volume_id, backup_id


def is_imported(stage: Stage, told: Told) -> None:
    found = good(stage.admin.get(f"{V3}/backups/{IMPORTED}"))["backup"]
    assert found["status"] == "available"
    assert kept(stage, told[1]) and not kept(stage, IMPORTED)


def moves_backup_without_room(stage: Stage) -> Told:
    """The container accepts less than the backup needs."""
    return moves_backup(stage, {"X-Container-Meta-Quota-Bytes": "1"})


def moves_backup(stage: Stage, headers: Mapping[str, str] | None = None) -> Told:
    """A backup that is in the directory, as all once were."""
    volume_id, backup_id = has_backup(stage)
    directory = stage.service.config.state_dir
    source = directory / "source"
    source.write_bytes(CONTENT)
    Archive(directory / "backups", 512).store(backup_id, source, None, lambda: False)
    source.unlink()
    now = utc(stage.cloud.clock.seconds())

    def set_back(conn: Connection) -> None:
        conn.execute(delete(Object))
        conn.execute(update(Backup).where(Backup.id == backup_id).values(kept_at=None))
        assert moving_backups.move_all(conn, now) == 1
        backup = backups.get(conn, backup_id)
        containers.put(conn, Place(backup.project_id, backup.container), dict(headers or {}), now)

    stage.cloud.transact(set_back)
    return volume_id, backup_id


def is_moved(stage: Stage, told: Told) -> None:
    assert status(stage, "backup", told[1]) == "available"
    names = stage.cloud.transact(lambda conn: conn.scalars(select(Object.name)).all())
    assert sum(told[1] in name for name in names) == 2
    assert not any(told[1] in name for name in stage._files())


def stays_where_it_is(stage: Stage, told: Told) -> None:
    assert status(stage, "backup", told[1]) == "available"
    assert any(told[1] in name for name in stage._files())
    assert stage.cloud.transact(lambda conn: conn.scalars(select(Object.name)).all()) == []


def forces_moved_away(stage: Stage, told: Told) -> None:
    good(stage.admin.post(f"{V3}/backups/{told[1]}/action", {"os-force_delete": None}))


# -- what volumes are made from: (source, volume); the source is deleted at once


def lends_volume(stage: Stage) -> Told:
    source = full_volume(stage)
    made = str(make(stage, f"{V3}/volumes", "volume", source_volid=source)["id"])
    good(stage.demo.delete(f"{V3}/volumes/{source}"))
    return source, made


def lends_snapshot(stage: Stage) -> Told:
    source = str(make(stage, f"{V3}/snapshots", "snapshot", volume_id=full_volume(stage))["id"])
    stage.settle()
    made = str(make(stage, f"{V3}/volumes", "volume", snapshot_id=source)["id"])
    good(stage.demo.delete(f"{V3}/snapshots/{source}"))
    return source, made


def has_lent(kind: str) -> Check:
    def check(stage: Stage, told: Told) -> None:
        assert (status(stage, kind, told[0]), status(stage, "volume", told[1])) == ("gone", "available")
        assert stage.drivers.volume.volumes.get(told[1]).head == CONTENT.decode()

    return check


# -- restores: (volume, backup)


def restores_into_new(stage: Stage) -> Told:
    _, backup_id = has_backup(stage)
    made = good(stage.demo.post(f"{V3}/backups/{backup_id}/restore", {"restore": {"name": "restored"}}))["restore"]
    return made["volume_id"], backup_id


def restores_into_given(stage: Stage) -> Told:
    volume_id, backup_id = has_backup(stage)
    stage.drivers.volume.volumes.put(volume_id, Volume(volume_id, 1, "something else"))
    good(stage.demo.post(f"{V3}/backups/{backup_id}/restore", {"restore": {"volume_id": volume_id}}))
    return volume_id, backup_id


def forces_volume_away(stage: Stage, told: Told) -> None:
    good(stage.admin.post(f"{V3}/volumes/{told[0]}/action", {"os-force_delete": None}))


def restored_is(expected: str) -> Check:
    def check(stage: Stage, told: Told) -> None:
        volume_id, backup_id = told
        assert status(stage, "volume", volume_id) == expected
        assert status(stage, "backup", backup_id) == "available"
        disk = stage.drivers.volume.volumes.get(volume_id)
        assert (disk is not None) is (expected in ("available", "error_restoring"))
        if expected == "available":
            assert disk.head.encode() == CONTENT
        # Nothing is left of what was on its way to the volume.
        assert not any(volume_id in name for name in stage._files())

    return check


# -- images of volumes: (volume, image)


def uploads(stage: Stage) -> Told:
    return upload_of(stage, full_volume(stage))


def uploads_in_use(stage: Stage) -> Told:
    return upload_of(stage, used_volume(stage))


def uploads_what_can_be_deleted(stage: Stage) -> Told:
    return upload_of(stage, used_volume(stage), protected=False)


def deletes_image(stage: Stage, told: Told) -> None:
    good(stage.demo.delete(f"{asks.IMAGES}/{told[1]}"))


def upload_of(stage: Stage, volume_id: str, protected: bool = True) -> Told:
    wish = {"os-volume_upload_image": {"image_name": "own", "force": True, "protected": protected}}
    answer = good(stage.demo.post(f"{V3}/volumes/{volume_id}/action", wish, headers=asks.NEWEST))
    return volume_id, answer["os-volume_upload_image"]["image_id"]


def image_is(expected: str, volume: str = "available") -> Check:
    def check(stage: Stage, told: Told) -> None:
        volume_id, image_id = told
        assert asks.image_status(stage, image_id) == expected
        assert status(stage, "volume", volume_id) == volume
        assert kept(stage, image_id) is (expected == "active")
        assert not stage.drivers.volume.frozen.values()

    return check


# -- images into volumes


def reimages(stage: Stage) -> str:
    volume_id = full_volume(stage)
    stage.drivers.volume.volumes.put(volume_id, Volume(volume_id, 1, "something else"))
    image_id = good(stage.demo.get(f"{V3}/volumes/{volume_id}"))["volume"]["volume_image_metadata"]["image_id"]
    act(stage, volume_id, "os-reimage", {"image_id": image_id})
    return volume_id


def reimaged_is(expected: str) -> Callable[[Stage, str], None]:
    def check(stage: Stage, volume_id: str) -> None:
        assert status(stage, "volume", volume_id) == expected
        disk = stage.drivers.volume.volumes.get(volume_id)
        assert (disk.head.encode() == CONTENT) is (expected == "available")

    return check


# -- what the audit finds


def is_mended(stage: Stage) -> str:
    """A volume in use that shrank and that its host lost."""
    volume_id = used_volume(stage)
    stage.drivers.volume.volumes.put(volume_id, Volume(volume_id, 0))
    stage.cloud.clock.advance(1)
    findings: list[Any] = []
    call(stage.service.audit.checks["volume"]).addBoth(findings.append)
    assert {each.kind for each in findings[0]} == {"volume-smaller", "volume-unconnected"}
    return volume_id


def is_whole(stage: Stage, volume_id: str) -> None:
    disk = stage.drivers.volume.volumes.get(volume_id)
    assert disk.size_gib == 1 and len(disk.hosts) == 1


SNAPSHOT, BACKUP = "volume.snapshot", "volume.backup"
SCENARIOS = (
    Scenario(f"{SNAPSHOT}.create", "works", makes_snapshot, snapshot_is("available", True)),
    Scenario(
        f"{SNAPSHOT}.create",
        "fails",
        makes_snapshot,
        snapshot_is("error", False),
        broken("volume", "ensure_snapshot"),
    ),
    Scenario(
        f"{SNAPSHOT}.create",
        "is deleted meanwhile",
        makes_snapshot,
        snapshot_is("gone", False),
        later=(0.05, forces_snapshot_away),
    ),
    Scenario(f"{SNAPSHOT}.delete", "works", deletes_snapshot, snapshot_is("gone", False)),
    Scenario(f"{SNAPSHOT}.delete", "is needed", deletes_snapshot, snapshot_is("available", True), is_busy),
    Scenario(
        f"{SNAPSHOT}.delete",
        "fails",
        deletes_snapshot,
        snapshot_is("error_deleting", True),
        broken("volume", "ensure_snapshot_absent"),
    ),
    Scenario(DELETE_VOLUME.name, "works with snapshots", deletes_all, snapshot_is("gone", False, "gone")),
    Scenario(REIMAGE_VOLUME.name, "works", reimages, reimaged_is("available")),
    Scenario(REIMAGE_VOLUME.name, "fails", reimages, reimaged_is("error"), broken("volume", "ensure_imported")),
    Scenario(REVERT_VOLUME.name, "works", reverts, snapshot_is("available", True)),
    Scenario(
        REVERT_VOLUME.name,
        "fails",
        reverts,
        snapshot_is("error", True, "error"),
        broken("volume", "ensure_reverted"),
    ),
    Scenario(f"{BACKUP}.create", "works", backs_up, backup_is("available")),
    Scenario(f"{BACKUP}.create", "works in use", backs_up_in_use, backup_is("available", "in-use")),
    Scenario(f"{BACKUP}.create", "fails", backs_up, backup_is("error"), broken("volume", "ensure_exported")),
    Scenario(
        f"{BACKUP}.create",
        "is deleted meanwhile",
        backs_up_in_use,
        backup_is("gone", "in-use"),
        later=(0.25, forces_backup_away),
    ),
    Scenario(f"{BACKUP}.import", "works", imports, is_imported),
    Scenario(f"{BACKUP}.move", "works", moves_backup, is_moved),
    Scenario(f"{BACKUP}.move", "fails", moves_backup_without_room, stays_where_it_is),
    Scenario(
        f"{BACKUP}.move",
        "is deleted meanwhile",
        moves_backup,
        backup_is("gone"),
        later=(0.0, forces_moved_away),
    ),
    Scenario(f"{BACKUP}.delete", "works", deletes_backup, backup_is("gone")),
    Scenario(RESTORE_VOLUME.name, "works", restores_into_new, restored_is("available")),
    Scenario(RESTORE_VOLUME.name, "works over a volume", restores_into_given, restored_is("available")),
    Scenario(
        RESTORE_VOLUME.name, "fails", restores_into_new, restored_is("error"), broken("volume", "ensure_imported")
    ),
    Scenario(
        RESTORE_VOLUME.name,
        "fails over a volume",
        restores_into_given,
        restored_is("error_restoring"),
        broken("volume", "ensure_imported"),
    ),
    Scenario(
        RESTORE_VOLUME.name,
        "is deleted meanwhile",
        restores_into_new,
        restored_is("gone"),
        later=(0.15, forces_volume_away),
    ),
    Scenario(UPLOAD_VOLUME.name, "works", uploads, image_is("active")),
    Scenario(UPLOAD_VOLUME.name, "works in use", uploads_in_use, image_is("active", "in-use")),
    Scenario(
        UPLOAD_VOLUME.name,
        "fails",
        uploads_in_use,
        image_is("gone", "in-use"),
        broken("volume", "ensure_exported"),
    ),
    Scenario(
        UPLOAD_VOLUME.name,
        "is deleted meanwhile",
        uploads,
        image_is("gone", "gone"),
        later=(0.05, forces_volume_away),
    ),
    Scenario(
        UPLOAD_VOLUME.name,
        "loses its image while it is written",
        uploads_what_can_be_deleted,
        image_is("gone", "in-use"),
        later=(0.15, deletes_image),
    ),
    Scenario(MEND_VOLUME.name, "works", is_mended, is_whole),
    Scenario(LEND_VOLUME.name, "works", lends_volume, has_lent("volume")),
    Scenario(LEND_SNAPSHOT.name, "works", lends_snapshot, has_lent("snapshot")),
)
