"""The volume driver `nbd`."""

from __future__ import annotations

from cloudctl.drivers.nbd.daemon import daemons
from cloudctl.drivers.nbd.disks import ServedDisks
from cloudctl.drivers.nbd.fenced import Fenced
from cloudctl.drivers.nbd.options import Config
from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qcow2.driver import directory
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import Records
from cloudctl.drivers.qcow2.room import Room
from cloudctl.drivers.qcow2.volumes import FileVolumes
from cloudctl.drivers.specs import DriverResources

__all__ = ["Config", "create"]


def create(config: Config, resources: DriverResources) -> FileVolumes:
    programs = Programs(resources.reactor, resources.clock, config.dry_run)
    records = Records(directory(config.directory, resources), resources.reactor, config.dry_run)
    images = Images(programs, config.copy_timeout)

    daemon = daemons(config, records, programs, config.account)
    fenced = Fenced(records.root, resources.reactor)
    disks = ServedDisks(
        records, images, daemon, fenced, resources.clock, config.retry_seconds, bool(config.listen), config.dry_run
    )
    return FileVolumes(records, images, disks, Room(records, config.overcommit))
