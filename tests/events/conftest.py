"""A cloud in memory whose events are followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.testing.cloud import MemoryCloud

SECRET = "a secret of sixteen or more"
CONFIGURED = {"events": {"stream": True, "webhooks": {"ops": {"url": "http://ops.example/hook", "secret": SECRET}}}}


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud(CONFIGURED)
    yield made
    made.close()
