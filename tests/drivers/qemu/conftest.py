"""Real guests: only as root, with QEMU installed. CLOUDCTL_REQUIRE_HOST=1 makes their absence a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.programs import require
from cloudctl.drivers.qemu import processes
from tests.drivers.qcow2 import live
from tests.drivers.qemu import real
from tests.live import guest_image
from tests.needed import HOST, need


def lacking() -> str | None:
    """Why there can be no real guests here."""
    if os.geteuid() != 0:
        return "real guests need root"
    try:
        require("qemu-system-x86_64", "qemu-img", "genisoimage", "ip")
    except Unusable as error:
        return str(error)
    return None


@pytest.fixture
def image(runtime_dir: Path) -> Path:
    """The directory of the guest image."""
    need(guest_image.lacking(), HOST)
    return guest_image.ensure()


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    """For sockets and process ids of guests. Whatever still runs at the end is killed."""
    need(lacking(), HOST)
    directory = Path(tempfile.mkdtemp(prefix="cc-"))
    yield directory
    for pid_file in directory.glob("*.pid"):
        processes.kill(pid_file)
    live.end_daemons(directory)
    shutil.rmtree(directory)
    while real.taps:
        subprocess.run(["ip", "link", "del", "dev", real.taps.pop()], check=True)
