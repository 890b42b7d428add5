from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from cloudctl.drivers.nbd.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from tests.drivers.nbd.client import Client
from tests.drivers.qcow2 import live


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    """For sockets and process ids of storage daemons. Those that still run at the end are killed."""
    live.demand("qemu-img", "qemu-storage-daemon")
    directory = Path(tempfile.mkdtemp(prefix="cc-"))
    yield directory
    live.end_daemons(directory)
    shutil.rmtree(directory)


@pytest.fixture
def open_driver(reactor: Any, tmp_path: Path, runtime_dir: Path) -> Iterator[Callable[..., Any]]:
    """Makes a driver on the directory of the test; the next one finds what the one before left."""
    made = []

    async def opened(directory: Path | None = None, **options: Any) -> Any:
        resources = DriverResources(
            clock=reactor, name="nbd", reactor=reactor, state_dir=directory or tmp_path / "state"
        )
        driver = create(Config(**{"runtime_dir": runtime_dir, **options}), resources)
        await driver.check()
        made.append(driver)
        return driver

    yield opened
    for driver in made:
        pytest_twisted.blockon(ensureDeferred(driver.close()))


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    clients = []

    def connected(told: Any, reconnect: int = 120) -> Client:
        clients.append(Client(told, reconnect))
        return clients[-1]

    yield connected
    for each in clients:
        each.end()
