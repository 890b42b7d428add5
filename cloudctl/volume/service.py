"""Block storage as a part of a cloud: the archive of backups, and the threads that work on it."""

from __future__ import annotations

from pathlib import Path

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.errors import ConfigError
from cloudctl.volume import api, audit, lifecycle
from cloudctl.volume.archive import Archive
from cloudctl.volume.archive_threads import ArchiveThreads
from cloudctl.volume.bootstrap import bootstrap
from cloudctl.volume.options import VolumeOptions


def compose(cloud: Surroundings) -> Part:
    options = cloud.config.section(VolumeOptions)
    threads, supports = cloud.threads("backups", options.backup_threads)
    directory = Path(options.backup_directory) if options.backup_directory else cloud.config.state_dir / "backups"
    archive = Archive(directory, options.backup_piece)

    def prepare() -> None:
        try:
            archive.prepare()
        except OSError as error:
            raise ConfigError([f"volume.backup_directory: {error}"]) from None

    def first_rows(conn: Connection, first: FirstStart) -> None:
        bootstrap(conn, first.now, options)

    return Part(
        lambda http: api.build(http, cloud.db, cloud.volume, options),
        lifecycle.workflows(ArchiveThreads(archive, threads, cloud.reactor)),
        checks={"volume": audit.check(cloud.db, cloud.volume)},
        prepare=prepare,
        bootstrap=first_rows,
        supports=supports,
    )


SERVICE = Service(
    "cloudctl.volume",
    "Block storage",
    compose,
    mount="volume",
    options=VolumeOptions,
    catalog=(
        CatalogEntry("block-storage", "cinder", "{base_url}/volume/v3"),
        CatalogEntry("volumev3", "cinderv3", "{base_url}/volume/v3"),
    ),
)
