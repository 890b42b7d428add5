"""The configuration: a TOML file and the command line → one frozen Config. All problems are reported at once.

`etc/cloudctl.toml` shows each option with its default. A service has its own section, described by the class that its
`Service` names; a driver's options are in `[driver.KIND.NAME]` and read by the driver.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import field, frozen
from cryptography.fernet import Fernet
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from cloudctl import state_dir
from cloudctl.errors import ConfigError
from cloudctl.options import parts_of, positive, structure

T = TypeVar("T")

# Clients find the version in a URL by the first «v» that a digit or a dot follows: discovery.md, section 1.
LOOKS_LIKE_A_VERSION = re.compile(r"/[^/]*v[\d.]")


# The roles that a process can have.
API, ENGINE = "api", "engine"
ROLES = (API, ENGINE)


def are_roles(_instance: object, attribute: Any, value: list[str]) -> None:
    unknown = sorted(set(value) - set(ROLES))
    if unknown or not value:
        raise ValueError(f"must be some of {', '.join(ROLES)}")


def is_public_url(_instance: object, attribute: Any, value: str) -> None:
    if not value:
        return
    scheme, _, rest = value.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/") or any(c in value for c in " ?#"):
        raise ValueError("must look like https://cloud.example.com/prefix")
    parts_of(value)
    if LOOKS_LIKE_A_VERSION.search(rest.partition("/")[1] + rest.partition("/")[2]):
        raise ValueError("part of its path looks like an API version (v and a digit), which would mislead clients")


def are_addresses(_instance: object, attribute: Any, value: list[str]) -> None:
    for text in value:
        try:
            ip_address(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is not an address such as 10.0.0.7: a name or a network matches no proxy"
            ) from None


def without_slash(url: str) -> str:
    """Paths are put after it."""
    return url.rstrip("/")


def is_database_url(_instance: object, attribute: Any, value: str) -> None:
    if not value:
        return
    try:
        url = make_url(value)
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ValueError("must begin with postgresql+psycopg:// or sqlite:///: there are no other databases")
        url.get_dialect().import_dbapi()
    except ImportError as error:
        raise ValueError(f"{error}; postgresql+psycopg:// needs the extra: pip install cloudctl[postgresql]") from None
    except ArgumentError as error:
        raise ValueError(str(error)) from None


def are_fernet_keys(_instance: object, attribute: Any, value: list[str]) -> None:
    for number, key in enumerate(value, 1):
        try:
            Fernet(key)
        except ValueError:
            raise ValueError(f"number {number} is no Fernet key: `cloudctl keys new` prints one") from None


@frozen
class Address:
    """Where clients connect, according to an endpoint string."""

    scheme: str  # http, https
    host: str
    port: int


def address(endpoints: Iterable[str]) -> Address | None:
    """The address of the first endpoint that has a port; None if there is none."""
    for endpoint in endpoints:
        kind, *arguments = endpoint.replace("\\:", "\0").split(":")
        named = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        port = named.get("port") or next((argument for argument in arguments if argument.isdigit()), "")
        if kind in ("tcp", "ssl") and port.isdigit():
            host = named.get("interface", "127.0.0.1").replace("\0", ":")
            return Address("https" if kind == "ssl" else "http", host, int(port))
    return None


@frozen
class ServerOptions:
    """[server]"""

    # What this process does: answer calls, work on tasks. Other processes on the same database must do the rest.
    roles: list[str] = field(factory=lambda: list(ROLES), validator=are_roles)
    # Twisted endpoint strings: tcp:8780:interface=127.0.0.1, ssl:…, unix:… (see the documentation of serverFromString).
    listen: list[str] = field(factory=lambda: ["tcp:8780:interface=127.0.0.1"])
    # The same for the instance-HA API by itself; an empty list: it is served only beside the others, at /instance-ha.
    ha_listen: list[str] = field(factory=lambda: ["tcp:15868:interface=127.0.0.1"])
    # The address in the catalog; needed behind a reverse proxy. Empty: that of each request's Host header.
    public_url: str = field(default="", validator=is_public_url, converter=without_slash)
    ha_public_url: str = field(default="", validator=is_public_url, converter=without_slash)
    # Addresses of proxies whose X-Forwarded-Proto, -Host and -Prefix are believed.
    trusted_proxies: list[str] = field(factory=list, validator=are_addresses)
    # Where images, backups, objects and drivers' data are: the same for all processes. Empty: the state directory.
    data_dir: str = ""
    # Seconds after which an idle connection is closed.
    idle_timeout: float = field(default=65.0, validator=positive)
    # Seconds that each part may take to stop.
    stop_timeout: float = field(default=20.0, validator=positive)

    @property
    def ha_url(self) -> str:
        """Where clients reach the instance-HA API. `{scheme}` and `{host}` are those of the other APIs.

        Empty: it is served only beside them.
        """
        found = address(self.ha_listen)
        if self.ha_public_url or found is None:
            return self.ha_public_url
        return f"{'https' if found.scheme == 'https' else '{scheme}'}://{{host}}:{found.port}"


@frozen
class AdmissionOptions:
    """[admission]: how much clients may ask for. Limits per address do not apply to `trusted_proxies`."""

    # Connections at once.
    connections: int = field(default=2000, validator=positive)
    connections_per_address: int = field(default=500, validator=positive)
    # Seconds in which the head of a request must arrive.
    header_timeout: float = field(default=20.0, validator=positive)
    # Bytes per second at which a body must arrive on average, once it has taken longer than this many seconds.
    body_rate: float = field(default=1024.0, validator=positive)
    body_patience: float = field(default=30.0, validator=positive)
    # Bytes of bodies in memory that have not arrived in full.
    body_memory: int = field(default=2**26, validator=positive)
    body_memory_per_address: int = field(default=2**24, validator=positive)
    # Whether requests are counted, and answered 429 over these rates.
    rates: bool = False
    # Requests per second, and how many may come at once after a rest: of one project, and of one address.
    project_rate: float = field(default=50.0, validator=positive)
    project_burst: float = field(default=200.0, validator=positive)
    address_rate: float = field(default=100.0, validator=positive)
    address_burst: float = field(default=400.0, validator=positive)


@frozen
class DatabaseOptions:
    """[database]"""

    # An SQLAlchemy URL, e.g. postgresql+psycopg://user:password@host/name. Empty: SQLite in the state directory.
    url: str = field(default="", validator=is_database_url, repr=False)
    threads: int = field(default=8, validator=positive)
    # Fernet keys that seal secrets in the database: the first one seals, any opens. Empty: the one in the file
    # sealing-key in the state directory.
    sealing_keys: list[str] = field(factory=list, validator=are_fernet_keys, repr=False)


@frozen
class TaskOptions:
    """[tasks]"""

    # How many tasks run at once in this process. One project gets at most three quarters of the slots others leave.
    slots: int = field(default=32, validator=positive)
    # Seconds after which another process takes over the tasks of one that is stuck.
    lease: float = field(default=30.0, validator=positive)
    # Seconds between two comparisons of the backends with the database.
    audit_period: float = field(default=300.0, validator=positive)


@frozen
class PolicyOptions:
    """[policy]"""

    # A TOML file of rules that override the shipped ones. Empty: none.
    file: str = ""


def filled(_options: Any, _option: Any, value: str | dict[str, str]) -> None:
    """Raises ValueError for a table without a driver, or with a name that cannot be part of a host's."""
    if isinstance(value, dict) and (not value or any(not name or set(name) & set("@#") for name in value)):
        raise ValueError("must name at least one driver, and no name may hold @ or #")


