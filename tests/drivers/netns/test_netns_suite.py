"""The public suite against real networks on two hosts, and what only this driver can get wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.faults import with_faults
from cloudctl.testing.network_suite import network_suite
from tests.drivers.netns.lab import HOSTS, make_driver

MARK = "prefix"


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(make_driver((directory / MARK).read_text(), directory), reactor)


class TestNetns(network_suite(make, HOSTS)):
    @pytest.fixture(autouse=True)
    def own_prefix(self, prefix: str, tmp_path: Path) -> None:
        (tmp_path / MARK).write_text(prefix)
