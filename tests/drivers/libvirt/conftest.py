"""Real libvirtds, a pair a module. CLOUDCTL_REQUIRE_HOST=1 makes their absence a failure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.specs import DriverResources
from tests.drivers.libvirt import pki
from tests.drivers.libvirt.daemon import Libvirtd, lacking
from tests.needed import HOST, need


@pytest.fixture(scope="module")
def start_libvirtd() -> Iterator[Callable[[str], Libvirtd]]:
    """`start_libvirtd(name)`: a host of that name."""
    need(lacking(), HOST)
    directory = Path(tempfile.mkdtemp(prefix="cc-"))
    certificates = pki.make(directory / "pki")
    made: list[Libvirtd] = []

    def start(name: str) -> Libvirtd:
        (directory / name).mkdir()
        made.append(Libvirtd(directory / name, certificates, name))
        made[-1].start()
        made[-1].wait()
        return made[-1]

    yield start
    for daemon in made:
        daemon.end()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def libvirtd(start_libvirtd: Callable[[str], Libvirtd]) -> Libvirtd:
    return start_libvirtd("east")


@pytest.fixture(scope="module")
def other_libvirtd(start_libvirtd: Callable[[str], Libvirtd]) -> Libvirtd:
    return start_libvirtd("west")


@pytest.fixture
def driver(libvirtd: Libvirtd, tmp_path: Path) -> Iterator[Any]:
    """Of one host, `here`."""
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import Config, create

    hosts, disks = {"here": libvirtd.uri}, str(tmp_path / "disks")
    config = Config(hosts, accelerator="tcg", directory=disks, pool=tmp_path.name, slots=2, soft_reboot_timeout=0.0)
    yield create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))
    libvirtd.empty()
