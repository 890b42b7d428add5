"""The public hypervisor suite against the driver `qemu` whose root disks are in a real Ceph.

Without injected failures, as test_rbd_suite.py: what fails inside of a call is in test_qemu_roots.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.rbd.options import Pool
from cloudctl.testing.hypervisor_suite import hypervisor_suite
from tests.drivers.qemu import real
from tests.drivers.rbd.cluster import USER, Cluster

_makers: list[Callable[[Path], Any]] = []


def make_driver(directory: Path) -> Any:
    return _makers[-1](directory)


class TestQemuInCeph(real.Guests, hypervisor_suite(make_driver)):
    @pytest.fixture(autouse=True)
    def _in_a_namespace(self, cluster: Cluster, namespace: str, runtime_dir: Path) -> None:
        pool = Pool([cluster.monitor], USER, cluster.keyring, answer_timeout=120.0, namespace=namespace)

        def made(directory: Path) -> Any:
            hosts = {real.HOST: "", "there": ""}
            options = {"hosts": hosts, "soft_reboot_timeout": 0.3, "root_disks": "rbd", "rbd": pool}
            driver = real.driver_in(directory, runtime_dir, **options)
            # The pool has just been seen to have room: to ask starts a Python of Ceph's.
            roots = driver.disks.roots
            assert roots is not None
            roots.bases.looked = driver.resources.clock.seconds()
            return driver

        _makers[:] = [made]
