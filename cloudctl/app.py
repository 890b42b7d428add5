"""Cloud: every part of a cloud put together. The only module that knows all services.

    cloud = Cloud(config.build({}, SECTIONS, Path("state")), reactor)
    cloud.prepare()                  # blocks: schema, drivers, first start
    cloud.setServiceParent(application)

An application that has a site of its own passes `listen=False` and hangs `cloud.resource` (and `cloud.ha_resource`)
where it likes: `root.putChild(b"cloud", cloud.resource)`.
"""

from __future__ import annotations

import fcntl
import math
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from attrs import evolve, frozen
from sqlalchemy import inspect
from twisted.application import strports
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.http_headers import Headers

import cloudctl.compute.api
import cloudctl.compute.lifecycle
import cloudctl.identity.api
import cloudctl.image.api
import cloudctl.image.lifecycle
import cloudctl.instance_ha.api
import cloudctl.network.api
import cloudctl.network.lifecycle
import cloudctl.volume.api
import cloudctl.volume.lifecycle
from cloudctl import bootstrap
from cloudctl.compute import audit
from cloudctl.compute.api import guest_metadata
from cloudctl.compute.bootstrap import bootstrap as bootstrap_compute
from cloudctl.compute.guest_watch import GuestWatch
from cloudctl.compute.host_watch import HostWatch
from cloudctl.compute.options import ComputeOptions
from cloudctl.config import Config
from cloudctl.db import Connection, Database, schema
from cloudctl.db.columns import metadata, utc
from cloudctl.db.database import Inline, Threads
from cloudctl.drivers import loader
from cloudctl.drivers.drivers import Drivers
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IGuestEvents, IGuestMetadata, IRouters
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import CloudError, ConfigError
from cloudctl.identity import keys
from cloudctl.identity.bootstrap import Seed
from cloudctl.identity.bootstrap import bootstrap as bootstrap_identity
from cloudctl.identity.keys import KeyDirectory, KeysInMemory
from cloudctl.identity.options import Argon2, IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.payload import Keys
from cloudctl.identity.tokens import Tokens
from cloudctl.image.bootstrap import bootstrap as bootstrap_image
from cloudctl.image.options import ImageOptions
from cloudctl.image.recovery import recover
from cloudctl.image.store import ImageStore
from cloudctl.network.bootstrap import bootstrap as bootstrap_network
from cloudctl.network.options import NetworkOptions
from cloudctl.rest import policy
from cloudctl.rest.answers import Answers
from cloudctl.rest.app import ApiApp, Tree
from cloudctl.rest.health import Health, MetricsPage
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http
from cloudctl.rest.site import CloudSite, Uploads
from cloudctl.service import OrderedService, ThreadsService
from cloudctl.tasks.audit import Audit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.metrics import TaskMetrics
from cloudctl.volume import audit as volume_audit
from cloudctl.volume.archive import Archive
from cloudctl.volume.archive_threads import ArchiveThreads
from cloudctl.volume.bootstrap import bootstrap as bootstrap_volume
from cloudctl.volume.options import VolumeOptions

log = Logger()

# The sections of the configuration that belong to services.
SECTIONS: dict[str, Any] = {
    "identity": IdentityOptions,
    "image": ImageOptions,
    "network": NetworkOptions,
    "volume": VolumeOptions,
    "compute": ComputeOptions,
}
# Seconds.
ABANDONED_UPLOAD = 3600.0
# The packages with a policy.toml.
POLICIES = ("identity", "image", "network", "volume", "compute", "instance_ha")

FERNET_KEYS = "fernet-keys"
CREDENTIAL_KEYS = "credential-keys"


@frozen
class Machinery:
    """What differs between a cloud on a real reactor and one in memory."""

    reactor: Any
    clock: IReactorTime
    db: Database
    state_dir: Path
    in_memory: bool

    def threads(self, name: str, most: int) -> tuple[Threads, ThreadsService | None]:
        """Threads for one kind of blocking work, and the service that keeps them alive, if one is needed."""
        if self.in_memory:
            return Inline(), None
        service = ThreadsService(name, most)
        return service.pool, service


