"""What the plugin loads: the options. Only the driver itself, once chosen, needs the package `ovs`, an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

if TYPE_CHECKING:
    from cloudctl.drivers.ovn.backend import Ovn

__all__ = ["Config", "create"]

MISSING = "driver.network.ovn: needs ovs, which `pip install cloudctl[ovn]` installs"


def create(config: Config, resources: DriverResources) -> Ovn:
    """Raises ConfigError without the package."""
    try:
        from cloudctl.drivers.ovn import backend
    except ModuleNotFoundError as error:
        if error.name != "ovs":
            raise
        raise ConfigError([MISSING]) from error
    return backend.create(config, resources)