@frozen
class DriversOptions:
    """[drivers]: which driver of each kind; `cloudctl drivers` lists what is installed."""

    # One driver; or several side by side, each with a name and its driver: { here = "qemu", rack = "libvirt" }. The
    # options of each are in [driver.hypervisor.NAME]. No two may have hosts of the same name.
    hypervisor: str | dict[str, str] = field(default="fake", validator=filled)
    # One driver; or several backends, each with a name and its driver: { fast = "nbd", large = "qcow2" }. The options
    # of a backend are in [driver.volume.NAME]. Types choose by `volume_backend_name`.
    volume: str | dict[str, str] = field(default="fake", validator=filled)
    network: str = "fake"
    # What proves that a host is off before its servers run elsewhere: one driver, or several, tried in order until one
    # can. Empty: "fake" if the hypervisor is "fake"; otherwise nothing but an operator's word.
    fencer: str | list[str] = ""
    # Where the data of objects is kept.
    objects: str = "file"

    # How services tell one another what happened: "internal", or "amqp" for a broker that others share.
    bus: str = "internal"

    @property
    def fencers(self) -> list[str]:
        """The names of all of them, in the order in which they are tried."""
        if not self.fencer:
            return ["fake"] if self.hypervisor == "fake" else []
        return [self.fencer] if isinstance(self.fencer, str) else self.fencer

    @property
    def sections(self) -> dict[str, dict[str, str]]:
        """KIND → the names of the sections that are read, each with its driver."""
        chosen = {each.name: getattr(self, each.name) for each in attrs.fields(DriversOptions)}
        chosen["fencer"] = {name: name for name in self.fencers}
        return {kind: {names: names} if isinstance(names, str) else dict(names) for kind, names in chosen.items()}


