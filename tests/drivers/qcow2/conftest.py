from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.qcow2.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from tests.drivers.qcow2 import live


@pytest.fixture
def open_driver(reactor: Any, tmp_path: Path) -> Callable[..., Any]:
    """Makes a driver on the directory of the test; the next one finds what the one before left."""
    live.demand("qemu-img")

    async def opened(directory: Path | None = None, **options: Any) -> Any:
        resources = DriverResources(
            clock=reactor, name="qcow2", reactor=reactor, state_dir=directory or tmp_path / "state"
        )
        driver = create(Config(**options), resources)
        await driver.check()
        return driver

    return opened