def _create_tables(conn: Connection) -> None:
    """All at once: without migrations, as no release has written to this database before."""
    if not inspect(conn.alchemy).has_table(bootstrap.bootstrapped.name):
        metadata.create_all(conn.alchemy)


class Cloud(OrderedService):
    """A cloud as a service. `resource` and `ha_resource` are its trees; with `listen` it serves them itself."""

    # Of a cloud in memory: deleted when nobody refers to the cloud any more.
    _directory: tempfile.TemporaryDirectory[str]

    def __init__(self, config: Config, reactor: Any, *, listen: bool = True) -> None:
        """Raises ConfigError: a driver, a rule or an option that cannot be."""
        config.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        db = Database.open(config.database_url, reactor, config.database.threads)
        self._compose(config, Machinery(reactor, reactor, db, config.state_dir, False), listen)

    @classmethod
    def in_memory(cls, config: Config, clock: IReactorTime) -> Cloud:
        """A cloud without sockets, threads and a database file, driven by a Clock. Its directory is a temporary one."""
        cloud = cls.__new__(cls)
        cloud._directory = tempfile.TemporaryDirectory(prefix="cloudctl-")
        inline = cast(Any, Inline())
        machinery = Machinery(inline, clock, Database.in_memory(clock), Path(cloud._directory.name), True)
        cloud._compose(evolve(config, state_dir=machinery.state_dir), machinery, False)
        return cloud

    def _compose(self, config: Config, machinery: Machinery, listen: bool) -> None:
        super().__init__(machinery.clock, config.server.stop_timeout)
        self.config = config
        self.db = machinery.db
        self._machinery = machinery
        self._lock: IO[str] | None = None
        self.metrics = Metrics()
        self.store = ImageStore(config.state_dir / "images")
        self._threads: list[Service] = []
        self.drivers = self._load_drivers()
        self.engine = Engine(
            self.db,
            self.clock,
            self.drivers,
            exclusive=self.db.is_sqlite,
            slots=config.tasks.slots,
            lease=config.tasks.lease,
            expected=(CloudError, DriverError),
        )
        self.engine.register(cloudctl.network.lifecycle.WORKFLOWS)
        self._backups(config.section(VolumeOptions))
        compute = config.section(ComputeOptions)
        self.engine.register(cloudctl.compute.lifecycle.workflows(compute))
        override = Path(config.policy.file) if config.policy.file else None
        self.policy = policy.load(POLICIES, override)
        self._identity(config.section(IdentityOptions))
        http, server = self._http, config.server
        self.apis: dict[str, ApiApp] = {
            "identity": cloudctl.identity.api.build(
                http,
                self.db,
                self.tokens,
                self.hasher,
                self._credential_keys,
                self.identity_options,
                server.ha_public_url,
            ),
            "image": self._image(config.section(ImageOptions)),
            "networking": cloudctl.network.api.build(
                http, self.db, self.drivers.network, config.drivers.network, config.section(NetworkOptions)
            ),
            "volume": cloudctl.volume.api.build(http, self.db, self.drivers.volume, config.section(VolumeOptions)),
            "compute": cloudctl.compute.api.build(
                http, self.db, self.drivers.hypervisor, compute, config.section(VolumeOptions)
            ),
        }
        self.ha_api = cloudctl.instance_ha.api.build(evolve(http, public_url=server.ha_public_url), self.db)
        self.root_api = cloudctl.identity.api.root(http, [("", Health(self.db)), ("", MetricsPage(self.metrics))])
        self.resource = Tree(self.apis, self.root_api)
        self.ha_resource = self.ha_api.resource(named=False)
        self.uploads = Uploads(self.store.directory, config.section(ImageOptions).max_size, self._admits)
        self.site = CloudSite(self.resource, self.clock, self.uploads, server.idle_timeout)
        self.ha_site = CloudSite(self.ha_resource, self.clock, None, server.idle_timeout)
        self.host_watch = HostWatch(self.clock, self.db, self.drivers.hypervisor, compute)
        checks = {
            "hypervisor": audit.check(self.db, self.drivers.hypervisor),
            "volume": volume_audit.check(self.db, self.drivers.volume),
        }
        self.audit = Audit(self.clock, config.tasks.audit_period, checks)
        self.metrics.registry.register(TaskMetrics(self.engine, self.audit))
        self._order(listen)

    # -- parts

    def _load_drivers(self) -> Drivers:
        chosen = self.config.drivers
        return Drivers(
            hypervisor=loader.load("hypervisor", chosen.hypervisor, *self._driver("hypervisor", chosen.hypervisor)),
            volume=loader.load("volume", chosen.volume, *self._driver("volume", chosen.volume)),
            network=loader.load("network", chosen.network, *self._driver("network", chosen.network)),
            image_path=self.store.path,
        )

    def _driver(self, kind: str, name: str) -> tuple[Mapping[str, Any], DriverResources]:
        table = self.config.driver.get(kind, {}).get(name, {})
        machinery = self._machinery
        directory = None if machinery.in_memory else self.config.state_dir / "drivers" / kind / name
        reactor = None if machinery.in_memory else machinery.reactor
        return table, DriverResources(clock=self.clock, name=name, reactor=reactor, state_dir=directory)

    def _identity(self, options: IdentityOptions) -> None:
        machinery, directory = self._machinery, self.config.state_dir / FERNET_KEYS
        if machinery.in_memory:
            # A test must not wait for a hash that is slow on purpose.
            options = evolve(options, argon2=Argon2(time_cost=1, memory_cost=8, parallelism=1))
            self.hasher = Hasher.inline(options.argon2)
            self.tokens = Tokens(self.db, KeysInMemory(), options)
            self._credential_keys: Keys = KeysInMemory()
        else:
            self.hasher = Hasher.open(options.argon2, machinery.reactor, options.hash_threads, options.hash_queue)
            self.tokens = Tokens(self.db, KeyDirectory(directory), options)
            self._credential_keys = KeyDirectory(self.config.state_dir / CREDENTIAL_KEYS)
        self.identity_options = options
        server = self.config.server
        self._http = Http(
            self.tokens,
            self.policy,
            self.clock,
            self.metrics,
            server.public_url,
            tuple(server.trusted_proxies),
            Answers(self.db),
        )

    def _image(self, options: ImageOptions) -> ApiApp:
        threads, service = self._machinery.threads("images", options.threads)
        if service is not None:
            self._threads.append(service)
        reactor = self._machinery.reactor
        self.engine.register(cloudctl.image.lifecycle.workflows(self.db, self.store, threads, reactor, options))
        return cloudctl.image.api.build(self._http, self.db, self.store, threads, reactor, options)

    def _backups(self, options: VolumeOptions) -> None:
        threads, service = self._machinery.threads("backups", options.backup_threads)
        if service is not None:
            self._threads.append(service)
        directory = Path(options.backup_directory) if options.backup_directory else self.config.state_dir / "backups"
        self.archive = Archive(directory, options.backup_piece)
        archive = ArchiveThreads(self.archive, threads, self._machinery.reactor)
        self.engine.register(cloudctl.volume.lifecycle.workflows(archive))

    def _admits(self, headers: Headers) -> bool:
        token = headers.getRawHeaders("x-auth-token")
        return token is not None and self.tokens.decodable(token[-1])

    def _order(self, listen: bool) -> None:
        """Children start in this order and stop in reverse: listeners first, the database last."""
        self.addService(self.db)
        for service in (self.hasher, *self._threads):
            self.addService(service)
        self.addService(self.host_watch)
        if IGuestMetadata.providedBy(self.drivers.network):
            site_of = guest_metadata.build(self.db, self.store.path)
            self.addService(guest_metadata.MetadataService(self.drivers.network, site_of))
        self.addService(self.engine)
        if IGuestEvents.providedBy(self.drivers.hypervisor):
            self.addService(GuestWatch(self.clock, self.db, self.drivers.hypervisor))
        self.addService(self.audit)
        if listen:
            reactor, server = self._machinery.reactor, self.config.server
            for site, endpoints in ((self.site, server.listen), (self.ha_site, server.ha_listen)):
                for text in endpoints:
                    # `strports` says at once if it cannot listen; an endpoint's service only logs it.
                    self.addService(strports.service(text, site, reactor=reactor))

    # -- before the start

    def prepare(self, passwords: Mapping[str, str | None] | None = None) -> bool:
        """Lock the state directory, bring the schema up to date, check the drivers, fill a new cloud. Blocks.

        Whether it was new. Raises ConfigError.

        `passwords`: of the first users `admin` and `demo`; random ones where missing. They are in clouds.yaml.
        """
        self._lock_state_dir()
        if self._machinery.in_memory:
            self.db.transact(False, _create_tables)
        else:
            for name in (FERNET_KEYS, CREDENTIAL_KEYS):
                keys.ensure(self.config.state_dir / name)
            schema.prepare(self.db)
        for kind in ("hypervisor", "volume", "network"):
            loader.check(getattr(self.drivers, kind), f"driver.{kind}.{getattr(self.config.drivers, kind)}")
        self.store.prepare()
        try:
            self.archive.prepare()
        except OSError as error:
            raise ConfigError([f"volume.backup_directory: {error}"]) from None
        is_new = self._bootstrap(passwords or {})
        # An upload that nobody has written to for so long was closed by its process, or died with it.
        self.uploads.sweep(math.inf if self.db.is_sqlite else self.clock.seconds() - ABANDONED_UPLOAD)
        # Not before the first rows are there: the files that another process writes for them are no leftovers.
        recover(self.db, self.store)
        return is_new

    def _lock_state_dir(self) -> None:
        """Two processes on one SQLite file would each believe the other's tasks to be dead."""
        if not self.db.is_sqlite or self._machinery.in_memory:
            return
        self._lock = (self.config.state_dir / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError([f"state_dir: another cloudctl runs in {self.config.state_dir}"]) from None

    def _bootstrap(self, passwords: Mapping[str, str | None]) -> bool:
        if self.db.transact(True, bootstrap.is_done):
            return False
        chosen = {user: passwords.get(user) or secrets.token_urlsafe(15) for user in ("admin", "demo")}
        hashing = self.hasher.hashing
        has_ha = self.config.server.ha_listen or self.config.server.ha_public_url
        seed = Seed(
            hashing.hash(chosen["admin"]),
            hashing.hash(chosen["demo"]),
            self.identity_options.region,
            without=frozenset() if has_ha else frozenset({"instance-ha"}),
        )
        return bool(self.db.transact(False, self._fill, seed, chosen))

    def _fill(self, conn: Any, seed: Seed, chosen: Mapping[str, str]) -> bool:
        """False if another process, which started at the same time, was first."""
        schema.lock(conn)
        if bootstrap.is_done(conn):
            return False
        self._first_rows(conn, seed)
        if not self._machinery.in_memory:
            # Before the commit: a crash between the two must not leave a cloud whose passwords nobody knows.
            bootstrap.write_clouds_yaml(self.config, chosen, self.identity_options.region)
        return True

    def _first_rows(self, conn: Any, seed: Seed) -> None:
        now = utc(self.clock.seconds())
        made = bootstrap_identity(conn, seed, now)
        bootstrap_image(conn, self.store, made.admin_project_id, now)
        network_options = self.config.section(NetworkOptions)
        has_routers = IRouters.providedBy(self.drivers.network)
        projects = made.admin_project_id, made.demo_project_id
        bootstrap_network(conn, *projects, self.db.now(conn), network_options, has_routers)
        bootstrap_compute(conn, now)
        bootstrap_volume(conn, now, self.config.section(VolumeOptions))
        bootstrap.mark_done(conn, now)
