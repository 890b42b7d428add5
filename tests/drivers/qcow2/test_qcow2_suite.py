"""The public volume suite against the driver `qcow2`, with real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.qcow2.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from cloudctl.testing.faults import with_faults
from cloudctl.testing.volume_suite import volume_suite
from tests.drivers.qcow2 import live


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    resources = DriverResources(clock=reactor, name="qcow2", reactor=reactor, state_dir=directory / "state")
    return with_faults(create(Config(), resources), reactor)


class TestQcow2(volume_suite(make)):
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        live.demand("qemu-img")
