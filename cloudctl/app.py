"""Cloud: every part of a cloud put together. The only module that knows all services.

    cloud = Cloud(config.build({}, SECTIONS, Path("state")), reactor)
    cloud.prepare()                  # blocks: schema, drivers, first start
    cloud.setServiceParent(application)

An application that has its own site passes `listen=False` and mounts `cloud.resource` (and `cloud.ha_resource`) where
it likes: `root.putChild(b"cloud", cloud.resource)`. One that offers other services, or fewer, passes its own tuple in
place of `SERVICES`.
"""

from __future__ import annotations

import fcntl
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, cast, overload

from attrs import evolve, frozen
from cryptography.fernet import Fernet
from sqlalchemy import inspect
from twisted.internet.interfaces import IReactorTime

import cloudctl.compute.service
import cloudctl.events.service
import cloudctl.identity.service
import cloudctl.image.service
import cloudctl.instance_ha.service
import cloudctl.network.service
import cloudctl.object_store.service
import cloudctl.placement.service
import cloudctl.volume.service
from cloudctl import bootstrap, state_dir
from cloudctl.composition import FirstStart, Part, Service, Surroundings, made, sections
from cloudctl.config import API, ENGINE, ROLES, Config
from cloudctl.db import Connection, Database, schema
from cloudctl.db.columns import metadata, utc
from cloudctl.db.secrets import Seal
from cloudctl.db.threads import Inline
from cloudctl.drivers import hypervisors, loader
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.closing import Closing
from cloudctl.drivers.drivers import Drivers
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IDriver, IElsewhere, IFencer, IHypervisor, IObjectData, IVolumeBackend
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import CloudError, ConfigError
from cloudctl.log_levels import LogLevels
from cloudctl.rest import policy, quota
from cloudctl.rest.admission import Admission
from cloudctl.rest.answers import Answers
from cloudctl.rest.app import ApiApp, ApiResource, Tree
from cloudctl.rest.clients import plain
from cloudctl.rest.connections import Answering, Connections, Listener
from cloudctl.rest.health import Health, MetricsPage
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http
from cloudctl.rest.site import CloudSite
from cloudctl.service import OrderedService
from cloudctl.tasks.audit import Audit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.metrics import TaskMetrics
from cloudctl.tasks.peers import Peers

T = TypeVar("T")

# The services that a cloud offers. Each may use those before it.
SERVICES: tuple[Service, ...] = (
    cloudctl.events.service.SERVICE,
    cloudctl.identity.service.SERVICE,
    cloudctl.object_store.service.SERVICE,
    cloudctl.image.service.SERVICE,
    cloudctl.placement.service.SERVICE,
    cloudctl.network.service.SERVICE,
    cloudctl.volume.service.SERVICE,
    cloudctl.compute.service.SERVICE,
    cloudctl.instance_ha.service.SERVICE,
)
# The sections of the configuration that belong to services.
SECTIONS = sections(SERVICES)


@frozen
class Served:
    """One API tree of a cloud. It is made when it is first used; much of what it needs is imported only then."""

    title: str
    prefix: str  # of its paths: "/compute", or none
    make: Callable[[], ApiApp]  # the same one every time
    apart: Callable[[], ApiApp] | None = None  # the same tree for the root of its own listeners

    @property
    def api(self) -> ApiApp:
        return self.make()


def _create_tables(conn: Connection) -> None:
    """Create all tables at once: without migrations, as no earlier release has written to this database."""
    if not inspect(conn.alchemy).has_table(bootstrap.Bootstrapped.table.name):
        metadata.create_all(conn.alchemy)


def _no_images(image_id: str) -> Path:
    raise LookupError(f"image {image_id}: no service of this cloud keeps images")


def _as_it_is(driver: Any) -> Any:
    """The driver itself: all files of images are on this machine."""
    return driver


def _no_places(conn: Connection, id: str) -> Sequence[str]:
    """No service of this cloud has guests."""
    return ()


