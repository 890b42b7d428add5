"""A real northbound database, one a module. CLOUDCTL_REQUIRE_HOST=1 makes its absence a failure."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.ovn.ovsdb import Server, lacking
from tests.needed import HOST, need


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    need(lacking(), HOST)
    # A path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="cc-") as directory:
        made = Server(Path(directory))
        yield made
        made.stop()


@pytest.fixture
def northbound(server: Server) -> Server:
    """It holds nothing."""
    server.empty()
    return server
