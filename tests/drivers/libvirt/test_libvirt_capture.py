"""Copies of disks that a guest of a real libvirtd uses meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve

from cloudctl.drivers.errors import Unreachable
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME

libvirt: Any = pytest.importorskip("libvirt")


@define
class Slow:
    """A guest of which a copy is made until it is told to end that."""

    guest: Any
    copies: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guest, name)

    def backupBegin(self, *args: Any) -> None:
        self.guest.backupBegin(*args)
        self.copies = True

    def jobStats(self, flags: int) -> Any:
        found = self.guest.jobStats(flags)
        return {**found, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP} if self.copies else found

    def abortJob(self) -> None:
        self.copies = False


async def test_a_copy_that_takes_too_long_is_given_up(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.libvirt import guests

    await driver.ensure_defined(evolve(real.tiny(tmp_path), host="here", volumes=(real.volume(tmp_path),)))
    await driver.ensure_running(ID)
    get, copy = guests.get, tmp_path / "copy.raw"
    with monkeypatch.context() as patch:
        patch.setattr(guests, "get", lambda connection, id: Slow(get(connection, id)))
        patch.setattr(driver, "config", evolve(driver.config, copy_timeout=0.5))
        with pytest.raises(Unreachable, match="in time"):
            await driver.ensure_volume_captured(ID, VOLUME, str(copy))
    assert not copy.exists()
    await driver.ensure_volume_captured(ID, VOLUME, str(copy))
    assert copy.exists()
