"""The libvirt driver passes the public suite, with a real libvirtd, QEMU, and a guest that fits into one sector."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.specs import DriverResources, GuestSpec, PortSpec, VolumeConnection
from cloudctl.testing.faults import with_faults
from cloudctl.testing.hypervisor_suite import hypervisor_suite
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu import real, tiny_guest

daemons: list[Libvirtd] = []


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    # Not before there is a libvirtd: the module needs the library.
    from cloudctl.drivers.libvirt.hypervisor import Config, create

    disks = directory / "disks"
    config = Config(
        hosts={daemon.name: daemon.uri for daemon in daemons},
        # The certificates are where both hosts, and we, see them.
        peers={daemon.name: daemon.tls_uri for daemon in daemons},
        accelerator="tcg",
        directory=str(disks),
        pool=directory.name,
        slots=4,
        soft_reboot_timeout=0.3,
    )
    return with_faults(create(config, DriverResources(reactor, "libvirt", reactor, directory)), reactor)


class TestLibvirt(hypervisor_suite(make)):
    @pytest.fixture(autouse=True)
    def _daemons(self, libvirtd: Libvirtd, other_libvirtd: Libvirtd) -> Iterator[None]:
        daemons[:] = [libvirtd, other_libvirtd]
        yield
        for daemon in daemons:
            daemon.empty()
        while real.taps:
            subprocess.run(["ip", "link", "del", real.taps.pop()], check=True)

    def guest(self, id: str, host: str, directory: Path) -> GuestSpec:
        return evolve(real.tiny(directory), id=id, host=host)

    def volume(self, id: str, host: str, directory: Path) -> VolumeConnection:
        return real.volume(directory, id)

    def elsewhere(self, id: str, host: str, directory: Path) -> VolumeConnection:
        return evolve(real.volume(directory, f"{id}-elsewhere"), volume_id=id)

    def port(self, id: str, host: str, directory: Path) -> PortSpec:
        """Unlike QEMU by itself, libvirt wants the tap that it is told of to be there."""
        return real.port(directory, id)

    async def boots(self, driver: Any, id: str) -> int:
        """Once it has said its last line since its process began."""
        console = Path(driver.config.directory, f"{id}.console")
        # QEMU writes it before it lets the guest run, by the same clock as the console.
        daemon, began = next((each, file) for each in daemons if (file := each.pid_file(id)).exists())
        # One that came from another host, or from disk, goes on and has nothing more to say.
        came = b"-incoming" in daemon.inside(f"/proc/{int(began.read_text())}/cmdline").read_bytes()

        async def is_up() -> bool:
            text = await driver.console_output(id)
            said = came or console.stat().st_mtime_ns > began.stat().st_mtime_ns
            return said and text.rstrip("\n").endswith(tiny_guest.LAST_LINE)

        await real.soon(is_up)
        return str(await driver.console_output(id)).count("Linux version")
