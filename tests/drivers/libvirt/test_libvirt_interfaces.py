"""What guests of `libvirt` can do, beside those of `qemu`. libvirt's binding is needed, but no daemon."""

from __future__ import annotations

import pytest

from cloudctl.drivers.interfaces import IVncConsole
from cloudctl.drivers.qemu import hypervisor as qemu

pytest.importorskip("libvirt")

from cloudctl.drivers.libvirt import hypervisor as libvirt


def test_it_offers_what_qemu_does_but_for_a_screen() -> None:
    """docs/clusters.md says why."""
    assert set(qemu.INTERFACES) - set(libvirt.INTERFACES) == {IVncConsole}
