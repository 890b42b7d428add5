"""What a guest uses, as QEMU and the kernel of this machine count it. Traffic of interfaces is not counted.

Sources: QEMU's document «QMP Reference Manual» (query-blockstats, query-cpus-fast); proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cloudctl.drivers.qemu import command, plugging
from cloudctl.drivers.qemu.qmp import Monitor
from cloudctl.drivers.qemu.records import Files, Record
from cloudctl.drivers.specs import DiskUse, GuestDiagnostics, Power, Traffic

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name, which is in parentheses and may contain anything.
USER_TIME, SYSTEM_TIME, STARTED = 11, 12, 19


def off(record: Record, files: Files, power: Power) -> GuestDiagnostics:
    return _told(record, power, None, (None,) * record.spec.vcpus, _disks(record, files, {}))


async def on(record: Record, files: Files, power: Power, monitor: Monitor, pid: int) -> GuestDiagnostics:
    """Raises Silent, Gone."""
    counted: list[Mapping[str, Any]] = await monitor.execute("query-blockstats")
    cpus: list[Mapping[str, Any]] = await monitor.execute("query-cpus-fast")
    threads = {each["cpu-index"]: each["thread-id"] for each in cpus}
    times = tuple(_spent(pid, threads.get(number)) for number in range(record.spec.vcpus))
    by_path = {each.get("qdev", ""): each["stats"] for each in counted}
    return _told(record, power, uptime(pid), times, _disks(record, files, by_path))


def _told(
    record: Record, power: Power, up: int | None, times: tuple[int | None, ...], disks: Iterator[DiskUse]
) -> GuestDiagnostics:
    return GuestDiagnostics(
        power=power,
        uptime=up,
        cpu_times=times,
        memory_mib=record.spec.memory_mib,
        memory_used_mib=None,
        disks=tuple(disks),
        nics=tuple(Traffic(each.mac) for each in record.spec.ports),
    )


def _disks(record: Record, files: Files, counted: Mapping[str, Mapping[str, int]]) -> Iterator[DiskUse]:
    """In the order in which the guest's kernel names them."""
    for number, disk in enumerate(command.disks(record, files)):
        name, stats = f"vd{chr(ord('a') + number)}", counted.get(plugging.path(disk.name))
        if stats is None:
            yield DiskUse(name)
            continue
        failed = stats["failed_rd_operations"] + stats["failed_wr_operations"] + stats["failed_flush_operations"]
        yield DiskUse(
            name, stats["rd_bytes"], stats["rd_operations"], stats["wr_bytes"], stats["wr_operations"], failed
        )


def _spent(pid: int, thread: int | None) -> int | None:
    """Nanoseconds of CPU time of a thread; None if it is gone."""
    found = None if thread is None else _stat(PROC / str(pid) / "task" / str(thread) / "stat")
    return None if found is None else (int(found[USER_TIME]) + int(found[SYSTEM_TIME])) * 1_000_000_000 // TICK


def uptime(pid: int) -> int | None:
    """Seconds since a process was started; None if it is gone."""
    found = _stat(PROC / str(pid) / "stat")
    if found is None:
        return None
    since_boot = float((PROC / "uptime").read_text().split()[0])
    return max(0, int(since_boot - int(found[STARTED]) / TICK))


def _stat(file: Path) -> list[str] | None:
    try:
        return file.read_text().rpartition(")")[2].split()
    except OSError:
        return None
