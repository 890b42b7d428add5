"""The workflows of images end the same wherever the process dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import select
from twisted.internet.task import Clock, deferLater

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.db.threads import Inline
from cloudctl.image import images as domain
from cloudctl.image import imports
from cloudctl.image.data import ImageData
from cloudctl.image.images import NewImage
from cloudctl.image.imports import NewImport
from cloudctl.image.kinds import ACTIVATE_IMAGE
from cloudctl.image.lifecycle import workflows
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.image.store import ImageStore
from cloudctl.image.stores import Stores
from cloudctl.image.tables import Image, ImageTask
from cloudctl.rest import policy
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.outgoing import FetchError
from cloudctl.tasks.engine import Engine
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.crash import World, crash_everywhere
from tests.image.test_image_inspection import qcow2

ID = "6f1d2c3b-0000-4000-8000-000000000001"
OPTIONS = ImageOptions()
POLICY = policy.load(["image"], None)
START = 1_800_000_000.0
URI = "http://example.com/image"


def caller_at(now: float) -> Caller:
    owner = Identity(user_id="user", project_id="project", roles=frozenset({"member", "reader"}))
    return Caller(owner, POLICY, utc(now), "req-1")


class Scene:
    """One image in a store, whose import or activation is begun by `begin(scene, conn, caller)`."""

    def __init__(self, directory: Path, begin: Callable[[Scene, Connection, Caller], None]) -> None:
        self.clock = Clock()
        self.clock.rightNow = START
        self.db = empty_database(self.clock)
        self.store = ImageStore(directory)
        self.begin_by = begin
        self.found: bytes | Exception = b"from the web"

    async def fetch(self, uri: str, path: Path) -> None:
        path.write_bytes(b"half")
        await deferLater(self.clock, 1.0, lambda: None)
        if isinstance(self.found, Exception):
            raise self.found
        path.write_bytes(self.found)

    def engine(self) -> Engine:
        inline: Any = Inline()
        looking = Looking(self.db, ImageData(Stores(self.store), inline, inline), self.fetch)
        made = workflows(self.db, OPTIONS, looking)
        return Engine(self.db, self.clock, None, made, exclusive=True)

    def begin(self) -> None:
        def write(conn: Connection) -> None:
            domain.create(conn, NewImage("project", id=ID, disk_format="raw", container_format="bare"), utc(START))
            self.begin_by(self, conn, caller_at(START))

        self.db.transact(False, write)

    def state(self) -> Any:
        def rows(conn: Connection) -> Any:
            columns = (Image.status, Image.size, Image.checksum, Image.staged_size)
            told = (ImageTask.status, ImageTask.message, ImageTask.result)
            return [tuple(row) for row in (*conn.execute(select(*columns)), *conn.execute(select(*told)))]

        files = {name: (self.store.directory / name).read_bytes() for name in self.store.names()}
        return self.db.transact(True, rows), files

    def world(self) -> World:
        return World(self.clock, self.db, self.engine, self.begin, self.state)


def by_web(scene: Scene, conn: Connection, caller: Caller) -> None:
    imports.start(conn, caller, ID, NewImport("web-download", URI, {}), OPTIONS)


def by_failing_web(scene: Scene, conn: Connection, caller: Caller) -> None:
    scene.found = FetchError("no")
    by_web(scene, conn, caller)


def by_wrong_web(scene: Scene, conn: Connection, caller: Caller) -> None:
    scene.found = qcow2()
    by_web(scene, conn, caller)


def by_staging(scene: Scene, conn: Connection, caller: Caller) -> None:
    scene.store.staged(ID).write_bytes(b"staged")
    assert domain.try_move(conn, ID, "stage", caller.now, staged_size=6)
    imports.start(conn, caller, ID, NewImport("glance-direct", None, {}), OPTIONS)


def by_staging_and_deleting(scene: Scene, conn: Connection, caller: Caller) -> None:
    by_staging(scene, conn, caller)
    domain.remove(conn, domain.get(conn, ID), caller)


def by_driver(scene: Scene, conn: Connection, caller: Caller) -> None:
    scene.store.path(ID).write_bytes(b"a snapshot")
    assert domain.try_move(conn, ID, "save", caller.now)
    tasks.submit(conn, ACTIVATE_IMAGE, ID, tasks.Unasked())


def by_careless_driver(scene: Scene, conn: Connection, caller: Caller) -> None:
    by_driver(scene, conn, caller)
    scene.store.path(ID).unlink()


def by_driver_and_deleting(scene: Scene, conn: Connection, caller: Caller) -> None:
    by_driver(scene, conn, caller)
    domain.remove(conn, domain.get(conn, ID), caller)


@pytest.mark.parametrize(
    ("begin", "rows", "files"),
    [
        (by_web, [("active", 12), ("success", "")], {ID: b"from the web"}),
        (by_failing_web, [("queued", None), ("failure", "no")], {}),
        (by_wrong_web, [("queued", None), ("failure", "The data is not in the format raw: it looks like qcow2.")], {}),
        (by_staging, [("active", 6), ("success", "")], {ID: b"staged"}),
        (by_staging_and_deleting, [("failure", "The image was deleted.")], {}),
        (by_driver, [("active", 10)], {ID: b"a snapshot"}),
        (by_careless_driver, [("queued", None)], {}),
        (by_driver_and_deleting, [], {}),
    ],
)
def test_the_end_is_the_same_wherever_the_process_dies(begin: Any, rows: Any, files: Any) -> None:
    with TemporaryDirectory() as root:
        ends: list[Any] = []

        def build() -> World:
            directory = Path(root) / str(len(ends))
            directory.mkdir()
            ends.append(directory)
            return Scene(directory, begin).world()

        crash_everywhere(build)
        first = Scene(Path(root) / "once more", begin)
        first.store.prepare()
        engine = first.engine()
        engine.startService()
        first.begin()
        for _ in range(600):
            first.clock.advance(0.5)
        found, data = first.state()
        engine.kill()
    assert ([row[:2] for row in found], data) == (rows, files)
