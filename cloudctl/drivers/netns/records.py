"""What is wanted, stored on disk: after a restart, or a reboot of the machine, everything is recreated from it.

Only one process uses a state directory, so the files are read once. A file is written beside its place and renamed: a
process that is killed leaves the old record or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Generic, TypeVar

import orjson
from attrs import define, field, frozen
from cattrs import Converter

from cloudctl.drivers.errors import DriverError, NoCapacity, Unreachable
from cloudctl.drivers.netns.names import written
from cloudctl.drivers.specs import NetworkSpec, PortSpec, RouterSpec, SecurityGroupSpec

T = TypeVar("T")

converter = Converter()

# By what ports are looked up, and its id.
NETWORK, HOST, GROUP = "network", "host", "group"
Place = tuple[str, str]

INDEX_LIMIT = 65535  # what fits into half a packet mark, and into a conntrack zone


@frozen
class Network:
    spec: NetworkSpec
    index: int  # its conntrack zone, on all hosts


@frozen
class Port:
    spec: PortSpec
    hosts: tuple[str, ...]  # sorted
    index: int  # in packet marks, on all hosts


@frozen
class Narrowed:
    """A port or a group that allows less than before, or is gone; what was left behind is still to be removed."""

    ports: tuple[PortSpec, ...]  # as they were: the port, or those of the group


@frozen
class Surrendered:
    """A router has outside addresses that it no longer translates as before; what goes by them is still to be cut."""

    addresses: tuple[str, ...]


@define(eq=False)
class Table(Generic[T]):
    """Records of one type by id, in `path` if there is one."""

    cls: type[T]
    path: Path | None
    rows: dict[str, T] = field(factory=dict)

    def load(self) -> None:
        """Raises DriverError, which names the file, if a file is damaged."""
        if self.path is None or not self.path.is_dir():
            return
        for file in self.path.glob("*.json"):
            try:
                id, record = orjson.loads(file.read_bytes())
                self._keep(id, converter.structure(record, self.cls))
            except Exception as error:  # whatever is wrong with the file, its name is what the operator needs
                raise DriverError(f"{file} is damaged: {error}") from error

    def get(self, id: str) -> T | None:
        return self.rows.get(id)

    def values(self) -> list[T]:
        """All records, sorted by id."""
        return [self.rows[id] for id in sorted(self.rows)]

    def put(self, id: str, record: T) -> None:
        """Raises NoCapacity, Unreachable."""
        if self.rows.get(id) == record:
            return
        if self.path is not None:
            write(self._file(self.path, id), orjson.dumps([id, converter.unstructure(record)]))
        self._keep(id, record)

    def delete(self, id: str) -> None:
        """Raises Unreachable."""
        if self.path is not None:
            file = self._file(self.path, id)
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise Unreachable(f"{file} cannot be removed: {error.strerror}") from error
        self._drop(id)

    def _keep(self, id: str, record: T) -> None:
        self.rows[id] = record

    def _drop(self, id: str) -> T | None:
        return self.rows.pop(id, None)

    def _file(self, path: Path, id: str) -> Path:
        return path / f"{written(id)}.json"


@define(eq=False)
class Ports(Table[Port]):
    """There are many ports, and every turn of a host needs those of each network: an index finds them."""

    _at: dict[Place, dict[str, Port]] = field(factory=dict)

    def at(self, kind: str, id: str) -> Mapping[str, Port]:
        """The ports of a network or a group, or those on a host, by id."""
        return self._at.get((kind, id), {})

    def _keep(self, id: str, record: Port) -> None:
        self._drop(id)
        super()._keep(id, record)
        for place in _places(record):
            self._at.setdefault(place, {})[id] = record

    def _drop(self, id: str) -> Port | None:
        gone = super()._drop(id)
        for place in _places(gone) if gone is not None else ():
            del self._at[place][id]
            if not self._at[place]:
                del self._at[place]
        return gone


def _places(port: Port) -> set[Place]:
    hosts = {(HOST, host) for host in port.hosts}
    return {(NETWORK, port.spec.network_id), *hosts, *((GROUP, group) for group in port.spec.security_groups)}


@define(eq=False)
class Records:
    """Everything that one driver holds."""

    networks: Table[Network]
    ports: Ports
    routers: Table[RouterSpec]
    groups: Table[SecurityGroupSpec]
    narrowed: Table[Narrowed]  # by the id of the port or the group
    surrendered: Table[Surrendered]  # by the id of the router

    def load(self) -> None:
        self.networks.load()
        self.ports.load()
        self.routers.load()
        self.groups.load()
        self.narrowed.load()
        self.surrendered.load()

    def narrow(self, id: str, *ports: PortSpec) -> None:
        """To be called before the record is changed: a repeat of the call no longer sees what was there."""
        known = self.narrowed.get(id)
        before = known.ports if known is not None else ()
        self.narrowed.put(id, Narrowed((*before, *(each for each in ports if each not in before))))

    def surrender(self, id: str, addresses: Iterable[str]) -> None:
        """As `narrow`, for a router."""
        known = self.surrendered.get(id)
        before = known.addresses if known is not None else ()
        self.surrendered.put(id, Surrendered(tuple(sorted({*before, *addresses}))))

    def ports_of(self, network_id: str) -> list[Port]:
        """Sorted by id, as those of the next two methods."""
        return _sorted(self.ports.at(NETWORK, network_id))

    def ports_on(self, host: str) -> list[Port]:
        return _sorted(self.ports.at(HOST, host))

    def ports_in(self, group_id: str) -> list[Port]:
        return _sorted(self.ports.at(GROUP, group_id))

    def hosts_of(self, network_id: str) -> set[str]:
        """The hosts that have ports of the network."""
        return {host for port in self.ports.at(NETWORK, network_id).values() for host in port.hosts}


def _sorted(ports: Mapping[str, Port]) -> list[Port]:
    return [ports[id] for id in sorted(ports)]


def records(root: Path | None) -> Records:
    """The records below `root`, not yet loaded; None: those of this process only."""

    def table(cls: type[T], name: str) -> Table[T]:
        return Table(cls, None if root is None else root / name)

    return Records(
        networks=table(Network, "networks"),
        ports=Ports(Port, None if root is None else root / "ports"),
        routers=table(RouterSpec, "routers"),
        groups=table(SecurityGroupSpec, "security-groups"),
        narrowed=table(Narrowed, "narrowed"),
        surrendered=table(Surrendered, "surrendered"),
    )


def free_index(taken: Iterable[int]) -> int:
    """The smallest number from 1 up that is not taken. Raises NoCapacity."""
    used = set(taken)
    index = next(number for number in range(1, INDEX_LIMIT + 2) if number not in used)
    if index > INDEX_LIMIT:
        raise NoCapacity(f"this driver supports at most {INDEX_LIMIT} networks and as many ports")
    return index


def write(file: Path, data: bytes) -> None:
    """The file, readable by all, holds `data`, or after an error what it held before.

    Raises NoCapacity, Unreachable.
    """
    # dnsmasq also ignores files that begin with a dot.
    beside = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as opened:
            opened.write(data)
            opened.flush()
            # A power cut after the rename must not leave an empty file. It is short, so this takes no thread.
            os.fsync(opened.fileno())
        beside.chmod(0o644)
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        kind = NoCapacity if error.errno in (EDQUOT, ENOSPC) else Unreachable
        raise kind(f"{file} cannot be written: {error.strerror}") from error


def make_readable(directory: Path) -> None:
    """The directory exists; it and the parents created for it are readable by all, whatever the umask.

    It gets its name last: a process that is killed earlier does not leave one that dnsmasq cannot read.
    """
    if not directory.is_dir():
        make_readable(directory.parent)
        beside = directory.with_name(f".{directory.name}.{os.getpid()}.new")
        beside.mkdir(exist_ok=True)
        beside.chmod(0o755)
        beside.replace(directory)
