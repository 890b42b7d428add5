"""The qemu driver passes the public suite, with real QEMU processes and a guest that fits into one sector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.faults import with_faults
from cloudctl.testing.hypervisor_suite import hypervisor_suite
from tests.drivers.qemu import real

runtime: list[Path] = []


def make(directory: Path) -> Any:
    hosts = {real.HOST: "", "there": ""}
    driver = real.driver_in(directory, runtime[-1], hosts=hosts, soft_reboot_timeout=0.3)
    return with_faults(driver, driver.resources.clock)


class TestQemu(real.Guests, hypervisor_suite(make)):
    @pytest.fixture(autouse=True)
    def _runtime(self, runtime_dir: Path) -> None:
        runtime[:] = [runtime_dir]
