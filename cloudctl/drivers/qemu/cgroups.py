"""Each guest's process in a control group of its own: it takes no more of the machine than its size.

Source: the kernel's document «Control Group v2».
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from attrs import define
from twisted.logger import Logger

from cloudctl.drivers.specs import GuestSpec

CONTROLLERS = "+cpu +memory +pids"
MIB = 1 << 20
# What a QEMU takes besides its guest's memory and translated code: tables, buffers, its screen, pages of the disks.
BESIDE_MIB, BESIDE_VCPU_MIB = 512, 16
BESIDE_THREADS = 256  # for I/O, besides one for each VCPU
WEIGHT, MOST_WEIGHT = 100, 10000  # of one VCPU; of any group

_log = Logger()


def limits(spec: GuestSpec, translation_mib: int) -> Mapping[str, int]:
    """File of the group → what is written there."""
    memory = spec.memory_mib + translation_mib + BESIDE_MIB + BESIDE_VCPU_MIB * spec.vcpus
    return {
        "memory.max": memory * MIB,
        "pids.max": spec.vcpus + BESIDE_THREADS,
        "cpu.weight": min(MOST_WEIGHT, WEIGHT * spec.vcpus),
    }


@define(eq=False)
class ControlGroups:
    """Groups below a directory of cgroup v2. If that is not available, guests go without, and it is logged once."""

    root: Path | None  # None: guests stay in the group of the process that starts them
    _refused: bool = False

    def put(self, name: str, pid: int, limits: Mapping[str, int]) -> None:
        """The process, with all its threads, is in the group of this name, which has these limits."""
        if self.root is None or self._refused:
            return
        group = self.root / name
        try:
            self._prepare(self.root)
            group.mkdir(exist_ok=True)
            for file, value in limits.items():
                _write(group / file, str(value))
            _write(group / "cgroup.procs", str(pid))
        except OSError as error:
            if error.errno == errno.ESRCH:
                return  # it has ended, as the call that waits for it will see
            self._refused = True
            _log.warn(
                "guests have no control groups of their own, nor limits beside their size: {file}: {error}",
                file=error.filename,
                error=error.strerror,
            )

    def remove(self, name: str) -> None:
        """Remove the group of a guest without a process."""
        if self.root is None:
            return
        try:
            (self.root / name).rmdir()
        except FileNotFoundError:
            pass  # it never had one
        except OSError as error:
            _log.info("the control group {name} was not removed: {error}", name=name, error=error.strerror)

    def _prepare(self, root: Path) -> None:
        """Controllers reach a group only if every group above enables them. An operator's group keeps its settings."""
        if not (root.parent / "cgroup.controllers").exists():
            raise FileNotFoundError(errno.ENOENT, "there is no cgroup v2", str(root.parent))
        if not root.exists():
            _write(root.parent / "cgroup.subtree_control", CONTROLLERS)
            root.mkdir()
        _write(root / "cgroup.subtree_control", CONTROLLERS)


def _write(file: Path, text: str) -> None:
    # Without O_CREAT: a file that does not exist is a controller that the kernel does not offer.
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)
