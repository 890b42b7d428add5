"""One real Ceph for all tests of this folder. CLOUDCTL_REQUIRE_HOST=1 makes its absence a failure."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.rbd.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from tests.drivers.libvirt.conftest import libvirtd, start_libvirtd
from tests.drivers.qemu.conftest import image, runtime_dir
from tests.drivers.rbd.cluster import POOL, USER, Cluster, lacking
from tests.needed import HOST, need

# With the fixtures of the hypervisors whose guests have these volumes.
__all__ = ["cluster", "image", "libvirtd", "make", "namespace", "runtime_dir", "start_libvirtd"]


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    need(lacking(), HOST)
    with tempfile.TemporaryDirectory(prefix="cc-") as directory:
        made = Cluster(Path(directory))
        try:
            made.start()
            yield made
        finally:
            made.end()


@pytest.fixture(scope="package")
def _numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def namespace(cluster: Cluster, _numbers: Iterator[int]) -> str:
    """An empty one."""
    name = f"n{next(_numbers)}"
    cluster.rbd("namespace", "create", f"{POOL}/{name}")
    return name


@pytest.fixture
def make(reactor: Any, cluster: Cluster, namespace: str) -> Callable[..., Any]:
    """`make(directory, **options)`: a driver of that namespace.

    It holds that the pool has just been seen to have room, unless it `looks`: to ask starts a Python of Ceph's.
    """

    def made(directory: Path, looks: bool = False, **options: Any) -> Any:
        resources = DriverResources(clock=reactor, name="rbd", reactor=reactor, state_dir=directory / "state")
        where = {"monitors": [cluster.monitor], "pool": POOL, "namespace": namespace, "answer_timeout": 120.0}
        driver = create(Config(**{**where, "user": USER, "keyring": cluster.keyring, **options}), resources)
        if not looks:
            driver.bases.looked = reactor.seconds()
        return driver

    return made
