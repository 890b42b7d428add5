"""A whole cloud in memory that can be reset: to the same moment again and again, for one crash after another."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import frozen
from sqlalchemy import DateTime

from cloudctl.app import Cloud
from cloudctl.compute.host_watch import HostWatch
from cloudctl.db.columns import metadata
from cloudctl.drivers.file.driver import DIGITS
from cloudctl.identity.tokens import Tokens
from cloudctl.instance_ha.watch import HaWatch
from cloudctl.placement import hosts
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import MemoryCloud, connection
from cloudctl.testing.crash import World

# Seconds that every driver call takes, so that a process also dies in the middle of calls.
DELAY = 0.1
# Columns, besides times, that differ from run to run. `cloudctl.testing.crash` compares how tasks ended.
CHANCE = {
    ("volume_messages", "id"),
    ("servers", "revision"),
    ("ports", "edition"),
    ("objects", "file_id"),
    # Evacuations that nobody requested have random ids; what a recovery reports, and an event, contains times.
    ("migrations", "id"),
    ("ha_vmoves", "id"),
    ("ha_notifications", "details"),
    ("events", "id"),
    ("events", "payload"),
}


@frozen
class Moment:
    """The whole state of a cloud, apart from its processes."""

    now: float
    database: int
    stores: dict[str, dict[str, Any]]
    machines: dict[str, Any]
    fenced: set[str]
    files: dict[str, bytes]
    rows: dict[str, set[tuple[Any, ...]]]


# Two of each kind that data is copied or moved between. Data goes to the first by default; the second is moved to,
# and tracks changes.
BACKENDS = {
    "image": {"stores": {"second": {"directory": "second"}}},
    "drivers": {"volume": {"first": "fake", "second": "fake"}},
    "driver": {"volume": {"second": {"total_gib": 100, "tells_changes": True}}},
}


@frozen
class Fakes:
    hypervisor: Any
    volume: Any
    second: Any  # of volumes
    network: Any
    fencer: Any

    @property
    def all(self) -> tuple[Any, ...]:
        return self.hypervisor, self.volume, self.second, self.network, self.fencer


class Stage:
    """The cloud, its clients, and its fakes. Nothing works on its tasks but `settle` and `world`."""

    def __init__(self) -> None:
        self.cloud = MemoryCloud(BACKENDS)
        self.cloud.settle()
        self.service = self.cloud.cloud
        self.demo = self.cloud.client("demo")
        self.admin = self.cloud.client("admin")
        drivers: Any = self.service.drivers
        first, second = drivers.volume.at.values()
        self.drivers = Fakes(drivers.hypervisor, first, second, drivers.network, drivers.fencers["fake"])
        # A periodic look would be one more event at each instant; and the engine is about to be replaced.
        self.service.made(HostWatch).stopService()
        self.service.made(HaWatch).stopService()
        self.service.audit.stopService()
        self.service.engine.kill()
        self.first = self.moment()

    # -- processes

    def engine(self) -> Engine:
        return successor(self.service)

    def settle(self) -> None:
        """A process starts, does all outstanding work, and dies."""
        engine = self.engine()
        engine.chance = lambda: 0.5
        engine.startService()
        self.cloud.settle()
        engine.kill()

    def world(self, moment: Moment, faults: Callable[[Stage], object]) -> World:
        """Reset, with slow drivers and these faults; to be driven by `cloudctl.testing.crash`."""
        self.set_back(moment)
        for fake in self.drivers.all:
            fake.behaviour.delays = _Every(DELAY)
        faults(self)
        return World(
            self.cloud.clock,
            self.cloud.db,
            self.engine,
            lambda: None,
            lambda: self.changes(moment),
            self.durable,
            close=lambda: None,
        )

    def durable(self) -> tuple[Any, ...]:
        """What a dying process leaves behind. Rows are represented by a count of changes: there are many."""
        return (
            connection(self.service).total_changes,
            {name: dict(store.objects) for name, store in self._stores().items()},
            dict(self.drivers.hypervisor.machines),
            set(self.drivers.fencer.fenced),
            self._files(),
        )

    def hosts(self) -> list[Any]:
        """Rows of all hosts."""
        return list(self.cloud.transact(hosts.every))

    # -- moments

    def moment(self) -> Moment:
        return Moment(
            self.cloud.clock.seconds(),
            self.cloud.db.moment(),
            {name: dict(store.objects) for name, store in self._stores().items()},
            dict(self.drivers.hypervisor.machines),
            set(self.drivers.fencer.fenced),
            self._files(),
            self._rows(),
        )

    def set_back(self, moment: Moment) -> None:
        clock = self.cloud.clock
        clock.calls.clear()
        clock.rightNow = moment.now
        self.cloud.db.go_back(moment.database)
        self.cloud.db._listeners.clear()
        self.service.made(Tokens).forget()
        for name, store in self._stores().items():
            store.objects = dict(moment.stores[name])
        self.drivers.hypervisor.machines = dict(moment.machines)
        self.drivers.fencer.fenced = set(moment.fenced)
        for fake in self.drivers.all:
            fake.behaviour.delays, fake.behaviour.faults = {}, []
        directory = self.service.config.state_dir
        for name in self._files().keys() - moment.files.keys():
            (directory / name).unlink()
        # Every start of a process looks through the folders of objects, and each run has made some.
        for folder in os.scandir(directory / "objects"):
            if len(folder.name) == DIGITS and not os.listdir(folder):
                os.rmdir(folder)
        for name, content in moment.files.items():
            if not (directory / name).exists() or (directory / name).read_bytes() != content:
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_bytes(content)

    def changes(self, moment: Moment) -> dict[str, Any]:
        """What exists now and did not then (+), and the other way round (-): rows, objects of fakes, files."""
        found: dict[str, Any] = {}
        for name, rows in self._rows().items():
            before = moment.rows[name]
            _tell(found, name, sorted(rows - before, key=repr), sorted(before - rows, key=repr))
        for name, store in self._stores().items():
            _tell(found, name, *_differences(store.objects, moment.stores[name]))
        _tell(found, "files", *_differences(_called(self._files()), _called(moment.files)))
        return found

    def _stores(self) -> dict[str, Any]:
        hypervisor, volume, network = self.drivers.hypervisor, self.drivers.volume, self.drivers.network
        return {
            "guests": hypervisor.guests,
            "disks": volume.volumes,
            "snapshots": volume.frozen,
            "unmanaged disks": volume.loose,
            "unmanaged snapshots": volume.loose_snapshots,
            "disks of the second": self.drivers.second.volumes,
            "snapshots of the second": self.drivers.second.frozen,
            "wires": network.networks,
            "plugs": network.ports,
            "filters": network.groups,
            "routers": network.routers,
        }

    def _files(self) -> dict[str, bytes]:
        """The files of images, of the backup archive and of objects, by path."""
        root = str(self.service.config.state_dir)
        found = {}
        # Many times in each run: a Path per file would cost more than its content.
        for name in ("images", "backups", "objects"):
            for directory, _below, files in os.walk(f"{root}/{name}"):
                for path in (f"{directory}/{each}" for each in files):
                    with open(path, "rb") as file:
                        found[path.removeprefix(f"{root}/")] = file.read()
        return found

    def _rows(self) -> dict[str, set[tuple[Any, ...]]]:
        execute = connection(self.service).execute
        # Three of four tables are empty, which one statement tells of all of them.
        filled = {name for (name,) in execute(FILLED)}
        return {
            name: set(execute(f"SELECT {columns} FROM {name}")) if name in filled else set()
            for name, columns in COMPARED.items()
        }


def successor(service: Cloud) -> Engine:
    """The engine of a starting process, after the one that the cloud had."""
    for part in service.parts:
        part.recover()
    like = service.engine
    return Engine(
        like.db,
        like.clock,
        like.drivers,
        like.workflows.values(),
        exclusive=True,
        slots=like.slots,
        lease=like.lease,
        expected=like.expected,
    )


class _Every(dict[str, float]):
    """A dict that has the same value for everything."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def get(self, _name: str, _default: Any = None) -> float:
        return self.value


def _compared() -> dict[str, str]:
    """Table → its columns that must be the same at the end of every run."""
    found = {}
    for table in metadata.sorted_tables:
        columns = [
            f'"{column.name}"'
            for column in table.columns
            if not isinstance(column.type, DateTime) and (table.name, column.name) not in CHANCE
        ]
        if table is not TaskRow.table:
            found[table.name] = ", ".join(columns)
    return found


COMPARED = _compared()
FILLED = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in COMPARED)


def _called(files: dict[str, bytes]) -> dict[str, Any]:
    """Files by path; those of objects, whose names are random, by content."""
    objects = sorted(content for name, content in files.items() if name.startswith("objects/"))
    others = {name: content for name, content in files.items() if not name.startswith("objects/")}
    return others | {f"object {number}": content for number, content in enumerate(objects)}


def _differences(now: dict[str, Any], then: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    more = [(name, value) for name, value in sorted(now.items()) if then.get(name) != value]
    less = [name for name in sorted(then) if name not in now]
    return more, less


def _tell(found: dict[str, Any], name: str, more: list[Any], less: list[Any]) -> None:
    if more:
        found[f"+{name}"] = more
    if less:
        found[f"-{name}"] = less
