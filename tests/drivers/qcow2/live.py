"""What the tests of both volume drivers need of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.programs import require
from cloudctl.drivers.specs import ImageSource
from tests.needed import HOST, need

MIB, GIB = 1 << 20, 1 << 30
IMAGE = "9d2f4c11-0000-4000-8000-0000000000ff"


def demand(*programs: str, root: bool = False) -> None:
    """Skip the test, or fail it if CLOUDCTL_REQUIRE_HOST is 1, unless this machine has what it needs."""
    reason = None
    try:
        require(*programs)
    except Unusable as error:
        reason = str(error)
    if root and os.geteuid() != 0:
        reason = "mounting a file system needs root"
    need(reason, HOST)


def end_daemons(runtime_dir: Path) -> None:
    """Storage daemons outlive who started them."""
    for pid_file in runtime_dir.glob("volume*.pid"):
        with pid_file.open() as file:
            try:
                # The number is another process's by now, if it can be locked.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.kill(int(file.read()), signal.SIGKILL)


def run(*command: object, check: bool = True) -> str:
    """What it prints, complaints included."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode:
        raise AssertionError(f"{command}: {done.stdout} {done.stderr}")
    return done.stdout + done.stderr


def write(path: Path, pattern: int, offset: int = 0, length: int = MIB) -> None:
    """Write into a qcow2, as a guest would."""
    run("qemu-io", "-f", "qcow2", "-c", f"write -q -P {pattern} {offset} {length}", path)


def holds(path: Path, pattern: int, offset: int = 0, length: int = MIB, format: str = "qcow2") -> bool:
    told = run("qemu-io", "-U", "-r", "-f", format, "-c", f"read -P {pattern} {offset} {length}", path, check=False)
    assert "read " in told, told
    return "failed" not in told


def greedy_vdi(path: Path) -> ImageSource:
    """One sector that says: a disk of 1 GiB, with a table of 2 GiB, of which everything is to be read."""
    sector = bytearray(512)
    struct.pack_into("<IIII", sector, 0x40, 0xBEDA107F, 0x00010001, 0x180, 1)
    struct.pack_into("<II", sector, 0x154, 0x200, 0x400)
    struct.pack_into("<I", sector, 0x168, 512)
    struct.pack_into("<QIII", sector, 0x170, GIB, MIB, 0, 0x1FFF0000)
    path.write_bytes(sector)
    return ImageSource(IMAGE, str(path), "vdi")


def is_zero(path: Path, offset: int) -> bool:
    """Whether nothing but zeros is from there on."""
    extents = json.loads(run("qemu-img", "map", "-U", "--output=json", path))
    return all(each["zero"] or each["start"] + each["length"] <= offset for each in extents)


def info(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("qemu-img", "info", "-U", "--output=json", path))
    return found


def inside(path: Path) -> list[str]:
    """Names of the snapshots in a qcow2."""
    return [each["name"] for each in info(path).get("snapshots", [])]


def raw_image(path: Path, *blocks: int) -> ImageSource:
    """A file of one MiB for each of these bytes."""
    path.write_bytes(b"".join(bytes([block]) * MIB for block in blocks))
    return ImageSource(IMAGE, str(path), "raw")


def image(path: Path, disk_format: str, qemu_format: str, *blocks: int, options: tuple[str, ...] = ()) -> ImageSource:
    """The same in another format."""
    raw = raw_image(path.with_suffix(".raw"), *blocks)
    run("qemu-img", "convert", "-f", "raw", "-O", qemu_format, *options, raw.path, path)
    return ImageSource(IMAGE, str(path), disk_format)


@contextmanager
def small_file_system(directory: Path, mib: int) -> Iterator[Path]:
    """An ext4 of this size, mounted below `directory`."""
    file, place = directory / "small.img", directory / "small"
    with file.open("wb") as made:
        made.truncate(mib * MIB)
    place.mkdir()
    run("mkfs.ext4", "-q", "-m", "0", file)
    run("mount", "-o", "loop", file, place)
    try:
        yield place
    finally:
        # Lazily: what a test that failed left running may still use it.
        run("umount", "--lazy", place)
        file.unlink()
