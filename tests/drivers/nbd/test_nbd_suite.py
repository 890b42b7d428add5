"""The public volume suite against the driver `nbd`, with a real storage daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.nbd.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from cloudctl.testing.faults import with_faults
from cloudctl.testing.volume_suite import volume_suite

runtime: list[Path] = []


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    resources = DriverResources(clock=reactor, name="nbd", reactor=reactor, state_dir=directory / "state")
    return with_faults(create(Config(runtime_dir=runtime[-1]), resources), reactor)


class TestNbd(volume_suite(make)):
    @pytest.fixture(autouse=True)
    def _runtime(self, runtime_dir: Path) -> None:
        runtime[:] = [runtime_dir]
