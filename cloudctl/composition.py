"""The contract between services and a cloud: the value that a service exports, and what a cloud gives it.

Each service exports one `Service` as `SERVICE` in its module `service`, and `app.SERVICES` is the tuple of them. Its
`compose` makes the service's `Part` of one cloud from the cloud's `Surroundings`. What a service needs for itself (a
file store, threads, a watch) it makes there, and the cloud knows only what the Part exposes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen
from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTime

from cloudctl.config import Config
from cloudctl.db import Connection, Database
from cloudctl.db.ended import Ended
from cloudctl.db.secrets import Seal
from cloudctl.db.threads import Inline, Threads
from cloudctl.drivers.interfaces import IBus, IHypervisor, INetworkBackend, IObjectData, IVolumeBackend
from cloudctl.log_levels import LogLevels
from cloudctl.rest.app import ApiApp
from cloudctl.rest.identity import Authenticator
from cloudctl.rest.metrics import Source
from cloudctl.rest.pipeline import Http
from cloudctl.rest.policy import Policy
from cloudctl.rest.uploads import Uploads
from cloudctl.service import ThreadsService
from cloudctl.tasks import Workflow
from cloudctl.tasks.audit import Check

T = TypeVar("T")


@frozen
class CatalogEntry:
    """A service as clients find it. `url` is a template: `{base_url}/image`; see `identity.catalog`."""

    type: str
    name: str
    url: str


@frozen
class FirstStart:
    """What is known when a new cloud gets its first rows."""

    now: datetime  # naive UTC
    passwords: Mapping[str, str]  # of the users `admin` and `demo`
    catalog: tuple[CatalogEntry, ...]  # of all services that are offered


@frozen
class Surroundings:
    """What a cloud gives to a service. `reactor` is where threads hand back their results, or a stand-in for it."""

    config: Config
    reactor: Any
    clock: IReactorTime
    db: Database
    in_memory: bool  # no threads, no sockets, and no files outside a temporary directory
    hypervisor: IHypervisor
    volumes: Mapping[str, IVolumeBackend]  # by their names in [drivers]; a single driver has the name ""
    network: INetworkBackend
    objects: IObjectData
    contents: Callable[[str, str], IObjectData]  # (objects driver, whose data) → a store beside that of the objects
    seal: Seal  # of secrets in the database
    bus: IBus
    policy: Policy
    parts: tuple[Part, ...] = ()  # of the services before this one
    log_levels: LogLevels | None = None  # None: the log levels of this process cannot be changed

    def made(self, kind: type[T]) -> T:
        """What an earlier service made and shows to others. Raises LookupError."""
        return made(self.parts, kind)

    @property
    def authenticator(self) -> Authenticator:
        """The authenticator of an earlier service. Raises LookupError."""
        for part in self.parts:
            if part.authenticator is not None:
                return part.authenticator
        raise LookupError("no service before this one says who asks")

    def threads(self, name: str, most: int) -> tuple[Threads, tuple[IService, ...]]:
        """Threads for one kind of blocking work, and the services that keep them alive, for `Part.supports`."""
        if self.in_memory:
            return Inline(), ()
        service = ThreadsService(name, most, self.reactor)
        return service.pool, (service,)


def nothing() -> None:
    """For a part that needs no such step."""


def no_rows(conn: Connection, first: FirstStart) -> None:
    """For a service that has no rows in a new cloud."""


@frozen
class Beside:
    """Another API of a service. `hosts`: host names of its own, at which its paths begin at the root."""

    api: Callable[[Http], ApiApp]
    hosts: tuple[str, ...] = ()


@frozen
class Part:
    """A service in one cloud.

    `api` is called by the first request for it and imports its modules only then, so a start does not wait for them.

    `root` is set by the service that answers at the root of the cloud's site; it is given what else is mounted there.
    """

    api: Callable[[Http], ApiApp]
    workflows: Sequence[Workflow] = ()
    checks: Mapping[str, Check] = field(factory=dict)  # of the audit
    # Called in this order before the start, outside the reactor. `prepare` raises ConfigError.
    prepare: Callable[[], None] = nothing
    bootstrap: Callable[[Connection, FirstStart], None] = no_rows  # in the transaction of all first rows
    recover: Callable[[], None] = nothing  # from what a killed process left behind
    # What both the API and tasks need, such as threads: started first, stopped last.
    supports: Sequence[IService] = ()
    # What watches the backends and serves their guests: runs where tasks run, and starts before the first of them.
    watches: Sequence[IService] = ()
    # What /metrics shows of it where tasks run: collected at each scrape.
    metrics: Sequence[Source] = ()
    # What other services may use; they find it by its class.
    shown: Sequence[object] = ()
    # What a cloud needs from one of its services.
    authenticator: Authenticator | None = None
    image_path: Callable[[str], Path] | None = None  # for its drivers: image id → the file with its data
    near: Callable[[Any], Any] | None = None  # a driver → one that finds these files on its machine when it reads them
    keeps: Sequence[str] = ()  # the options that make it keep in the data directory what other processes need
    # For its drivers: guest id → the hosts that it may be on, the intended one first.
    places: Callable[[Connection, str], Sequence[str]] | None = None
    volume: IVolumeBackend | None = None  # for its drivers: all volume backends as one
    root: Callable[[Http, Sequence[tuple[str, Any]]], ApiApp] | None = None
    uploads: Uploads | None = None
    # Other APIs over the same data, by the first segment of their paths.
    beside: Mapping[str, Beside] = field(factory=dict)


@frozen
class Service:
    """A service as the package exports it; the same value for every cloud."""

    package: str  # "cloudctl.image"; `policy.toml` and the module `tables` are in it
    title: str  # for people: "Image"
    compose: Callable[[Surroundings], Part]
    mount: str = ""  # the first segment of its paths
    apart: bool = False  # also served at the root of its own listeners, [server] ha_listen
    options: type | None = None  # its section of the configuration, named after it
    catalog: tuple[CatalogEntry, ...] = ()
    ended: tuple[Ended, ...] = ()  # its rows that outlive their use, in the order in which they are deleted

    def __attrs_post_init__(self) -> None:
        # Its API is imported only by the first request, and a table that is not imported is in no schema.
        if find_spec(f"{self.package}.tables") is not None:
            import_module(f"{self.package}.tables")

    @property
    def name(self) -> str:
        """The name of its section and of its rules: "image"."""
        return self.package.rpartition(".")[2]


def made(parts: Iterable[Part], kind: type[T]) -> T:
    """The one thing of this class that the parts show. Raises LookupError."""
    found = [each for part in parts for each in part.shown if isinstance(each, kind)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} services of this cloud made a {kind.__name__}")
    return found[0]


def sections(services: Iterable[Service]) -> dict[str, type]:
    """Their sections of the configuration, for `config.build`."""
    return {service.name: service.options for service in services if service.options is not None}
