"""`cloudctl db purge` beside a cloud that works, killed now and then: nobody notices, and in the end it is done."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.live import forks
from tests.live.process import LiveCloud, command

pytestmark = pytest.mark.slow

MANY = 1500
KILLS = 2
AGO = time.time() - 100 * 86_400
TOML = '[database]\nurl = "{url}"\n[tasks]\naudit_period = 1.0\n'


class Filled:
    """A database in which one deleted server becomes many old ones, each with its actions."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)

    def execute(self, statement: str, **values: Any) -> Any:
        with self.engine.begin() as conn:
            return conn.execute(text(statement), values)

    def count(self, table: str, where: str = "true") -> int:
        with self.engine.connect() as conn:
            return int(conn.execute(text(f"SELECT count(*) FROM {table} WHERE {where}")).scalar_one())

    def columns(self, table: str) -> list[str]:
        with self.engine.connect() as conn:
            return list(conn.execute(text(f"SELECT * FROM {table} LIMIT 0")).keys())

    def copy(self, table: str, number: str, changes: dict[str, str], where: str) -> None:
        """Each of these rows many times, numbered below all that there are."""
        names = [name for name in self.columns(table) if name != number]
        chosen = ", ".join(f"({changes[name]})" if name in changes else f'"{name}"' for name in names)
        quoted = ", ".join(f'"{name}"' for name in names)
        self.execute(
            f'INSERT INTO {table} ("{number}", {quoted})'
            f" WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY})"
            f' SELECT -n.n - {MANY} * "{number}", {chosen} FROM {table}, n WHERE {where}'
        )

    def fill(self, server_id: str) -> None:
        named = "'old-' || n.n"
        then = f"'{time.strftime('%Y-%m-%d %H:%M:%S.000000', time.gmtime(AGO))}'"
        if self.engine.dialect.name == "postgresql":
            then += "::timestamp"
        gone = {"id": named, "deleted_at": then, "terminated_at": then, "updated_at": then}
        self.copy("servers", "number", gone, f"id = '{server_id}'")
        self.copy("tasks", "id", {"resource_id": named, "ended_at": str(AGO)}, f"resource_id = '{server_id}'")

    def old(self) -> int:
        return self.count("servers", "id LIKE 'old-%'")

    def orphans(self) -> int:
        """Servers that lack an action, though they are there."""
        missing = "(SELECT count(*) FROM tasks WHERE resource_id = servers.id) < 2"
        return self.count("servers", f"id LIKE 'old-%' AND {missing}")


class Writers:
    """Requests that write, one after the other, until they are stopped."""

    def __init__(self, cloud: LiveCloud) -> None:
        self.cloud = cloud
        self.statuses: list[int] = []
        self._stop = Event()
        self._thread = Thread(target=self._write)

    def __enter__(self) -> Writers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.is_set():
            status, made = self.cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}}, "admin")
            self.statuses.append(status)
            if status == 202:
                self.statuses.append(self._delete(made["volume"]["id"]))

    def _delete(self, volume_id: str) -> int:
        path = f"/volume/v3/volumes/{volume_id}"
        until(lambda: self.cloud.ask("GET", path, user="admin")[1]["volume"]["status"] == "available")
        return self.cloud.ask("DELETE", path, user="admin")[0]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path / 'state' / 'cloudctl.sqlite'}"


def lived(cloud: LiveCloud) -> str:
    """The id of a server that was booted and deleted."""
    first = {
        name: cloud.ask("GET", path)[1][name][0]["id"]
        for name, path in (("images", "/image/v2/images"), ("networks", "/networking/v2.0/networks?name=private"))
    }
    server = {"name": "vm", "flavorRef": "1", "imageRef": first["images"], "networks": [{"uuid": first["networks"]}]}
    id = str(cloud.ask("POST", "/compute/v2.1/servers", {"server": server})[1]["server"]["id"])
    until(lambda: cloud.ask("GET", f"/compute/v2.1/servers/{id}")[1]["server"]["status"] == "ACTIVE")
    cloud.ask("DELETE", f"/compute/v2.1/servers/{id}")
    until(lambda: cloud.ask("GET", f"/compute/v2.1/servers/{id}")[0] == 404)
    return id


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def purging(cloud: LiveCloud, log: Path) -> forks.Forked:
    """`cloudctl db purge` beside this cloud, forked as that is: to import everything is most of what it does."""
    arguments = [command("cloudctl"), f"--config={cloud.config}", f"--state-dir={cloud.state_dir}"]
    return forks.origin().start([*arguments, "db", "purge", "--older-than", "30"], log, os.environ, cloud.directory)


def killed_amid_its_work(purge: forks.Forked, filled: Filled, before: int) -> None:
    until(lambda: filled.old() < before or purge.poll() is not None)
    time.sleep(random.uniform(0, 0.2))
    purge.kill()
    assert purge.wait() == -signal.SIGKILL, "it was done before"


def test_a_purge_that_is_killed_beside_a_cloud_at_work(url: str, tmp_path: Path) -> None:
    cloud = LiveCloud(tmp_path, TOML.format(url=url))
    cloud.start()
    try:
        server_id = lived(cloud)
        filled = Filled(url)
        filled.fill(server_id)
        log = tmp_path / "purge.log"

        with Writers(cloud) as writers:
            for _ in range(KILLS):
                before = filled.old()
                killed_amid_its_work(purging(cloud, log), filled, before)
                assert filled.orphans() == 0
            assert "rows removed" not in log.read_text()
            assert purging(cloud, log).wait(timeout=120) == 0, log.read_text()
        assert filled.old() == filled.count("tasks", "resource_id LIKE 'old-%'") == 0, log.read_text()
        assert "rows removed" in log.read_text()
        # What it leaves is what is young.
        _, left = cloud.ask("GET", "/compute/v2.1/servers?deleted=true&all_tenants=1", user="admin")
        assert [each["id"] for each in left["servers"]] == [server_id]
        assert writers.statuses and set(writers.statuses) == {202}
        lived(cloud)
        assert "cloudctl_audit_findings_total{" not in cloud.body("/metrics").decode()
        assert "Traceback" not in cloud.log.read_text()
    finally:
        cloud.kill()
