"""How large a simulated cloud is, and the servers that it has: most with their disks on shared storage, some without.

The servers of a small cloud are booted by its API. Those of a large one are copies of a few that were, made once in a
process: each world begins with a copy of that cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import orjson
from attrs import evolve, field, frozen
from sqlalchemy import select

from cloudctl.compute.tables import BlockDevice, Server
from cloudctl.db import Connection
from cloudctl.drivers.fake.hypervisor import FakeHypervisor, Guest
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.fake.volume import Volume as Disk
from cloudctl.placement.tables import Allocation, Consumer, Host
from cloudctl.testing.cloud import MemoryCloud, Snapshot
from cloudctl.volume.tables import Attachment, Volume
from tests.instance_ha.asking import Ha

MOST_BOOTED = 40  # by the API, where the servers of a cloud are not copies
UNLIMITED = {"instances": -1, "cores": -1, "ram": -1}
# What is booted together, each with what it has: a root disk of its host or a volume, one more volume, or one that all
# of them write to. As often as it is named.
UNITS: tuple[tuple[str, ...], ...] = (
    ("volume",),
    ("volume",),
    ("volume",),
    ("volume+data",),
    ("volume+data",),
    ("local",),
    ("local",),
    ("local+data",),
    ("volume+shared", "volume+shared"),
)
ROOT = {"boot_index": 0, "source_type": "image", "destination_type": "volume", "volume_size": 1}
LOCAL = {"boot_index": 0, "source_type": "image", "destination_type": "local"}
SHARED = "shared"  # a type of volumes
MORE = {"source_type": "volume", "destination_type": "volume"}


@frozen
class Size:
    hosts: int
    servers: int
    segments: int
    reserves: int

    @classmethod
    def by(cls, chance: Random) -> Size:
        hosts = chance.randint(4, 10)
        return cls(hosts, chance.randint(6, 16), chance.randint(1, 2), chance.randint(0, hosts // 4))

    @classmethod
    def of(cls, hosts: int, servers: int) -> Size:
        return cls(hosts, servers, segments=max(1, hosts // 50), reserves=hosts // 50)

    def tables(self, more: Mapping[str, Any] = {}) -> dict[str, Any]:
        """The configuration of such a cloud."""
        drivers = {"hypervisor": {"fake": {"hosts": self.hosts}}, "volume": {"fake": {"total_gib": 1_000_000}}}
        return {"driver": drivers, **more}


@frozen
class Populated:
    """A cloud with its segments and servers. `members`: host → its path in the API."""

    at: float
    snapshot: Snapshot
    guests: Mapping[str, Guest]
    disks: Mapping[str, Disk]
    segments: Sequence[str]
    members: Mapping[str, str]
    volumes: Mapping[str, frozenset[str]]  # server → those that it must never lose

    @classmethod
    def by(cls, size: Size, chance: Random) -> Populated:
        cloud = MemoryCloud(size.tables())
        hypervisor, backend = drivers(cloud)
        ha = Ha(cloud.client("admin"))
        _prepare(ha)
        segments = [ha.segment(f"rack-{n}") for n in range(size.segments)]
        members = {}
        for number in range(1, size.hosts + 1):
            name, segment = f"fake-{number}", segments[number % size.segments]
            reserved = number > size.hosts - size.reserves
            members[name] = f"/segments/{segment}/hosts/{ha.host(segment, name, reserved=reserved)}"
            if reserved:
                # Nothing is put there before it is needed.
                ha.compute.put("/os-services/disable", {"host": name, "binary": "nova-compute"})
        if size.servers <= MOST_BOOTED:
            _boot(ha, size.servers, chance)
        else:
            templates = [_unit(ha, each, number, networks="none") for number, each in enumerate(UNITS)]
            cloud.transact(Copies(hypervisor, backend, chance).make, templates, size.servers)
        made = cls(
            cloud.clock.seconds(),
            Snapshot.of(cloud.cloud),
            {guest.spec.id: guest for guest in hypervisor.guests.values()},
            {disk.id: disk for disk in backend.volumes.values()},
            segments,
            members,
            {
                guest.spec.id: frozenset(each.volume_id for each in guest.spec.volumes)
                for guest in hypervisor.guests.values()
            },
        )
        cloud.close()
        return made

    def start(self, size: Size, more: Mapping[str, Any]) -> MemoryCloud:
        """Another process, with a copy of all that there is."""
        cloud = MemoryCloud(size.tables(more), start=self.at, snapshot=self.snapshot)
        hypervisor, backend = drivers(cloud)
        for id, guest in self.guests.items():
            hypervisor.guests.put(id, guest)
        for id, disk in self.disks.items():
            backend.volumes.put(id, disk)
        return cloud


@lru_cache(maxsize=1)
def copied(size: Size) -> Populated:
    """Of those that are so large it is the same each time."""
    ids, chance = Random("ids of a population"), Random("population")
    with patch("uuid.uuid4", lambda: UUID(int=ids.getrandbits(128), version=4)):
        return Populated.by(size, chance)


def populated(size: Size, chance: Random) -> Populated:
    return copied(size) if size.servers > MOST_BOOTED else Populated.by(size, chance)


def drivers(cloud: MemoryCloud) -> tuple[FakeHypervisor, FakeVolumeBackend]:
    hypervisor, backend = cloud.cloud.drivers.hypervisor, cloud.cloud.drivers.volume
    assert isinstance(hypervisor, FakeHypervisor) and isinstance(backend, FakeVolumeBackend)
    return hypervisor, backend


# -- booted by the API


def _prepare(ha: Ha) -> None:
    project = ha.client.get("/identity/v3/projects?name=admin").json()["projects"][0]["id"]
    assert ha.compute.put(f"/os-quota-sets/{project}", {"quota_set": UNLIMITED}).status == 200
    unlimited = {"quota_set": {"volumes": -1, "gigabytes": -1}}
    assert ha.client.put(f"/volume/v3/os-quota-sets/{project}", unlimited).status == 200
    shared = {"name": SHARED, "extra_specs": {"multiattach": "<is> True"}}
    assert ha.client.post("/volume/v3/types", {"volume_type": shared}).status == 200


def _boot(ha: Ha, count: int, chance: Random) -> None:
    booted = 0
    while booted < count:
        unit = chance.choice(UNITS)[: count - booted]
        _unit(ha, unit, booted)
        booted += len(unit)


def _unit(ha: Ha, unit: Sequence[str], number: int, **wishes: Any) -> list[str]:
    """The ids of servers that were booted together."""
    shared = ha.compute.volume(volume_type=SHARED) if any("shared" in each for each in unit) else None
    booted: list[str] = []
    for what in unit:
        root = ROOT if what.startswith("volume") else LOCAL
        disks: list[dict[str, Any]] = [{**root, "uuid": ha.compute.image}]
        if "data" in what:
            disks.append({**MORE, "uuid": ha.compute.volume()})
        if "shared" in what:
            disks.append({**MORE, "uuid": shared})
        asked = {"metadata": {"HA_Enabled": "True"}} if (number + len(booted)) % 2 else {}
        image = None if root is ROOT else ha.compute.image
        booted.append(ha.compute.boot("2.60", imageRef=image, block_device_mapping_v2=disks, **asked, **wishes))
    assert [ha.compute.status(each) for each in booted] == ["ACTIVE"] * len(unit)
    return booted


# -- copies of those


@frozen
class Copies:
    """What is told by records is copied with them: an id is another one wherever it is named."""

    hypervisor: FakeHypervisor
    backend: FakeVolumeBackend
    chance: Random
    rows: dict[Any, list[dict[str, Any]]] = field(factory=dict)

    def make(self, conn: Connection, templates: Sequence[Sequence[str]], servers: int) -> None:
        """So many that it has `servers` with those that are there."""
        units = [Unit.read(conn, each) for each in templates]
        missing = servers - sum(len(each.servers) for each in units)
        places = conn.execute(select(Host).where(Host.enabled).order_by(Host.number)).all()
        number = 0
        while missing > 0:
            unit = units[number % len(units)]
            if len(unit.servers) <= missing:
                self._copy(unit, [places[(number * 2 + each) % len(places)] for each in range(len(unit.servers))])
                missing -= len(unit.servers)
            number += 1
        for table, rows in self.rows.items():
            conn.execute(table.insert(), rows)

    def _copy(self, unit: Unit, places: Sequence[Host]) -> None:
        ids = {old: str(UUID(int=self.chance.getrandbits(128), version=4)) for old in unit.ids}
        host_of = dict(zip(unit.servers, places, strict=True))
        for table, server, row in unit.rows:
            place = host_of.get(server) if server is not None else None
            moved = _renamed(row, ids)
            if place is not None:
                if "host" in moved:
                    moved["host"] = place.name
                if "provider_id" in moved:
                    moved["provider_id"] = place.id
            self.rows.setdefault(table, []).append(moved)
        used: dict[str, list[str]] = {}
        for old, place in host_of.items():
            guest = self.hypervisor.guests.get(old)
            assert guest is not None
            volumes = tuple(
                evolve(each, volume_id=ids[each.volume_id], info=_renamed(each.info, ids))
                for each in guest.spec.volumes
            )
            spec = evolve(guest.spec, id=ids[old], host=place.name, volumes=volumes)
            self.hypervisor.guests.put(ids[old], evolve(guest, spec=spec))
            for each in volumes:
                used.setdefault(each.volume_id, []).append(place.name)
        for old in unit.volumes:
            disk = self.backend.volumes.get(old)
            assert disk is not None
            self.backend.volumes.put(ids[old], evolve(disk, id=ids[old], hosts=tuple(sorted(used[ids[old]]))))


@frozen
class Unit:
    """Servers that were booted together, and all that is written down of them: (table, server or None, row)."""

    servers: Sequence[str]
    volumes: Sequence[str]
    ids: Sequence[str]  # that are their own
    rows: Sequence[tuple[Any, str | None, Mapping[str, Any]]]

    @classmethod
    def read(cls, conn: Connection, servers: Sequence[str]) -> Unit:
        rows: list[tuple[Any, str | None, Mapping[str, Any]]] = []

        def those(record: Any, column: Any, id: str, server: str | None) -> list[Mapping[str, Any]]:
            found = [each._asdict() for each in conn.execute(select(record.table).where(column == id))]
            rows.extend((record.table, server, {key: each[key] for key in each if key != "number"}) for each in found)
            return found

        volumes, own = dict[str, None](), dict[str, None]()
        for server in servers:
            those(Server, Server.id, server, server)
            those(Consumer, Consumer.id, server, server)
            those(Allocation, Allocation.consumer_id, server, server)
            devices = those(BlockDevice, BlockDevice.server_id, server, server)
            volumes |= dict.fromkeys(each["volume_id"] for each in devices if each["destination_type"] == "volume")
            own |= dict.fromkeys(each["id"] for each in devices)
        for volume in volumes:
            those(Volume, Volume.id, volume, None)
        for server in servers:
            attachments = those(Attachment, Attachment.server_id, server, server)
            own |= dict.fromkeys(each["id"] for each in attachments)
        return cls(servers, list(volumes), [*servers, *volumes, *own], rows)


def _renamed(row: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    return {key: _with_ids(value, ids) for key, value in row.items()}


def _with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, dict) and value:
        text = orjson.dumps(value).decode()
        for old, new in ids.items():
            text = text.replace(old, new)
        return orjson.loads(text)
    return value