def _one(given: Iterable[T | None], what: str) -> T:
    """What exactly one of the services must provide. Raises ValueError."""
    found = [each for each in given if each is not None]
    if len(found) != 1:
        raise ValueError(f"{len(found)} services of this cloud give {what}; one must")
    return found[0]


def _driver(
    config: Config, clock: IReactorTime, reactor: Any, kind: str, name: str
) -> tuple[Mapping[str, Any], DriverResources]:
    """The options of a driver, and what it may use. `reactor`: None in a cloud in memory."""
    table = config.driver.get(kind, {}).get(name, {})
    directory = None if reactor is None else config.data_dir / "drivers" / kind / name
    return table, DriverResources(clock=clock, name=name, reactor=reactor, state_dir=directory)


def _object_data(
    config: Config,
    driver: Callable[[str, str], tuple[Mapping[str, Any], DriverResources]],
    name: str,
    part: str = "",
) -> IObjectData:
    """The store of objects' data. Files stay where they were before drivers existed, also for a cloud in memory."""
    table, resources = driver("objects", name)
    if name == "file":
        resources = evolve(resources, state_dir=config.data_dir / "objects")
    return loader.load("objects", name, table, evolve(resources, part=part))


class Cloud(OrderedService):
    """A cloud as a service. `resource` and `ha_resource` are its trees; with `listen` it serves them itself."""

    # Of a cloud in memory: deleted when nothing refers to the cloud any more.
    _directory: tempfile.TemporaryDirectory[str]
    _log_levels: LogLevels | None

    def __init__(
        self,
        config: Config,
        reactor: Any,
        *,
        listen: bool = True,
        services: Sequence[Service] = SERVICES,
        log_levels: LogLevels | None = None,
    ) -> None:
        """Raises ConfigError if a driver, a rule or an option is impossible. `log_levels`: the filter of its log."""
        self._log_levels = log_levels
        state_dir.prepare(config.state_dir)
        if config.data_dir != config.state_dir:
            state_dir.prepare(config.data_dir, "server.data_dir")
        if not config.database.url:
            state_dir.touch_database(config.state_dir)
        db = Database.open(config.database_url, reactor, config.database.threads, config.server.stop_timeout)
        self._compose(config, services, db, reactor, reactor, in_memory=False)
        self._order(listen)

    @classmethod
    def in_memory(
        cls,
        config: Config,
        clock: IReactorTime,
        *,
        services: Sequence[Service] = SERVICES,
        log_levels: LogLevels | None = None,
        db: Database | None = None,
    ) -> Cloud:
        """A cloud without sockets, threads or a database file, driven by a Clock, in a temporary directory.

        `db`: in memory, too; without it, a new one.
        """
        cloud = cls.__new__(cls)
        cloud._log_levels = log_levels
        cloud._directory = tempfile.TemporaryDirectory(prefix="cloudctl-")
        config = evolve(config, state_dir=Path(cloud._directory.name))
        db = db or Database.in_memory(clock)
        cloud._compose(config, services, db, cast(Any, Inline()), clock, in_memory=True)
        cloud._order(listen=False)
        return cloud

    def _compose(
        self,
        config: Config,
        services: Sequence[Service],
        db: Database,
        reactor: Any,
        clock: IReactorTime,
        *,
        in_memory: bool,
    ) -> None:
        super().__init__(clock, config.server.stop_timeout)
        self.config = config
        self.db = db
        self.offered = tuple(services)
        self._reactor = reactor
        self._in_memory = in_memory
        self._lock: IO[str] | None = None
        self.seal = Seal.of([Fernet.generate_key()] if in_memory else config.sealing_keys())
        self.metrics = Metrics()
        self.policy = policy.load(
            [service.package for service in services], Path(config.policy.file) if config.policy.file else None
        )
        self.parts, self.drivers = self._parts()
        self.engine = Engine(
            self.db,
            self.clock,
            self.drivers,
            [workflow for part in self.parts for workflow in part.workflows],
            exclusive=self.db.is_sqlite,
            slots=config.tasks.slots,
            lease=config.tasks.lease,
            expected=(CloudError, DriverError),
        )
        checks = {name: check for part in self.parts for name, check in part.checks.items()}
        checks["totals"] = quota.check_totals(self.db)
        self.audit = Audit(self.clock, config.tasks.audit_period, checks)
        self.metrics.add(TaskMetrics(self.engine, self.audit))
        for part in self.parts if ENGINE in config.server.roles else ():
            for source in part.metrics:
                self.metrics.ask(source)
        self._serve()

    # -- parts

    def made(self, kind: type[T]) -> T:
        """What a service made and shows to others, by its class: `cloud.made(ImageStore)`. Raises LookupError."""
        return made(self.parts, kind)

    def _parts(self) -> tuple[tuple[Part, ...], Drivers]:
        """The parts of all services, and the drivers that they share."""
        chosen = self.config.drivers
        loader.check_sections(self.config.driver, chosen.sections)
        self._driver = partial(_driver, self.config, self.clock, None if self._in_memory else self._reactor)
        self._hypervisors = self._chosen("hypervisor", chosen.hypervisor)
        hypervisor = self._one_hypervisor()
        self._volumes = self._chosen("volume", chosen.volume)
        network = loader.load("network", chosen.network, *self._driver("network", chosen.network))
        fencers = {name: self._fencer(name, hypervisor) for name in chosen.fencers}
        # Not a method: services keep it, and with it they would keep alive a cloud that nothing else refers to.
        contents = partial(_object_data, self.config, self._driver)
        self._objects = contents(chosen.objects)
        self._bus = loader.load("bus", chosen.bus, *self._driver("bus", chosen.bus))
        surroundings = Surroundings(
            self.config,
            self._reactor,
            self.clock,
            self.db,
            self._in_memory,
            hypervisor,
            self._volumes,
            network,
            self._objects,
            contents,
            self.seal,
            self._bus,
            self.policy,
            log_levels=self._log_levels,
        )
        parts: tuple[Part, ...] = ()
        for service in self.offered:
            parts += (service.compose(evolve(surroundings, parts=parts)),)
        self._places = next((part.places for part in parts if part.places is not None), _no_places)
        image_path = next((part.image_path for part in parts if part.image_path is not None), _no_images)
        volume = next((part.volume for part in parts if part.volume is not None), next(iter(self._volumes.values())))
        near = next((part.near for part in parts if part.near is not None), _as_it_is)
        volumes = volume.each(near) if isinstance(volume, Backends) else near(volume)
        return parts, Drivers(near(hypervisor), volumes, network, image_path, fencers)

    @overload
    def _chosen(self, kind: Literal["hypervisor"], names: str | Mapping[str, str]) -> dict[str, IHypervisor]: ...
    @overload
    def _chosen(self, kind: Literal["volume"], names: str | Mapping[str, str]) -> dict[str, IVolumeBackend]: ...
    def _chosen(self, kind: Any, names: str | Mapping[str, str]) -> Any:
        """The drivers, by their names in [drivers]; a single one has the name ""."""
        if isinstance(names, str):
            return {"": loader.load(kind, names, *self._driver(kind, names))}
        return {
            name: loader.load(kind, driver, *self._driver(kind, name), options=name) for name, driver in names.items()
        }

    def _fencer(self, name: str, hypervisor: IHypervisor) -> IFencer:
        """A fencer, which is given the drivers that it cuts hosts off from."""
        table, resources = self._driver("fencer", name)
        return loader.load(
            "fencer", name, table, evolve(resources, hypervisor=hypervisor, volumes=tuple(self._volumes.values()))
        )

    def _one_hypervisor(self) -> IHypervisor:
        """The hypervisor with all guests: the single driver itself, or all of them as one."""
        if len(self._hypervisors) == 1:
            return next(iter(self._hypervisors.values()))

        async def places(server_id: str) -> Sequence[str]:
            return await self.db.read(self._places, server_id)

        return hypervisors.as_one(self._hypervisors, places)

    def _serve(self) -> None:
        """Make the API trees. A process without the role for them serves only its health and metrics."""
        server = self.config.server
        authenticator = _one((part.authenticator for part in self.parts), "an authenticator")
        root = _one((part.root for part in self.parts), "the root")
        proxies = tuple(map(plain, server.trusted_proxies))
        http = Http(
            authenticator,
            self.policy,
            self.clock,
            self.metrics,
            server.public_url,
            proxies,
            Answers(self.db),
            Admission(self.config.admission, proxies) if self.config.admission.rates else None,
        )
        own = [("", Health(self.db)), ("", MetricsPage(self.metrics))]
        self.root_api = root(http, own)
        self.served: tuple[Served, ...] = ()
        if API in server.roles:
            self.served = tuple(self._trees(http))
        else:
            # Its own pages only, and no way to an API.
            self.root_api = ApiApp(self.root_api.pipeline, own)
        made = {each.prefix[1:]: each.make for each in self.served}
        hosts = {mount: other.hosts for part in self.parts for mount, other in part.beside.items()} if made else {}
        self.resource = Tree(made, self.root_api, hosts)
        nothing = cache(partial(ApiApp, self.root_api.pipeline, []))
        apart = next((each.apart for each in self.served if each.apart is not None), nothing)
        self.ha_resource = ApiResource(apart, named=False)
        self.uploads = {
            mount: part.uploads
            for service, part in zip(self.offered, self.parts, strict=True)
            for mount in (service.mount, *part.beside)
            if part.uploads is not None
        }
        self.connections = Connections(self.clock, self.config.admission, proxies)
        self.site = CloudSite(self.resource, self.clock, self.uploads, server.idle_timeout, self.connections)
        self.ha_site = CloudSite(self.ha_resource, self.clock, None, server.idle_timeout, self.connections)

    def _trees(self, http: Http) -> Iterator[Served]:
        apart = evolve(http, public_url=self.config.server.ha_public_url)
        for service, part in zip(self.offered, self.parts, strict=True):
            alone = cache(partial(part.api, apart)) if service.apart else None
            yield Served(service.title, f"/{service.mount}", cache(partial(part.api, http)), alone)
            for mount, other in part.beside.items():
                yield Served(f"{service.title}: {mount}", f"/{mount}", cache(partial(other.api, http)))

    @property
    def apis(self) -> dict[str, ApiApp]:
        """The APIs by the first segment of their paths. Makes all of them."""
        return {each.prefix[1:]: each.api for each in self.served}

    def _order(self, listen: bool) -> None:
        """Children start in this order and stop in reverse: listeners first, the database last."""
        reactor, server = self._reactor, self.config.server
        self.addService(self.db)
        # The bus is closed by the service that sends to it.
        drivers: tuple[IDriver, ...] = (self.drivers.network, self._objects, *self.drivers.fencers.values())
        for driver in (*self._hypervisors.values(), *self._volumes.values(), *drivers):
            self.addService(Closing(driver))
        for part in self.parts:
            for service in part.supports:
                self.addService(service)
        if ENGINE in server.roles:
            for part in self.parts:
                for service in part.watches:
                    self.addService(service)
            if self.db.line is not None:
                self.addService(Peers(self.db, self.db.line, self.engine.owner))
            self.addService(self.engine)
            self.addService(self.audit)
        sites = [(self.site, "listen", server.listen)]
        if any(each.apart is not None for each in self.served):
            sites.append((self.ha_site, "ha_listen", server.ha_listen))
        if listen:
            self.addService(Answering(self.connections))
        for site, option, endpoints in sites if listen else ():
            for text in endpoints:
                self.addService(Listener(f"server.{option}", text, site, reactor))

    # -- before the start

    def prepare(self, passwords: Mapping[str, str | None] | None = None) -> bool:
        """Lock the state directory, bring the schema up to date, check the drivers, fill a new cloud. Blocks.

        Returns whether it was new. Raises ConfigError.

        `passwords`: of the first users `admin` and `demo`, random where missing. They are written to clouds.yaml.
        """
        self._lock_state_dir()
        if self._in_memory:
            self.db.transact(False, _create_tables)
        else:
            schema.prepare(self.db)
        chosen = self.config.drivers
        for name, driver in self._hypervisors.items():
            loader.check(driver, f"driver.hypervisor.{name or chosen.hypervisor}")
        for name, backend in self._volumes.items():
            loader.check(backend, f"driver.volume.{name or chosen.volume}")
        loader.check(self.drivers.network, f"driver.network.{chosen.network}")
        loader.check(self._objects, f"driver.objects.{chosen.objects}")
        loader.check(self._bus, f"driver.bus.{chosen.bus}")
        for name, fencer in self.drivers.fencers.items():
            loader.check(fencer, f"driver.fencer.{name}")
        for part in self.parts:
            part.prepare()
        is_new = self._bootstrap(passwords or {})
        if not self._in_memory:
            self._settle()
        for part in self.parts:
            part.recover()
        return is_new

    def _lock_state_dir(self) -> None:
        """Two processes on one SQLite file would each believe the other's tasks to be dead."""
        if not self.db.is_sqlite or self._in_memory:
            return
        if set(self.config.server.roles) != set(ROLES):
            raise ConfigError(["server.roles: with SQLite one process has the database, so it must have every role"])
        self._lock = (self.config.state_dir / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError([f"state_dir: another cloudctl is already running in {self.config.state_dir}"]) from None

    def _settle(self) -> None:
        """Check that this process shares the cloud's data directory; write its clouds.yaml. Raises ConfigError."""
        cloud_id = self.db.transact(False, bootstrap.identified, self.config.data_dir)
        state_dir.belongs_to(self.config.data_dir, cloud_id, self._keeping(), alone=self.db.is_sqlite)
        if not (self.config.state_dir / bootstrap.CLOUDS_YAML).exists():
            passwords = self.db.transact(True, bootstrap.kept_passwords, self.seal)
            if passwords is not None:
                bootstrap.write_clouds_yaml(self.config, passwords)

    def _keeping(self) -> Sequence[str]:
        """The options that put into the data directory something that other processes need."""
        chosen = self.config.drivers
        drivers: dict[str, object] = {
            **{f"drivers.hypervisor ({name or chosen.hypervisor})": each for name, each in self._hypervisors.items()},
            **{f"drivers.volume ({name or chosen.volume})": each for name, each in self._volumes.items()},
            f"drivers.network ({chosen.network})": self.drivers.network,
            f"drivers.objects ({chosen.objects})": self._objects,
        }
        here = [name for name, each in drivers.items() if not (IElsewhere.providedBy(each) and each.elsewhere)]
        return [*here, *(option for part in self.parts for option in part.keeps)]

    def _bootstrap(self, passwords: Mapping[str, str | None]) -> bool:
        if self.db.transact(True, bootstrap.is_done):
            return False
        chosen = {user: passwords.get(user) or secrets.token_urlsafe(15) for user in ("admin", "demo")}
        return bool(self.db.transact(False, self._fill, chosen))

    def _fill(self, conn: Connection, chosen: Mapping[str, str]) -> bool:
        """False if another process that started at the same time was first."""
        schema.lock(conn)
        if bootstrap.is_done(conn):
            return False
        catalog = tuple(entry for service in self.offered for entry in service.catalog)
        first = FirstStart(utc(self.clock.seconds()), chosen, catalog)
        for part in self.parts:
            part.bootstrap(conn, first)
        bootstrap.mark_done(conn, first.now)
        if not self._in_memory:
            bootstrap.identified(conn, self.config.data_dir)
            bootstrap.keep_passwords(conn, self.seal, chosen)
            # Before the commit: a crash between the two must not leave a cloud whose passwords nobody knows.
            bootstrap.write_clouds_yaml(self.config, chosen)
        return True
