"""Copies a disk that a guest has open, as the disk is when the copy starts. The guest goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloudctl.drivers.qemu import jobs, plugging
from cloudctl.drivers.qemu.lending import lent_file
from cloudctl.drivers.qemu.qmp import Monitor

JOB, TARGET = "capture", "capture-target"


async def size(monitor: Monitor, node: str) -> int:
    """The size in bytes of the disk behind a node, as the guest sees it."""
    found: list[dict[str, Any]] = await monitor.execute("query-named-block-nodes", {"flat": True})
    return int(next(each["image"]["virtual-size"] for each in found if each["node-name"] == node))


async def backup(
    monitor: Monitor,
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
    await _tidy(monitor)
    block = {"driver": format, "node-name": TARGET, "file": {"driver": "file", "filename": str(target)}}
    async with lent_file(monitor, block) as reached:
        await monitor.execute("blockdev-add", reached)
    try:
        job = {"job-id": JOB, "device": source, "target": TARGET, "sync": "full" if whole else "top"}
        await monitor.execute("blockdev-backup", {**job, "auto-dismiss": False})
        failure = await jobs.outcome(monitor, JOB, timeout)
    finally:
        if not monitor.is_lost:
            await _tidy(monitor)
    if failure is not None:
        raise jobs.error("the disk was not copied", failure)


async def _tidy(monitor: Monitor) -> None:
    """Nothing is left of a copy, whether this one or one whose caller was killed."""
    await jobs.remove(monitor, JOB)
    await plugging.close(monitor, TARGET)
