"""Jobs in QEMU that copy disks while guests use them, found by their ids. One that has ended stays until it is removed.

Source: QEMU's document «QMP Reference Manual» (Jobs).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.qemu.qmp import Monitor, Silent

READY, ENDED = "ready", "concluded"
POLL_SECONDS = 0.05


async def status(monitor: Monitor, id: str) -> str | None:
    """None: there is no such job."""
    job = await _find(monitor, id)
    return None if job is None else str(job["status"])


async def outcome(monitor: Monitor, id: str, timeout: float, *, at: str = ENDED) -> str | None:
    """Wait until the job has this status, or has ended; what went wrong, or None. Raises Silent."""
    limit = monitor.clock.seconds() + timeout
    while (job := await _find(monitor, id)) is not None and job["status"] not in (at, ENDED):
        if monitor.clock.seconds() >= limit:
            raise Silent("copying a disk did not finish in time")
        await deferLater(monitor.clock, POLL_SECONDS)
    if job is None:
        return "the job is gone"
    return job.get("error") or (None if job["status"] == at else "the job has ended")


async def remove(monitor: Monitor, id: str) -> None:
    """There is no such job, whoever began it. Raises Silent."""
    found = await status(monitor, id)
    if found is None:
        return
    if found != ENDED:
        await monitor.execute("job-cancel", {"id": id})
        await outcome(monitor, id, monitor.timeout)
    await monitor.execute("job-dismiss", {"id": id})


def error(what: str, failure: str) -> DriverError:
    kind = NoCapacity if "No space left on device" in failure else DriverError
    return kind(f"{what}: {failure}")


async def _find(monitor: Monitor, id: str) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = await monitor.execute("query-jobs")
    return next((each for each in found if each["id"] == id), None)
