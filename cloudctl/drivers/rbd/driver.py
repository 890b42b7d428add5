"""The volume driver `rbd`."""

from __future__ import annotations

from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.rbd.bases import Bases
from cloudctl.drivers.rbd.ceph import Ceph
from cloudctl.drivers.rbd.contents import Contents
from cloudctl.drivers.rbd.options import Config
from cloudctl.drivers.rbd.volumes import RbdVolumes
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

__all__ = ["Config", "create"]


def create(config: Config, resources: DriverResources) -> RbdVolumes:
    """Raises ConfigError in a cloud in memory: imports and exports pass through files."""
    if resources.state_dir is None:
        raise ConfigError([f"driver.volume.{resources.name}: needs a cloud with a state directory"])
    programs = Programs(resources.reactor, resources.clock)
    ceph = Ceph(config, programs)
    images = Images(programs, config.copy_timeout)
    contents = Contents(ceph, images, resources.state_dir.absolute(), resources.reactor)
    return RbdVolumes(Bases(contents), config.clone_depth)
