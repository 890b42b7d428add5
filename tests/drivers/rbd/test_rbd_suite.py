"""The public volume suite against the driver `rbd`, with a real Ceph.

Without injected failures: they are raised before or after a whole call, so what is done is what is done for `once` and
`twice`, and each program that reaches the cluster takes its twentieth of a second. What fails inside of a call is in
test_rbd_failures.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.volume_suite import volume_suite

_makers: list[Callable[..., Any]] = []


def make_driver(directory: Path) -> Any:
    return _makers[-1](directory)


class TestRbd(volume_suite(make_driver)):
    @pytest.fixture(autouse=True)
    def _in_a_namespace(self, make: Callable[..., Any]) -> None:
        _makers[:] = [make]
