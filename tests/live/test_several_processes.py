"""Two processes of one cloud that share nothing but a database and backends."""

from __future__ import annotations

import os
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
from tests.live import forks
from tests.live.load import PATIENCE, SERVERS, good, read
from tests.live.process import LiveCloud, command

pytestmark = pytest.mark.slow

# Nothing here depends on a lease ending.
TOML = """
[database]
url = "{url}"
sealing_keys = ["{key}"]
[tasks]
lease = 3600.0
[image.stores.default]
driver = "file"
[driver.objects.file]
directory = "{backends}/contents"
[driver.hypervisor.fake]
directory = "{backends}/guests"
delays = {{ ensure_defined = {delay}, ensure_running = 0.1 }}
[driver.volume.fake]
directory = "{backends}/volumes"
[driver.network.fake]
directory = "{backends}/networks"
"""

Make = Callable[..., LiveCloud]


@pytest.fixture
def process(tmp_path: Path, postgresql_url: str) -> Iterator[Make]:
    """`process(name, delay)`: a process not started yet, with a state directory of its own."""
    made: list[LiveCloud] = []
    key = Fernet.generate_key().decode()

    def make(name: str, delay: float) -> LiveCloud:
        (tmp_path / name).mkdir()
        toml = TOML.format(backends=tmp_path / "backends", url=postgresql_url, key=key, delay=delay)
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
    """Owner → pid, for the running processes."""
    return dict(conn.execute(select(Process.owner, Process.pid)).all())


def booting(conn: Connection) -> tuple[str, int] | None:
    """The process that boots a server, and how often the task was claimed."""
    tasks = select(TaskRow.owner, TaskRow.fence).where(TaskRow.kind == "compute.server.boot")
    return next(((owner, fence) for owner, fence in conn.execute(tasks) if owner is not None), None)


def rotate(cloud: LiveCloud) -> str:
    arguments = [command("cloudctl"), f"--config={cloud.config}", f"--state-dir={cloud.state_dir}", "keys", "rotate"]
    said = cloud.directory / "rotate.log"
    assert forks.origin().start(arguments, said, os.environ, cloud.directory).wait(timeout=120) == 0, said.read_text()
    return said.read_text()


def sees(cloud: LiveCloud, token: str) -> bool:
    status, _ = cloud.ask("GET", "/identity/v3/auth/tokens", **{"X-Auth-Token": token, "X-Subject-Token": token})
    return status == 200


def test_processes_that_share_no_directory_are_one_cloud(process: Make, postgresql_url: str) -> None:
    # The process that boots the server is killed while it does.
    one, two = process("one", delay=3600.0), process("two", delay=3600.0)
    began = time.monotonic()
    for cloud in (one, two):
        cloud.start(wait=False)
    for cloud in (one, two):
        cloud.wait(began)
    until(lambda: len(read(postgresql_url, pids)) == 2)

    # A token of one is valid at the other, before and after keys were changed.
    assert sees(two, one.token()) and sees(one, two.token())
    assert rotate(two) == "primary key: 2\n"
    one._tokens.clear()
    assert sees(two, one.token())
    assert all((cloud.state_dir / "clouds.yaml").exists() for cloud in (one, two))
    # A directory that names its cloud is a shared one.
    assert not any((cloud.state_dir / "cloud-id").exists() for cloud in (one, two))

    image = what_one_has_been_given_the_other_has(one, two)
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

    # The first one comes back, and is no longer slow: the other one's death leaves the task to it.
    victim.config.write_text(victim.config.read_text().replace("3600.0, ensure", "0.0, ensure"))
    victim.start()
    until(lambda: len(read(postgresql_url, pids)) == 2)
    heir.kill()
    until(lambda: good(victim.ask("GET", f"{SERVERS}/{server['id']}"))["server"]["status"] == "ACTIVE")
    assert "Traceback" not in one.log.read_text() + two.log.read_text()


def what_one_has_been_given_the_other_has(one: LiveCloud, two: LiveCloud) -> str:
    """The id of an image that `one` has been given."""
    data = bytes(510) + b"\x55\xaa" + os.urandom(70_000)
    wish = {"name": "given", "disk_format": "raw", "container_format": "bare"}
    image = good(one.ask("POST", "/image/v2/images", wish))["id"]
    octets = {"Content-Type": "application/octet-stream"}
    path = f"/image/v2/images/{image}/file"
    assert one.ask("PUT", path, data, **octets)[0] == 204
    assert two.body(path) == data
    # The other way round, through an import that either may do.
    imported = good(two.ask("POST", "/image/v2/images", wish))["id"]
    assert two.ask("PUT", f"/image/v2/images/{imported}/stage", data, **octets)[0] == 204
    assert one.ask("POST", f"/image/v2/images/{imported}/import", {"method": {"name": "glance-direct"}})[0] == 202
    until(lambda: good(one.ask("GET", f"/image/v2/images/{imported}"))["status"] == "active")
    assert one.body(f"/image/v2/images/{imported}/file") == two.body(f"/image/v2/images/{imported}/file") == data

    project = good(one.ask("GET", "/identity/v3/auth/projects"))["projects"][0]["id"]
    account = f"/object-store/v1/AUTH_{project}"
    assert one.ask("PUT", f"{account}/c")[0] == 201
    assert one.ask("PUT", f"{account}/c/o", data, **octets)[0] == 201
    assert two.body(f"{account}/c/o") == data

    user = good(one.ask("GET", "/identity/v3/users?name=demo", user="admin"))["users"][0]["id"]
    made = good(one.ask("POST", f"/identity/v3/users/{user}/credentials/OS-EC2", {"tenant_id": project}))["credential"]
    seen = good(two.ask("GET", f"/identity/v3/users/{user}/credentials/OS-EC2/{made['access']}"))["credential"]
    assert seen["secret"] == made["secret"]
    return str(image)


def _another(found: tuple[str, int] | None, owner: str) -> tuple[str, int] | None:
    return found if found is not None and found[0] != owner else None
