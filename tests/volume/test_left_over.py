"""Files of work on volumes whose process died while another one ended it."""

from __future__ import annotations

from typing import Any

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume.archive import WORK
from cloudctl.volume.left_over import PERIOD
from tests.volume.asking import V3
from tests.volume.backing_up import UNKNOWN


def test_files_of_work_that_has_ended_are_removed(cloud: MemoryCloud, make: Any, demo: Any, backend: Any) -> None:
    moved, busy = make()["id"], make()["id"]
    backend.behaviour.delay("ensure_exported", PERIOD * 1.5)
    backup = demo.post(f"{V3}/backups", {"backup": {"volume_id": busy}}).json()["backup"]["id"]
    cloud.clock.advance(1)
    work = cloud.cloud.config.data_dir / "backups" / WORK
    others = {backup, f"{backup}.changed", "notes"}
    for name in (f"{moved}.move", f"{UNKNOWN}.restore", *others):
        (work / name).write_bytes(b"content")
    cloud.clock.advance(PERIOD)
    assert {path.name for path in work.iterdir()} == others
    cloud.settle()
    cloud.clock.advance(PERIOD)
    assert {path.name for path in work.iterdir()} == {"notes"}