@frozen
class Config:
    state_dir: Path
    server: ServerOptions = field(factory=ServerOptions)
    admission: AdmissionOptions = field(factory=AdmissionOptions)
    database: DatabaseOptions = field(factory=DatabaseOptions)
    tasks: TaskOptions = field(factory=TaskOptions)
    policy: PolicyOptions = field(factory=PolicyOptions)
    drivers: DriversOptions = field(factory=DriversOptions)
    # The sections of the services, by name.
    services: Mapping[str, Any] = field(factory=dict)
    # KIND → NAME → table.
    driver: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(factory=dict)

    def section(self, kind: type[T]) -> T:
        """The section of a service by its class; its defaults if the file has none."""
        for value in self.services.values():
            if isinstance(value, kind):
                return value
        return kind()

    @property
    def data_dir(self) -> Path:
        return Path(self.server.data_dir).absolute() if self.server.data_dir else self.state_dir

    def sealing_keys(self) -> list[str]:
        """As configured, or the state directory's own key, which is made when it is first needed."""
        return self.database.sealing_keys or [state_dir.sealing_key(self.state_dir)]

    @property
    def database_url(self) -> str:
        return self.database.url or f"sqlite:///{(self.state_dir / state_dir.DATABASE).absolute()}"


KERNEL: dict[str, Any] = {
    "server": ServerOptions,
    "admission": AdmissionOptions,
    "database": DatabaseOptions,
    "tasks": TaskOptions,
    "policy": PolicyOptions,
    "drivers": DriversOptions,
}


def read(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: {error}"]) from None


def take_state_dir(tables: dict[str, Any], chosen: str | Path | None) -> Path:
    """`chosen` on the command line, or what the file has, which is taken out of its tables. Raises ConfigError."""
    found = tables.pop("state_dir", "")
    if not isinstance(found, str):
        raise ConfigError(["state_dir: must be a string"])
    return Path(chosen or found or "state").absolute()


def build(
    tables: Mapping[str, Any], services: Mapping[str, Any], state_dir: Path, overrides: Mapping[str, Any] | None = None
) -> Config:
    """`services`: section name → attrs class. `overrides`: values of [server] from the command line.

    Raises ConfigError with all problems.
    """
    problems: list[str] = []
    sections = {**KERNEL, **services}
    known = {*sections, "driver", "state_dir"}
    problems += [
        f"{name}: unknown section; valid sections: {', '.join(sorted(known))}" for name in tables.keys() - known
    ]
    made: dict[str, Any] = {}
    for name, kind in sections.items():
        table = tables.get(name, {})
        if name == "server" and isinstance(table, dict):
            table = {**table, **(overrides or {})}
        try:
            made[name] = structure(kind, table, name)
        except ConfigError as error:
            problems += error.problems
    driver = tables.get("driver", {})
    problems += _misplaced(driver)
    if problems:
        raise ConfigError(sorted(problems))
    return Config(
        state_dir=state_dir,
        services={name: made[name] for name in services},
        driver=driver,
        **{name: made[name] for name in KERNEL},
    )


def _misplaced(driver: Any) -> list[str]:
    if not isinstance(driver, dict):
        return ["driver: must be a table"]
    kinds = [attribute.name for attribute in attrs.fields(DriversOptions)]
    problems = [
        f"driver.{kind}: unknown kind of driver; valid kinds: {', '.join(kinds)}"
        for kind in driver
        if kind not in kinds
    ]
    for kind in kinds:
        names = driver.get(kind, {})
        if not isinstance(names, dict) or not all(isinstance(table, dict) for table in names.values()):
            problems.append(f"driver.{kind}: must contain one table per driver: [driver.{kind}.NAME]")
    return problems
