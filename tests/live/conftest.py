"""Live clouds, at most one per test module, killed at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.process import LiveCloud


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[LiveCloud]:
    """A cloud on SQLite with durable fake drivers."""
    cloud = LiveCloud(tmp_path_factory.mktemp("live"))
    cloud.start()
    yield cloud
    cloud.kill()
