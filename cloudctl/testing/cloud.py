"""A whole cloud in memory, on a Clock, without sockets or threads: for the tests of cloudctl and of its users.

cloud = MemoryCloud()
demo = cloud.client("demo")
server = demo.post("/compute/v2.1/servers", {"server": {...}}).json()["server"]
cloud.settle()
assert demo.get(f"/compute/v2.1/servers/{server['id']}").json()["server"]["status"] == "ACTIVE"
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import frozen
from sqlalchemy import func, select
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock

from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.image.store import ImageStore
from cloudctl.log_levels import LogLevels
from cloudctl.tasks.tables import OPEN, TaskRow
from cloudctl.testing.databases import MemoryDatabase
from cloudctl.testing.http import Response, request
from cloudctl.testing.limits import limited

PASSWORDS = {"admin": "admin-secret", "demo": "demo-secret"}
# A cloud settles within this many virtual seconds, or never.
PATIENCE = 4000.0


@frozen
class Snapshot:
    """The database and the images of a cloud in memory."""

    database: bytes
    images: Mapping[str, bytes]

    @classmethod
    def of(cls, cloud: Cloud) -> Snapshot:
        database = cloud.db.image() if isinstance(cloud.db, MemoryDatabase) else connection(cloud).serialize()
        directory = cloud.made(ImageStore).directory
        return cls(database, {file.name: file.read_bytes() for file in directory.iterdir()})

    def give_images(self, cloud: Cloud) -> None:
        store = cloud.made(ImageStore)
        store.prepare()
        for name, data in self.images.items():
            (store.directory / name).write_bytes(data)


def connection(cloud: Cloud) -> Any:
    """The one sqlite3.Connection of a cloud in memory."""
    return cloud.db.connections.get().driver


@lru_cache(maxsize=4)
def without_rows(_tables: int) -> bytes:
    """A database with all tables, as limited as PostgreSQL's.

    The argument is their number by now, since a test's module may add some.
    """
    db = Database.in_memory(Clock())
    db.transact(False, lambda conn: limited(metadata).create_all(conn.alchemy))
    return bytes(db.connections.get().driver.serialize())


def empty_database(clock: IReactorTime) -> MemoryDatabase:
    """A database in memory that has all tables and no rows."""
    return MemoryDatabase(clock, without_rows(len(metadata.tables)))


@lru_cache(maxsize=4)
def fresh(start: float) -> Snapshot:
    """A cloud with the default configuration, which has been started once at this time."""
    clock = Clock()
    clock.rightNow = start
    cloud = Cloud.in_memory(build({}, SECTIONS, Path("/nonexistent")), clock, db=empty_database(clock))
    cloud.prepare(PASSWORDS)
    cloud.startService()
    snapshot = Snapshot.of(cloud)
    cloud.stopService()
    clock.advance(0)
    return snapshot


# New clouds before their first start, by their configuration and everything else that they depend on.
_prepared: OrderedDict[tuple[Any, ...], Snapshot] = OrderedDict()
_PREPARED = 8


def prepared(key: tuple[Any, ...]) -> Snapshot | None:
    """How an earlier cloud with the same key was filled."""
    if (found := _prepared.get(key)) is not None:
        _prepared.move_to_end(key)
    return found


def remember(cloud: Cloud, key: tuple[Any, ...]) -> None:
    """The next cloud with the same key will be filled as this one is."""
    made = Snapshot.of(cloud)
    # Without images here, the first one is in a store that would not be copied.
    if made.images:
        _prepared[key] = made
        if len(_prepared) > _PREPARED:
            _prepared.popitem(last=False)


class MemoryCloud:
    """`tables` is a configuration as the TOML file has it; `start` is the Clock's first time in seconds (epoch).

    `snapshot` is of another cloud, whose database and images this one begins with.
    """

    def __init__(
        self,
        tables: Mapping[str, Any] | None = None,
        *,
        start: float = 1_800_000_000.0,
        state_dir: Path | None = None,
        log_levels: LogLevels | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.clock = Clock()
        self.clock.rightNow = start
        self.config = build(tables or {}, SECTIONS, state_dir or Path("/nonexistent"))
        # The tables of every fresh cloud are the same, and making them is most of the work.
        key = (start, len(metadata.tables), repr(tables))
        if snapshot is None and not tables:
            snapshot = fresh(start)
        elif snapshot is None and state_dir is None:
            snapshot = prepared(key)
        image = without_rows(len(metadata.tables)) if snapshot is None else snapshot.database
        self.db = MemoryDatabase(self.clock, image)
        self.cloud = Cloud.in_memory(self.config, self.clock, log_levels=log_levels, db=self.db)
        if snapshot is not None:
            snapshot.give_images(self.cloud)
        self.cloud.prepare(PASSWORDS)
        if snapshot is None and state_dir is None:
            remember(self.cloud, key)
        self.cloud.startService()
        self.site = self.cloud.site
        self.ha_site = self.cloud.ha_site
        # With when they expire, in the Clock's time.
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}

    def transact(self, fn: Any, *args: Any) -> Any:
        """`fn(conn, …)` in a transaction of its own."""
        return self.db.transact(False, fn, *args)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def settle(self) -> None:
        """Advance the clock until no task is open. Raises AssertionError if some never end."""
        end = self.clock.seconds() + PATIENCE
        while self.transact(_open_tasks):
            if self.clock.seconds() > end:
                raise AssertionError(f"still open after {PATIENCE} s: {self.transact(_open_kinds)}")
            self.clock.advance(0.5)

    def client(self, user: str = "demo", project: str | None = None, **headers: str) -> Client:
        """Requests as a user of domain Default, scoped to the project (by default the one with the user's name)."""
        scope = {"project": {"name": project or user, "domain": {"id": "default"}}}
        return Client(self, self.token(user, PASSWORDS.get(user, user), scope), headers)

    def anonymous(self, **headers: str) -> Client:
        return Client(self, None, headers)

    def token(self, user: str, password: str, scope: Mapping[str, Any] | None = None) -> str:
        """A new token, or the one of an earlier call that has not expired."""
        key = (user, json.dumps(scope, sort_keys=True))
        if key not in self._tokens or self._tokens[key][1] <= self.clock.seconds():
            self._tokens[key] = self._login(user, password, scope)
        return self._tokens[key][0]

    def login(self, user: str, password: str, scope: Mapping[str, Any] | str | None = None) -> str:
        """A new token by password; `scope` as the request has it."""
        return self._login(user, password, scope)[0]

    def _login(self, user: str, password: str, scope: Mapping[str, Any] | str | None) -> tuple[str, float]:
        credentials = {"user": {"name": user, "domain": {"id": "default"}, "password": password}}
        auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": credentials}}
        if scope is not None:
            auth["scope"] = scope
        answer = self.anonymous().post("/identity/v3/auth/tokens", {"auth": auth})
        assert answer.status == 201, answer
        expires = datetime.fromisoformat(answer.json()["token"]["expires_at"])
        return str(answer.headers["x-subject-token"]), expires.timestamp()

    def close(self) -> None:
        self.cloud.stopService()
        self.clock.advance(0)


class Client:
    """Sends and accepts JSON, with one token. `ha=True` sends to the instance-HA listener."""

    def __init__(self, cloud: MemoryCloud, token: str | None, headers: Mapping[str, str] | None = None) -> None:
        self.cloud = cloud
        self.token = token
        self.headers = {"Accept": "application/json", **(headers or {})}

    def request(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        ha: bool = False,
    ) -> Response:
        sent = {**({"X-Auth-Token": self.token} if self.token else {}), **self.headers}
        if body is None:
            body = b"" if json is None else _dumps(json)
            if json is not None:
                sent["Content-Type"] = "application/json"
        sent |= dict(headers or {})
        site = self.cloud.ha_site if ha else self.cloud.site
        return request(site, method, path, headers=sent, body=body)

    def get(self, path: str, **options: Any) -> Response:
        return self.request("GET", path, **options)

    def head(self, path: str, **options: Any) -> Response:
        return self.request("HEAD", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> Response:
        return self.request("POST", path, json, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> Response:
        return self.request("PUT", path, json, **options)

    def patch(self, path: str, json: Any = None, **options: Any) -> Response:
        return self.request("PATCH", path, json, **options)

    def delete(self, path: str, **options: Any) -> Response:
        return self.request("DELETE", path, **options)


def _dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


_count_open = select(func.count()).select_from(TaskRow).where(TaskRow.state.in_(OPEN))


def _open_tasks(conn: Connection) -> int:
    return int(conn.execute(_count_open).scalar_one())


def _open_kinds(conn: Connection) -> list[Any]:
    query = select(TaskRow.kind, TaskRow.state, TaskRow.step, TaskRow.error).where(TaskRow.state.in_(OPEN))
    return [tuple(row) for row in conn.execute(query)]
