"""The volume driver `qcow2`."""

from __future__ import annotations

from pathlib import Path

from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qcow2.disks import LocalDisks
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.options import Config
from cloudctl.drivers.qcow2.records import Records
from cloudctl.drivers.qcow2.room import Room
from cloudctl.drivers.qcow2.volumes import FileVolumes
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

__all__ = ["Config", "create"]


def create(config: Config, resources: DriverResources) -> FileVolumes:
    programs = Programs(resources.reactor, resources.clock, config.dry_run)
    records = Records(directory(config.directory, resources), resources.reactor, config.dry_run)
    images = Images(programs, config.copy_timeout)
    return FileVolumes(records, images, LocalDisks(records, images), Room(records, config.overcommit))


def directory(wished: str, resources: DriverResources) -> Path:
    """Where volumes are kept. Raises ConfigError in a cloud in memory without a configured directory."""
    chosen = Path(wished) if wished else resources.state_dir
    if chosen is None:
        raise ConfigError(
            [f"driver.volume.{resources.name}.directory: must be set in a cloud without a state directory"]
        )
    return chosen.absolute()
