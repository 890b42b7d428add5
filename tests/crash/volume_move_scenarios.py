"""Scenarios of the workflows that move volumes to other backends, also while servers use them."""

from __future__ import annotations

from collections.abc import Callable

from cloudctl.drivers.errors import DriverError, UnknownVolume
from cloudctl.volume.kinds import MOVE_VOLUME, SWAP_VOLUME
from tests.crash import asks
from tests.crash.asks import V3, good
from tests.crash.copy_scenarios import CONTENT, full_volume, kept, used_volume
from tests.crash.scenario import Scenario
from tests.crash.stage import Stage

SECOND = "cloudctl@second#second"


def moves(stage: Stage) -> str:
    volume_id = full_volume(stage)
    answer = stage.admin.post(f"{V3}/volumes/{volume_id}/action", {"os-migrate_volume": {"host": SECOND}})
    good(answer)
    return volume_id


def moved_is(there: bool) -> Callable[[Stage, str], None]:
    def check(stage: Stage, volume_id: str) -> None:
        shown = good(stage.admin.get(f"{V3}/volumes/{volume_id}"))["volume"]
        assert (shown["status"], shown["migration_status"]) == ("available", "success" if there else "error")
        disks = stage.drivers.volume.volumes.get(volume_id), stage.drivers.second.volumes.get(volume_id)
        left, kept_disk = disks if there else disks[::-1]
        assert left is None and kept_disk.head.encode() == CONTENT
        assert (shown["os-vol-host-attr:host"] == SECOND) is there
        assert not kept(stage, volume_id)

    return check


def moves_in_use(stage: Stage) -> str:
    volume_id = used_volume(stage)
    good(stage.admin.post(f"{V3}/volumes/{volume_id}/action", {"os-migrate_volume": {"host": SECOND}}))
    return volume_id


def swapped_is(there: bool) -> Callable[[Stage, str], None]:
    """Its only server has the volume, at its present place and nowhere else."""

    def check(stage: Stage, volume_id: str) -> None:
        shown = good(stage.admin.get(f"{V3}/volumes/{volume_id}"))["volume"]
        assert (shown["status"], shown["migration_status"]) == ("in-use", "success" if there else "error")
        assert (shown["os-vol-host-attr:host"] == SECOND) is there
        disks = stage.drivers.volume.volumes.get(volume_id), stage.drivers.second.volumes.get(volume_id)
        left, kept_disk = disks if there else disks[::-1]
        guest = asks.guest(stage, shown["attachments"][0]["server_id"])
        (connection,) = guest.spec.volumes
        assert (left, kept_disk.hosts, kept_disk.head.encode()) == (None, (guest.spec.host,), CONTENT)
        driver = stage.drivers.second if there else stage.drivers.volume
        assert connection.info["data"]["backend"] == driver.name
        assert not kept(stage, volume_id)

    return check


def guest_cannot_be_led(stage: Stage) -> None:
    error = UnknownVolume("it has just let go of it")
    stage.drivers.hypervisor.behaviour.fail("ensure_volume_swapped", times=None, error=error)


def second_cannot_be_filled(stage: Stage) -> None:
    stage.drivers.second.behaviour.fail("ensure_imported", times=None, error=DriverError("it is broken"))


SCENARIOS = (
    Scenario(MOVE_VOLUME.name, "works", moves, moved_is(True)),
    Scenario(MOVE_VOLUME.name, "fails", moves, moved_is(False), second_cannot_be_filled),
    Scenario(MOVE_VOLUME.name, "fails while it is used", moves_in_use, swapped_is(False), guest_cannot_be_led),
    Scenario(SWAP_VOLUME.name, "works", moves_in_use, swapped_is(True)),
    Scenario(SWAP_VOLUME.name, "cannot be filled", moves_in_use, swapped_is(False), second_cannot_be_filled),
    Scenario(SWAP_VOLUME.name, "fails", moves_in_use, swapped_is(False), guest_cannot_be_led),
)
