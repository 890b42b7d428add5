"""Scenarios of the workflows that take over volumes that backends have, and release them."""

from __future__ import annotations

from collections.abc import Callable

from cloudctl.drivers.fake.volume import Loose
from cloudctl.volume.kinds import MANAGE_SNAPSHOT, MANAGE_VOLUME, UNMANAGE_SNAPSHOT, UNMANAGE_VOLUME
from tests.crash.asks import V3, good
from tests.crash.copy_scenarios import CONTENT, Told, forces_volume_away, full_volume, has_snapshot, status
from tests.crash.scenario import Scenario, broken
from tests.crash.stage import Stage

NAME = "disk"
POOL = "cloudctl@first#first"


def manages(stage: Stage) -> Told:
    stage.drivers.volume.loose.put(NAME, Loose(NAME, 1, CONTENT.decode()))
    wish = {"host": POOL, "ref": {"source-name": NAME}}
    made = good(stage.admin.post(f"{V3}/os-volume-manage", {"volume": wish}))["volume"]
    return made["id"], NAME


def unmanages(stage: Stage) -> Told:
    volume_id = full_volume(stage)
    good(stage.admin.post(f"{V3}/volumes/{volume_id}/action", {"os-unmanage": None}))
    return volume_id, f"volume-{volume_id}"


def volume_is(expected: str) -> Callable[[Stage, Told], None]:
    """The content is in one place: the volume, or what the backend has unmanaged."""

    def check(stage: Stage, told: Told) -> None:
        volume_id, name = told
        answer = stage.admin.get(f"{V3}/volumes/{volume_id}")
        assert ("gone" if answer.status == 404 else answer.json()["volume"]["status"]) == expected
        managed = stage.drivers.volume.volumes.get(volume_id)
        loose = stage.drivers.volume.loose.get(name)
        assert (managed is not None, loose is None) == (expected in ("available", "error_deleting"),) * 2
        assert (managed or loose).head.encode() == CONTENT

    return check


def unmanages_snapshot(stage: Stage) -> Told:
    told = has_snapshot(stage)
    good(stage.admin.post(f"{V3}/snapshots/{told[1]}/action", {"os-unmanage": None}))
    return told


def manages_snapshot(stage: Stage) -> Told:
    volume_id, snapshot_id = unmanages_snapshot(stage)
    stage.settle()
    wish = {"volume_id": volume_id, "ref": {"source-name": f"_snapshot-{snapshot_id}"}}
    made = good(stage.admin.post(f"{V3}/os-snapshot-manage", {"snapshot": wish}))["snapshot"]
    return volume_id, made["id"]


def snapshot_is(expected: str) -> Callable[[Stage, Told], None]:
    def check(stage: Stage, told: Told) -> None:
        backend = stage.drivers.volume
        assert status(stage, "snapshot", told[1]) == expected
        managed, loose = backend.frozen.get(told[1]), backend.loose_snapshots.values()
        assert (managed is not None, not loose) == (expected in ("available", "error_deleting"),) * 2
        assert (managed or loose[0]).head.encode() == CONTENT

    return check


SCENARIOS = (
    Scenario(MANAGE_VOLUME.name, "works", manages, volume_is("available")),
    Scenario(MANAGE_VOLUME.name, "fails", manages, volume_is("error"), broken("volume", "ensure_adopted")),
    Scenario(MANAGE_VOLUME.name, "is deleted meanwhile", manages, volume_is("gone"), later=(0.15, forces_volume_away)),
    Scenario(UNMANAGE_VOLUME.name, "works", unmanages, volume_is("gone")),
    Scenario(
        UNMANAGE_VOLUME.name, "fails", unmanages, volume_is("error_deleting"), broken("volume", "ensure_released")
    ),
    Scenario(MANAGE_SNAPSHOT.name, "works", manages_snapshot, snapshot_is("available")),
    Scenario(
        MANAGE_SNAPSHOT.name,
        "fails",
        manages_snapshot,
        snapshot_is("error"),
        broken("volume", "ensure_snapshot_adopted"),
    ),
    Scenario(UNMANAGE_SNAPSHOT.name, "works", unmanages_snapshot, snapshot_is("gone")),
    Scenario(
        UNMANAGE_SNAPSHOT.name,
        "fails",
        unmanages_snapshot,
        snapshot_is("error_deleting"),
        broken("volume", "ensure_snapshot_released"),
    ),
)
