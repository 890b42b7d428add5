"""Scenarios of backups where the backend tracks changes: the mark that the next one needs exists, and no other.

(volume, backup before, backup)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from tests.crash import asks
from tests.crash.asks import V3, good, make
from tests.crash.copy_scenarios import kept, status
from tests.crash.scenario import Scenario, broken
from tests.crash.stage import Stage
from tests.crash.volume_move_scenarios import SECOND

BACKUP = "volume.backup"
Told = tuple[str, str, str]
Check = Callable[[Stage, Told], None]


def fill(stage: Stage, volume_id: str, content: str) -> None:
    volumes = stage.drivers.second.volumes
    volumes.put(volume_id, evolve(volumes.get(volume_id), head=content))


def backed_up(stage: Stage) -> tuple[str, str]:
    """A volume that has changed since its backup was made."""
    wish = {"volume_type": {"name": "marked", "extra_specs": {"volume_backend_name": "second"}}}
    good(stage.admin.post(f"{V3}/types", wish))
    volume_id = asks.volume(stage, volume_type="marked")
    assert good(stage.admin.get(f"{V3}/volumes/{volume_id}"))["volume"]["os-vol-host-attr:host"] == SECOND
    fill(stage, volume_id, "a" * 600)
    before = str(make(stage, f"{V3}/backups", "backup", volume_id=volume_id)["id"])
    stage.settle()
    fill(stage, volume_id, "a" * 500 + "b" * 300)
    return volume_id, before


def builds_on(stage: Stage) -> Told:
    volume_id, before = backed_up(stage)
    made = make(stage, f"{V3}/backups", "backup", volume_id=volume_id, incremental=True)
    return volume_id, before, str(made["id"])


def builds_on_what_is_not_known(stage: Stage) -> Told:
    volume_id, before = backed_up(stage)
    volumes = stage.drivers.second.volumes
    volumes.put(volume_id, evolve(volumes.get(volume_id), marks={}))
    made = make(stage, f"{V3}/backups", "backup", volume_id=volume_id, incremental=True)
    return volume_id, before, str(made["id"])


def deletes(stage: Stage) -> Told:
    told = builds_on(stage)
    stage.settle()
    good(stage.demo.delete(f"{V3}/backups/{told[2]}"))
    return told


def forces_away(stage: Stage, told: Told) -> None:
    good(stage.admin.post(f"{V3}/backups/{told[2]}/action", {"os-force_delete": None}))


def it_is(expected: str, mark: int | None) -> Check:
    """`mark`: the backup whose mark the volume has."""

    def check(stage: Stage, told: Told) -> None:
        volume_id, before, backup_id = told
        assert (status(stage, "backup", before), status(stage, "backup", backup_id)) == ("available", expected)
        assert status(stage, "volume", volume_id) == "available"
        assert kept(stage, backup_id) is (expected == "available")
        assert list(stage.drivers.second.volumes.get(volume_id).marks) == ([] if mark is None else [told[mark]])
        assert not stage.drivers.second.frozen.values()
        if expected == "available":
            restored = good(stage.demo.post(f"{V3}/backups/{backup_id}/restore", {"restore": {}}))["restore"]
            stage.settle()
            assert stage.drivers.volume.volumes.get(restored["volume_id"]).head == "a" * 500 + "b" * 300
        assert not [name for name in stage._files() if Path(name).parent.name == "work"]

    return check


def told_of(method: str) -> Callable[[Stage], object]:
    return broken("second", method)


SCENARIOS = (
    Scenario(f"{BACKUP}.create", "builds on another", builds_on, it_is("available", 2)),
    Scenario(f"{BACKUP}.create", "reads all", builds_on_what_is_not_known, it_is("available", 2)),
    Scenario(f"{BACKUP}.create", "fails", builds_on, it_is("error", 1), told_of("ensure_changes_exported")),
    Scenario(f"{BACKUP}.create", "is not marked", builds_on, it_is("error", 1), told_of("ensure_marked")),
    Scenario(f"{BACKUP}.create", "is deleted meanwhile", builds_on, it_is("gone", 1), later=(0.15, forces_away)),
    Scenario(f"{BACKUP}.delete", "is the newest", deletes, it_is("gone", None)),
)
