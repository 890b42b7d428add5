"""Block storage as a part of a cloud: the archive of backups, and the threads that work on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection, Database
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.errors import ConfigError
from cloudctl.object_store.intake import Intake
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http
from cloudctl.volume import audit, lifecycle, volumes
from cloudctl.volume.archive import Archive
from cloudctl.volume.archive_threads import ArchiveThreads
from cloudctl.volume.archives import Archives
from cloudctl.volume.bootstrap import bootstrap
from cloudctl.volume.ended import ENDED
from cloudctl.volume.left_over import LeftOver
from cloudctl.volume.object_archive import ObjectArchive
from cloudctl.volume.options import VolumeOptions, chosen, present


def compose(cloud: Surroundings) -> Part:
    options = chosen(cloud.config)
    pools = dict(zip(options.pools, cloud.volumes.values(), strict=True))
    backend = _as_one(pools, cloud.db)
    threads, supports = cloud.threads("backups", options.backup_threads)
    directory = Path(options.backup_directory) if options.backup_directory else cloud.config.data_dir / "backups"
    archive = Archive(directory, options.backup_piece)
    objects = _objects(cloud, options)
    if objects is None:
        options = evolve(options, backup_store="directory")
    archives = Archives(ArchiveThreads(archive, threads, cloud.reactor), objects)

    def prepare() -> None:
        try:
            archive.prepare()
        except OSError as error:
            raise ConfigError([f"volume.backup_directory: {error}"]) from None

    def first_rows(conn: Connection, first: FirstStart) -> None:
        bootstrap(conn, first.now, options)

    def build(http: Http) -> ApiApp:
        from cloudctl.volume import api

        return api.build(http, cloud.db, backend, pools, options, cloud.log_levels, cloud.hypervisor)

    return Part(
        build,
        lifecycle.workflows(archives),
        checks={"volume": audit.check(cloud.db, backend)},
        volume=backend,
        keeps=[] if options.backup_store == "objects" or options.backup_directory else ["volume.backup_directory"],
        prepare=prepare,
        bootstrap=first_rows,
        supports=supports,
        watches=[LeftOver(cloud.db, archives.directory)],
    )


def _objects(cloud: Surroundings, options: VolumeOptions) -> ObjectArchive | None:
    """None in a cloud without an object store."""
    try:
        intake = cloud.made(Intake)
    except LookupError:
        return None
    return ObjectArchive(intake, options.backup_piece, options.backup_object)


def _as_one(pools: Mapping[str, IVolumeBackend], db: Database) -> IVolumeBackend:
    """One backend for all volumes; a single one is used as it is."""
    if len(pools) == 1:
        return next(iter(pools.values()))

    async def place(volume_id: str) -> str | None:
        return present(pools, await db.read(volumes.host_of, volume_id))

    return Backends(pools, place)


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
    ended=ENDED,
)
