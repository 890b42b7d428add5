"""What a test needs of the machine: skipped where it is missing, and a failure where it was promised."""

from __future__ import annotations

import os

import pytest

HOST, POSTGRESQL = "CLOUDCTL_REQUIRE_HOST", "CLOUDCTL_REQUIRE_POSTGRESQL"


def need(lacking: str | None, promise: str) -> None:
    """`lacking`: why the test cannot run here; None if it can. `promise`: the variable that forbids to skip."""
    if lacking is None:
        return
    if os.environ.get(promise) == "1":
        pytest.fail(lacking, pytrace=False)
    pytest.skip(lacking)
