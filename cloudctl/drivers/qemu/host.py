"""What this machine has, according to the kernel."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

PROC = Path("/proc")


def memory_mib(proc: Path = PROC) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    raise ValueError(f"{proc / 'meminfo'} has no MemTotal")


def up_since(proc: Path = PROC) -> float:
    """When the machine was started, in seconds since the epoch."""
    for line in (proc / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise ValueError(f"{proc / 'stat'} has no btime")


def disk_gib(directory: Path) -> int:
    """The size of the file system that the directory is on."""
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize >> 30


def cpu_info(proc: Path = PROC) -> dict[str, Any]:
    """Architecture, vendor, model, topology and features of the first processor."""
    first: dict[str, str] = {}
    for line in (proc / "cpuinfo").read_text().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        first[key.strip()] = value.strip()
    return {
        "arch": platform.machine(),
        "vendor": first.get("vendor_id", ""),
        "model": first.get("model name", ""),
        "topology": {"sockets": 1, "cores": os.cpu_count() or 1, "threads": 1},
        "features": first.get("flags", "").split(),
    }


def version_number(told: str) -> int:
    """7002022 for `QEMU emulator version 7.2.22 (Debian …)`."""
    words = told.split()
    major, minor, patch = (int(part) for part in words[words.index("version") + 1].split("."))
    return major * 1_000_000 + minor * 1000 + patch
