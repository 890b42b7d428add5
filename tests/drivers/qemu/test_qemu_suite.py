"""The qemu driver passes the public suite, with real QEMU processes and a guest that fits into one sector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.specs import GuestSpec, PortSpec, VolumeConnection
from cloudctl.testing.faults import with_faults
from cloudctl.testing.hypervisor_suite import hypervisor_suite
from tests.drivers.qemu import real

runtime: list[Path] = []


def make(directory: Path) -> Any:
    hosts = {real.HOST: "", "there": ""}
    driver = real.driver_in(directory, runtime[-1], hosts=hosts, soft_reboot_timeout=0.3)
    return with_faults(driver, driver.resources.clock)


class TestQemu(hypervisor_suite(make)):
    @pytest.fixture(autouse=True)
    def _runtime(self, runtime_dir: Path) -> None:
        runtime[:] = [runtime_dir]

    def guest(self, id: str, host: str, directory: Path) -> GuestSpec:
        from attrs import evolve

        return evolve(real.tiny(directory), id=id)

    def volume(self, id: str, host: str, directory: Path) -> VolumeConnection:
        return real.volume(directory, id)

    def port(self, id: str, host: str, directory: Path) -> PortSpec:
        return real.port(directory, id)

    async def boots(self, driver: Any, id: str) -> int:
        return await real.booted(driver, id)
