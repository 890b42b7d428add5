"""The public volume suite against the driver `rbd`, with a real Ceph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.faults import with_faults
from cloudctl.testing.volume_suite import volume_suite

_makers: list[Callable[..., Any]] = []


def make_driver(directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(_makers[-1](directory), reactor)


class TestRbd(volume_suite(make_driver)):
    @pytest.fixture(autouse=True)
    def _in_a_namespace(self, make: Callable[..., Any]) -> None:
        _makers[:] = [make]
