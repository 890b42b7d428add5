"""Who looks after the hosts of a cloud in memory."""

from __future__ import annotations

import pytest

from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.instance_ha.asking import Ha


@pytest.fixture
def ha(cloud: MemoryCloud) -> Ha:
    return Ha(cloud.client("admin"))


@pytest.fixture
def demo(cloud: MemoryCloud) -> Asking:
    """A member of the project `demo`."""
    return Asking(cloud.client("demo"))


@pytest.fixture
def hypervisor(cloud: MemoryCloud) -> FakeHypervisor:
    found = cloud.cloud.drivers.hypervisor
    assert isinstance(found, FakeHypervisor)
    return found


@pytest.fixture
def fencer(cloud: MemoryCloud) -> FakeFencer:
    found = cloud.cloud.drivers.fencers["fake"]
    assert isinstance(found, FakeFencer)
    return found
