"""The public suite of fencers against the fake, which takes the power of the fake hypervisor's hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.fake import fencer, hypervisor
from cloudctl.drivers.specs import DriverResources
from cloudctl.testing.fencer_suite import fencer_suite

HOST = "fake-1"
_hypervisors: list[Any] = []


def make_driver(_directory: Path) -> Any:
    from twisted.internet import reactor

    resources = DriverResources(clock=reactor, name="fake", reactor=reactor, hypervisor=_hypervisors[-1])
    return fencer.create(fencer.Config(), resources)


async def is_off() -> bool:
    return not _hypervisors[-1].machines[HOST].up


class TestFakeFencer(fencer_suite(make_driver, is_off, HOST)):
    @pytest.fixture(autouse=True)
    def _hosts(self, reactor: Any) -> None:
        resources = DriverResources(clock=reactor, name="fake", reactor=reactor)
        _hypervisors[:] = [hypervisor.create(hypervisor.Config(), resources)]
