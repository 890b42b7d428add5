"""Two processes of one cloud with nothing but a database and a data directory between them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.tasks.peers import Process
from cloudctl.tasks.tables import TaskRow
from tests.live.load import PATIENCE, SERVERS, good, read
from tests.live.process import LiveCloud, command

pytestmark = pytest.mark.slow

# Nothing here goes on because a lease ends.
TOML = """
[server]
data_dir = "{data}"
[database]
url = "{url}"
sealing_keys = ["{key}"]
[tasks]
lease = 3600.0
[driver.hypervisor.fake]
durable = true
delays = {{ ensure_defined = {delay}, ensure_running = 0.1 }}
[driver.volume.fake]
durable = true
[driver.network.fake]
durable = true
"""

Make = Callable[..., LiveCloud]


@pytest.fixture
def process(tmp_path: Path, postgresql_url: str) -> Iterator[Make]:
    """`process(name, delay)`: one that is not started yet, with a state directory of its own."""
    made: list[LiveCloud] = []
    key = Fernet.generate_key().decode()

    def make(name: str, delay: float) -> LiveCloud:
        (tmp_path / name).mkdir()
        toml = TOML.format(data=tmp_path / "data", url=postgresql_url, key=key, delay=delay)
        made.append(LiveCloud(tmp_path / name, toml))
        return made[-1]

    yield make
    for cloud in made:
        cloud.kill()


def until(seen: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + PATIENCE
    while not (found := seen()):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    return found


def pids(conn: Connection) -> dict[str, int]:
    """Owner → pid, of the processes that are there."""
    return dict(conn.execute(select(Process.owner, Process.pid)).all())


def booting(conn: Connection) -> tuple[str, int] | None:
    """The process that boots a server, and how often the task was taken."""
    tasks = select(TaskRow.owner, TaskRow.fence).where(TaskRow.kind == "compute.server.boot")
    return next(((owner, fence) for owner, fence in conn.execute(tasks) if owner is not None), None)


def rotate(cloud: LiveCloud) -> str:
    arguments = [command("cloudctl"), f"--config={cloud.config}", f"--state-dir={cloud.state_dir}", "keys", "rotate"]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=120).stdout


def sees(cloud: LiveCloud, token: str) -> bool:
    status, _ = cloud.ask("GET", "/identity/v3/auth/tokens", **{"X-Auth-Token": token, "X-Subject-Token": token})
    return status == 200


def test_processes_that_share_no_directory_are_one_cloud(process: Make, postgresql_url: str) -> None:
    # Whichever boots the server is killed while it does.
    one, two = process("one", delay=3600.0), process("two", delay=3600.0)
    began = time.monotonic()
    for cloud in (one, two):
        cloud.start(wait=False)
    for cloud in (one, two):
        cloud.wait(began)
    until(lambda: len(read(postgresql_url, pids)) == 2)

    # What one says holds at the other, before and after keys were changed.
    assert sees(two, one.token()) and sees(one, two.token())
    assert rotate(two) == "primary key: 2\n"
    one._tokens.clear()
    assert sees(two, one.token())
    assert all((cloud.state_dir / "clouds.yaml").exists() for cloud in (one, two))

    image = good(one.ask("GET", "/image/v2/images?name=tiny"))["images"][0]["id"]
    wish = {"name": "s", "imageRef": image, "flavorRef": "1", "networks": "none"}
    server = good(one.ask("POST", SERVERS, {"server": wish}, **{"OpenStack-API-Version": "compute 2.37"}))["server"]
    owner, fence = until(lambda: read(postgresql_url, booting))
    there = read(postgresql_url, pids)
    victim, heir = (one, two) if one.process is not None and one.process.pid == there[owner] else (two, one)
    assert victim.process is not None and victim.process.pid == there[owner]
    victim.kill()
    assert fence == 1
    taken, fence = until(lambda: _another(read(postgresql_url, booting), owner))
    assert heir.process is not None and (there[taken], fence) == (heir.process.pid, 2)
    assert read(postgresql_url, pids).keys() == {taken}

    # The first one comes back, and is not slow any more: the other one's death leaves the task to it.
    victim.config.write_text(victim.config.read_text().replace("3600.0, ensure", "0.0, ensure"))
    victim.start()
    until(lambda: len(read(postgresql_url, pids)) == 2)
    heir.kill()
    until(lambda: good(victim.ask("GET", f"{SERVERS}/{server['id']}"))["server"]["status"] == "ACTIVE")
    assert "Traceback" not in one.log.read_text() + two.log.read_text()


def _another(found: tuple[str, int] | None, owner: str) -> tuple[str, int] | None:
    return found if found is not None and found[0] != owner else None
