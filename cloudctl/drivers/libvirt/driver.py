"""What the plugin loads: the options. Only the driver itself, once chosen, needs libvirt's binding, an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

if TYPE_CHECKING:
    from cloudctl.drivers.libvirt.hypervisor import Libvirt

__all__ = ["Config", "create"]


def create(config: Config, resources: DriverResources) -> Libvirt:
    """Raises ConfigError without the binding."""
    try:
        from cloudctl.drivers.libvirt import hypervisor
    except ModuleNotFoundError as error:
        if error.name != "libvirt":
            raise
        missing = "driver.hypervisor.libvirt: needs libvirt-python, which `pip install cloudctl[libvirt]` installs"
        raise ConfigError([missing]) from error
    return hypervisor.create(config, resources)
