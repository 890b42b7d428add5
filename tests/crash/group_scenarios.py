"""Scenarios of the workflow that freezes all volumes of a group at one moment, and of the end of a group."""

from __future__ import annotations

from cloudctl.volume.kinds import CREATE_GROUP_SNAPSHOT, DELETE_VOLUME
from tests.crash import asks
from tests.crash.asks import NEWEST, V3, good, make
from tests.crash.copy_scenarios import CONTENT, Check, Told, status
from tests.crash.scenario import Scenario, broken
from tests.crash.stage import Stage

# -- (group, group snapshot)


def freezes(stage: Stage) -> Told:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", CONTENT)
    wish = {"name": "at once", "group_specs": {"consistent_group_snapshot_enabled": "<is> True"}}
    type_id = good(stage.admin.post(f"{V3}/group_types", {"group_type": wish}, headers=NEWEST))["group_type"]["id"]
    types = ["__DEFAULT__"]
    group_id = str(make(stage, f"{V3}/groups", "group", group_type=type_id, volume_types=types)["id"])
    for _ in range(2):
        asks.volume(stage, volume_type=types[0], group_id=group_id, imageRef=image_id)
    stage.settle()
    return group_id, str(make(stage, f"{V3}/group_snapshots", "group_snapshot", group_id=group_id)["id"])


def all_are(expected: str, there: int) -> Check:
    def check(stage: Stage, told: Told) -> None:
        assert status(stage, "group_snapshot", told[1]) == expected
        found = good(stage.demo.get(f"{V3}/snapshots/detail"))["snapshots"]
        assert [each["status"] for each in found] == [expected] * 2
        assert [each.head.encode() for each in stage.drivers.volume.frozen.values()] == [CONTENT] * there
        assert set(asks.volumes(stage).values()) == {"available"}

    return check


# -- (group, its volume)


def is_deleted(stage: Stage) -> Told:
    types = ["__DEFAULT__"]
    kind = good(stage.admin.post(f"{V3}/group_types", {"group_type": {"name": "g"}}, headers=NEWEST))["group_type"]
    group_id = str(make(stage, f"{V3}/groups", "group", group_type=kind["id"], volume_types=types)["id"])
    volume_id = asks.volume(stage, volume_type=types[0], group_id=group_id)
    stage.settle()
    good(stage.demo.post(f"{V3}/groups/{group_id}/action", {"delete": {"delete-volumes": True}}, headers=NEWEST))
    return group_id, volume_id


def is_gone(stage: Stage, told: Told) -> None:
    assert (status(stage, "group", told[0]), asks.volumes(stage)) == ("gone", {})


def is_in_error(stage: Stage, told: Told) -> None:
    assert status(stage, "group", told[0]) == "error"
    assert asks.volumes(stage) == {told[1]: "error_deleting"}


SCENARIOS = (
    Scenario(DELETE_VOLUME.name, "works with its group", is_deleted, is_gone),
    Scenario(DELETE_VOLUME.name, "fails with its group", is_deleted, is_in_error, broken("volume", "ensure_absent")),
    Scenario(CREATE_GROUP_SNAPSHOT.name, "works", freezes, all_are("available", 2)),
    Scenario(CREATE_GROUP_SNAPSHOT.name, "fails", freezes, all_are("error", 0), broken("volume", "ensure_snapshots")),
)
