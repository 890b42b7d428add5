"""The workflows of block storage end the same wherever the process dies. Reference: volume-states.md, section 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from attrs import define
from sqlalchemy import insert, select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.drivers import Drivers
from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.fake import hypervisor, network, volume
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import CloudError
from cloudctl.tasks import Kind, Unasked, cancel_open, submit
from cloudctl.tasks.engine import Engine
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.crash import World, crash_everywhere
from cloudctl.volume import attachments, kinds, types, volumes
from cloudctl.volume.lifecycle import WORKFLOWS
from cloudctl.volume.tables import Attachment, Message, Volume

ID, OTHER, SERVER = "volume-1", "volume-2", "server-1"
START = 1_800_000_000.0
NOW = utc(START)


@define
class Store:
    """A database with one volume, and backends."""

    clock: Clock
    db: Database
    drivers: Drivers
    last: Any = None  # the state that was looked at last: a run ends with its database

    @classmethod
    def build(cls, path: Path, **fields: Any) -> Store:
        clock = Clock()
        clock.rightNow = START
        db = empty_database(clock)
        db.startService()
        resources = DriverResources(clock=clock, name="fake")
        drivers = Drivers(
            hypervisor=cast(Any, hypervisor.create(hypervisor.Config(), resources)),
            volume=cast(Any, volume.create(volume.Config(), resources)),
            network=cast(Any, network.create(network.Config(), resources)),
            image_path=lambda image_id: path / image_id,
        )
        made = cls(clock, db, drivers)
        db.transact(False, made.first_rows, fields)
        return made

    def first_rows(self, conn: Connection, fields: dict[str, Any]) -> None:
        type_ = types.create(conn, types.NewType("any"), NOW)
        row = {"id": ID, "project_id": "p", "status": "creating", "size": 1, "availability_zone": "nova"}
        row |= {"volume_type_id": type_.id, "created_at": NOW, "host": "h@b#b", "metadata": {}, "image_metadata": {}}
        conn.execute(insert(Volume).values(**{**row, **fields}))

    @property
    def backend(self) -> Any:
        return self.drivers.volume

    def put(self, *hosts: str, size: int = 1) -> None:
        """The volume is on the backend, connected to these hosts."""
        self.backend.volumes.put(ID, volume.Volume(ID, size, hosts=hosts))

    def attach(self, status: str, host: str | None) -> None:
        def attached(conn: Connection) -> None:
            attachment_id = attachments.reserve(conn, ID, SERVER, project_id=None, now=NOW, attachment_id=OTHER)
            values = {"status": status, "host": host}
            mine = Attachment.id == attachment_id
            conn.execute(Attachment.table.update().where(mine).values(**values))
            attachments.follow(conn, ID, NOW)

        self.db.transact(False, attached)

    def engine(self) -> Engine:
        expected = (CloudError, DriverError)
        return Engine(self.db, self.clock, self.drivers, WORKFLOWS, exclusive=True, expected=expected)

    def submit(self, conn: Connection, kind: Kind, **args: Any) -> None:
        submit(conn, kind, ID, Unasked(), args=args, deadline=3600.0)

    def state(self) -> Any:
        self.last = self.db.transact(True, self._state)
        return self.last

    def _state(self, conn: Connection) -> Any:
        columns = (Volume.id, Volume.status, Volume.attach_status, Volume.size, Volume.reserved_size)
        held = (Attachment.id, Attachment.status, Attachment.host)
        queries = (select(*columns), select(*held), select(Message.event_id))
        rows = [[tuple(row) for row in conn.execute(query)] for query in queries]
        return rows, [found.state for found in self.backend.volumes.values()]

    def world(self, kind: Kind, **args: Any) -> World:
        def begin() -> None:
            self.db.transact(False, lambda conn: self.submit(conn, kind, **args))

        return World(self.clock, self.db, self.engine, begin, self.state)

    def end(self) -> tuple[Any, ...]:
        """(status, attach_status, size, reserved_size) of the volume; empty if it is gone."""
        found = self.last[0][0]
        return found[0][1:] if found else ()


class Kept:
    """Builds stores, and keeps the last one."""

    def __init__(self, build: Callable[[], tuple[Store, World]]) -> None:
        self.build = build

    def __call__(self) -> World:
        self.store, world = self.build()
        return world


def ends_the_same(build: Callable[[], tuple[Store, World]]) -> Store:
    """Crash everywhere; the store of the last run."""
    kept = Kept(build)
    points = crash_everywhere(kept)
    assert len(points) > 3
    return kept.store


def test_create_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path)
        return store, store.world(kinds.CREATE_VOLUME)

    store = ends_the_same(build)
    assert store.end() == ("available", "detached", 1, None)
    assert store.backend.volumes.get(ID).size_gib == 1


def test_create_from_an_image_survives_a_crash_anywhere(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"bytes")

    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, image_id="image", image_format="raw")
        return store, store.world(kinds.CREATE_VOLUME)

    store = ends_the_same(build)
    assert store.end() == ("available", "detached", 1, None)
    assert store.backend.volumes.get(ID).head


def test_a_failed_create_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path)
        store.backend.behaviour.fail("ensure_created", times=None, error=DriverError("no"), after=True)
        return store, store.world(kinds.CREATE_VOLUME)

    store = ends_the_same(build)
    assert store.end() == ("error", "detached", 1, None)
    assert not list(store.backend.volumes.values())


def test_a_create_that_is_deleted_by_force_leaves_nothing(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path)

        def begin(conn: Connection) -> None:
            store.submit(conn, kinds.CREATE_VOLUME)
            volumes.begin_delete(conn, ID, NOW, force=True)
            cancel_open(conn, kinds.VOLUME, ID)
            store.submit(conn, kinds.DELETE_VOLUME)

        world = World(store.clock, store.db, store.engine, lambda: store.db.transact(False, begin), store.state)
        return store, world

    store = ends_the_same(build)
    assert store.end() == () and not list(store.backend.volumes.values())


def test_delete_survives_a_crash_anywhere_and_disconnects_every_host(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="deleting")
        store.put("h1", "h2")
        return store, store.world(kinds.DELETE_VOLUME)

    store = ends_the_same(build)
    assert store.end() == () and not list(store.backend.volumes.values())


def test_a_failed_delete_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="deleting")
        store.put()
        store.backend.behaviour.fail("ensure_absent", times=None, error=DriverError("no"))
        return store, store.world(kinds.DELETE_VOLUME)

    store = ends_the_same(build)
    assert store.end() == ("error_deleting", "detached", 1, None)


def test_extend_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="extending", reserved_size=3)
        store.put()
        return store, store.world(kinds.EXTEND_VOLUME, size=3)

    store = ends_the_same(build)
    assert store.end() == ("available", "detached", 3, None)


def test_a_failed_extend_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="extending", reserved_size=3)
        store.put()
        store.backend.behaviour.fail("ensure_extended", times=None, error=DriverError("no"))
        return store, store.world(kinds.EXTEND_VOLUME, size=3)

    store = ends_the_same(build)
    assert store.end() == ("error_extending", "detached", 1, None)


def test_detach_survives_a_crash_anywhere(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="available")
        store.put("h1", "h2")
        store.attach(attachments.DETACHING, "h1")
        return store, store.world(kinds.DETACH_VOLUME, attachment_id=OTHER, host="h1")

    store = ends_the_same(build)
    assert store.end() == ("available", "detached", 1, None)
    assert store.backend.volumes.get(ID).hosts == ("h2",)


def test_a_failed_detach_frees_the_volume_and_says_so(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="available")
        store.put("h1")
        store.attach(attachments.DETACHING, "h1")
        store.backend.behaviour.fail("disconnect", times=None, error=DriverError("no"))
        return store, store.world(kinds.DETACH_VOLUME, attachment_id=OTHER, host="h1")

    store = ends_the_same(build)
    assert store.last[0][1:] == [[(OTHER, "error_detaching", "h1")], [("VOLUME_VOLUME_018_001",)]]


def test_a_backend_that_comes_back_finishes_the_work(make: Any, backend: Any) -> None:
    backend.behaviour.fail("ensure_created", times=3, error=Unreachable("down"))
    assert make()["status"] == "available"


def test_a_volume_that_somebody_waits_for_is_reserved_once_it_is_made(tmp_path: Path) -> None:
    def build() -> tuple[Store, World]:
        store = Store.build(tmp_path, status="downloading", image_id="image", image_format="raw")
        store.attach(attachments.RESERVED, None)
        return store, store.world(kinds.CREATE_VOLUME)

    (tmp_path / "image").write_bytes(b"bytes")
    assert ends_the_same(build).end() == ("reserved", "reserved", 1, None)
