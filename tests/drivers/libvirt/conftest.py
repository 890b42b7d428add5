"""A real libvirtd, one a module. CLOUDCTL_REQUIRE_HOST=1 makes its absence a failure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.libvirt.daemon import Libvirtd, lacking
from tests.needed import HOST, need


@pytest.fixture(scope="module")
def libvirtd() -> Iterator[Libvirtd]:
    need(lacking(), HOST)
    directory = Path(tempfile.mkdtemp(prefix="cc-"))
    daemon = Libvirtd(directory)
    yield daemon
    daemon.end()
    shutil.rmtree(directory)
