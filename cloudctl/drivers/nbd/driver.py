"""The volume driver `nbd`."""

from __future__ import annotations

from cloudctl.drivers.nbd.daemon import Daemon, sockets
from cloudctl.drivers.nbd.disks import ServedDisks
from cloudctl.drivers.nbd.options import Config, server
from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qcow2.driver import directory
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import Records, Volume
from cloudctl.drivers.qcow2.volumes import FileVolumes
from cloudctl.drivers.specs import DriverResources

__all__ = ["Config", "create"]


def create(config: Config, resources: DriverResources) -> FileVolumes:
    programs = Programs(resources.reactor, resources.clock, config.dry_run)
    records = Records(directory(config.directory, resources), resources.reactor, config.dry_run)
    images = Images(programs, config.copy_timeout)

    def daemon(volume: Volume | None) -> Daemon:
        found = sockets(config.runtime_dir, records.root, None if volume is None else volume.id)
        where = server(config.listen, found.nbd, 0 if volume is None else volume.place or 0)
        return Daemon(programs, found, where, config.account, config.answer_timeout)

    disks = ServedDisks(
        records, images, daemon, resources.clock, config.retry_seconds, bool(config.listen), config.dry_run
    )
    return FileVolumes(records, images, disks, config.overcommit)
