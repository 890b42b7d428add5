"""The OVN driver passes the public suite, with a real northbound database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.faults import with_faults
from cloudctl.testing.network_suite import network_suite
from tests.drivers.ovn.ovsdb import Server, make_driver

SERVERS: dict[str, Server] = {}


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(make_driver(SERVERS[directory.name]), reactor)


class TestOvn(network_suite(make)):
    @pytest.fixture(autouse=True)
    def of_this_test(self, northbound: Server, tmp_path: Path) -> Any:
        SERVERS[tmp_path.name] = northbound
        yield
        del SERVERS[tmp_path.name]
