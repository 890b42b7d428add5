"""What a fake guest writes to its serial console."""

from __future__ import annotations

from cloudctl.drivers.specs import GuestSpec

KEPT = 65536  # characters of a console that are kept

POWER_DOWN = "[ ok ] Stopped all services.\nreboot: Power down\n"
POWER_LOST = "-- power cut --\n"
RESTART = "[ ok ] Stopped all services.\nreboot: Restarting system\n"
RESET = "-- reset --\n"
SUSPENDED = "PM: suspend entry (deep)\n"
RESUMED = "PM: resume devices took 0.021 seconds\n"
DUMPED = "Uhhuh. NMI received for unknown reason 20 on CPU 0.\nkdump: saving vmcore complete\n"
PANIC = "Kernel panic - not syncing: Fatal exception\n"


def boot(spec: GuestSpec) -> str:
    """A whole boot, from the kernel to the login prompt."""
    memory = f"[    0.004000] Memory: {spec.memory_mib * 1024}K available, {spec.vcpus} CPUs"
    disks = [f"[    0.41{n}000] virtio_blk: volume {each.volume_id}" for n, each in enumerate(spec.volumes)]
    nics = [f"[    0.52{n}000] virtio_net eth{n}: {each.mac}" for n, each in enumerate(spec.ports)]
    login = f"{spec.hostname or spec.name} login: "
    kernel = "[    0.000000] Linux version 6.1.0 (cloudctl fake guest)"
    command = "[    0.000000] Command line: root=/dev/vda console=ttyS0"
    ready = "[    1.300000] Reached target Multi-User System."
    return "\n".join(["", kernel, command, memory, *disks, *nics, ready, "", login])


def grown(volume_id: str, size_gib: int) -> str:
    return f"virtio_blk: volume {volume_id}: new size: {size_gib} GiB\n"


def add(log: str, text: str) -> str:
    """The log with a power event, which begins on a line of its own."""
    gap = "" if log.endswith("\n") or not log or text.startswith("\n") else "\n"
    return (log + gap + text)[-KEPT:]


def tail(log: str, lines: int | None) -> str:
    if lines is None:
        return log
    return "".join(log.splitlines(keepends=True)[-lines:]) if lines > 0 else ""
