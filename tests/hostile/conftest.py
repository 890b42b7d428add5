"""One cloud with two projects, for all tests that only send requests and restore it."""

from __future__ import annotations

import pytest

from tests.generated.world import World
from tests.hostile.tenants import Tenant, settled


@pytest.fixture(scope="session")
def lands() -> World:
    return World()


@pytest.fixture(scope="session")
def tenants(lands: World) -> tuple[Tenant, Tenant]:
    return settled(lands)
