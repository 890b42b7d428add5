"""Copies a disk that a guest has open, as the disk is when the copy starts. The guest goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.qemu.lending import lent_file
from cloudctl.drivers.qemu.qmp import Monitor, Refused, Silent

JOB, TARGET = "capture", "capture-target"
POLL_SECONDS = 0.05


async def size(monitor: Monitor, node: str) -> int:
    """The size in bytes of the disk behind a node, as the guest sees it."""
    found: list[dict[str, Any]] = await monitor.execute("query-named-block-nodes", {"flat": True})
    return int(next(each["image"]["virtual-size"] for each in found if each["node-name"] == node))


async def backup(
    monitor: Monitor,
    clock: IReactorTime,
    source: str,
    target: Path,
    timeout: float,
    *,
    format: str = "qcow2",
    whole: bool = True,
) -> None:
    """Fill `target`, an empty disk of this format and the same size, from the node `source`. `whole`: also from its
    backing files.

    Raises NoCapacity, Silent.
    """
    await _tidy(monitor, clock)
    block = {"driver": format, "node-name": TARGET, "file": {"driver": "file", "filename": str(target)}}
    async with lent_file(monitor, block) as reached:
        await monitor.execute("blockdev-add", reached)
    try:
        job = {"job-id": JOB, "device": source, "target": TARGET, "sync": "full" if whole else "top"}
        await monitor.execute("blockdev-backup", {**job, "auto-dismiss": False})
        failure = await _outcome(monitor, clock, clock.seconds() + timeout)
    finally:
        if not monitor.is_lost:
            await _tidy(monitor, clock)
    if failure is not None:
        error = NoCapacity if "No space left on device" in failure else DriverError
        raise error(f"the disk was not copied: {failure}")


async def _job(monitor: Monitor) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = await monitor.execute("query-jobs")
    return next((each for each in found if each["id"] == JOB), None)


async def _outcome(monitor: Monitor, clock: IReactorTime, limit: float) -> str | None:
    """Wait until the job has ended; what went wrong, or None. Raises Silent."""
    while (job := await _job(monitor)) is not None and job["status"] != "concluded":
        if clock.seconds() >= limit:
            raise Silent("copying a disk did not finish in time")
        await deferLater(clock, POLL_SECONDS)
    return None if job is None else job.get("error")


async def _tidy(monitor: Monitor, clock: IReactorTime) -> None:
    """Nothing is left of a copy, whether this one or one whose caller was killed."""
    job = await _job(monitor)
    if job is not None:
        if job["status"] != "concluded":
            await monitor.execute("job-cancel", {"id": JOB})
            await _outcome(monitor, clock, clock.seconds() + monitor.timeout)
        await monitor.execute("job-dismiss", {"id": JOB})
    try:
        await monitor.execute("blockdev-del", {"node-name": TARGET})
    except Refused as error:
        if "Failed to find" not in error.description:
            raise
