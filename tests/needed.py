"""What a test needs from the machine: without it the test is skipped, or fails if it was promised."""

from __future__ import annotations

import os

import pytest

HOST, POSTGRESQL = "CLOUDCTL_REQUIRE_HOST", "CLOUDCTL_REQUIRE_POSTGRESQL"


def need(lacking: str | None, promise: str) -> None:
    """`lacking`: why the test cannot run here; None if it can. `promise`: the variable that forbids skipping."""
    if lacking is None:
        return
    if os.environ.get(promise) == "1":
        pytest.fail(lacking, pytrace=False)
    pytest.skip(lacking)
