"""What the tests of this folder read of the project is cached until the last of them has run."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.house.source import read


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        read.cache_clear()
    else:
        # The collection after each test need not walk through half a million tree nodes.
        gc.freeze()
