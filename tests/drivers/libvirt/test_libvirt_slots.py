"""How many devices a running guest of a real libvirtd can be given, and what its user is told beyond that."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME


async def test_more_devices_than_a_running_guest_has_places_for_are_refused_in_words(
    driver: Any, tmp_path: Path
) -> None:
    """libvirt's were "internal error: No more available PCI slots"."""
    await driver.ensure_defined(evolve(real.tiny(tmp_path), host="here"))
    await driver.ensure_running(ID)
    with pytest.raises(Unfit, match=f"guest {ID} has as many volumes and ports as it can have while it runs"):
        for number in count():
            await driver.ensure_volume_attached(ID, real.volume(tmp_path, f"{VOLUME[:-2]}{number:02}"))
    assert number >= driver.config.slots
