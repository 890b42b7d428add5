"""Two control processes with a PostgreSQL, and no directory, in common; guests on three libvirt hosts.

Through the public API with the stock SDK.

Each host is a libvirtd in namespaces of its own, with disks that no other host sees; they reach each other by TLS. It
needs root and Debian packages, which `.ci/run` installs; elsewhere it is skipped with the reason.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openstack
import psycopg
import pytest
from attrs import define
from cryptography.fernet import Fernet

from tests.drivers.libvirt import pki
from tests.drivers.libvirt.daemon import Libvirtd, lacking
from tests.drivers.qemu import counting_guest
from tests.drivers.qemu.counting_guest import counts
from tests.live.load import PATIENCE
from tests.live.process import PASSWORDS, LiveCloud
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

HOSTS = ("east", "north", "west")
# A guest that writes to its memory does not arrive by itself at this pace; and nothing goes on because a lease ends.
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
[driver.volume.fake]
directory = "{backends}/volumes"
[driver.network.fake]
directory = "{backends}/networks"
[drivers]
hypervisor = {{ rack = "libvirt", here = "fake" }}
[driver.hypervisor.here]
hosts = 1
directory = "{backends}/guests"
[driver.hypervisor.rack]
hosts = {{ {hosts} }}
peers = {{ {hosts} }}
accelerator = "tcg"
slots = 2
retry_seconds = 1.0
keepalive_seconds = 1
migration_mib_per_second = 1
migration_pause = 0.01
"""


def until(what: str, seen: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + PATIENCE
    while not (found := seen()):
        assert time.monotonic() < give_up, what
        time.sleep(0.1)
    return found


@define(eq=False)
class Cluster:
    hosts: dict[str, Libvirtd]
    processes: list[LiveCloud]
    database: str  # its URL, as libpq takes it

    def connection(self, process: LiveCloud) -> Any:
        """The stock SDK, as an administrator."""
        auth = {
            "auth_url": f"{process.url}/identity",
            "username": "admin",
            "password": PASSWORDS["admin"],
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }
        return openstack.connect(auth=auth, region_name="RegionOne", compute_default_microversion="2.90")

    def having(self, id: str) -> dict[str, bool]:
        """Host → whether the guest is on there, of the hosts that have it; asked of libvirt itself."""
        import libvirt

        found = {}
        for name, daemon in self.hosts.items():
            connection = libvirt.open(daemon.uri)
            for guest in connection.listAllDomains():
                if guest.name() == id:
                    with suppress(libvirt.libvirtError):  # it has gone since it was listed
                        found[name] = bool(guest.isActive())
            connection.close()
        return found

    def worker(self, kind: str) -> LiveCloud | None:
        """The process that has a task of this kind in hand."""
        sought = "SELECT p.pid FROM tasks t JOIN task_processes p ON p.owner = t.owner WHERE t.kind = %s"
        with psycopg.connect(self.database) as connection:
            pids = {row[0] for row in connection.execute(sought, [kind])}
        return next((each for each in self.processes if each.process is not None and each.process.pid in pids), None)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, postgresql_url: str) -> Iterator[Cluster]:
    need(lacking(), HOST)
    # The paths of sockets are short.
    directory = Path(tempfile.mkdtemp(prefix="cc-"))
    certificates = pki.make(directory / "pki")
    hosts: dict[str, Libvirtd] = {}
    processes: list[LiveCloud] = []
    try:
        for name in HOSTS:
            (directory / name).mkdir()
            hosts[name] = Libvirtd(directory / name, certificates, name)
        named = ", ".join(f'{name} = "{daemon.tls_uri}"' for name, daemon in hosts.items())
        own = tmp_path_factory.mktemp("cluster")
        toml = TOML.format(
            backends=own / "backends", url=postgresql_url, key=Fernet.generate_key().decode(), hosts=named
        )
        for name in ("one", "two"):
            (own / name).mkdir()
            processes.append(LiveCloud(own / name, toml))
            processes[-1].start()
        yield Cluster(hosts, processes, postgresql_url.replace("+psycopg", ""))
    finally:
        for process in processes:
            process.kill()
        for daemon in hosts.values():
            daemon.end()
        shutil.rmtree(directory)


@define(eq=False)
class Admin:
    """What an administrator does, and sees."""

    cloud: Any

    def boot(self, host: str, image: str, flavor: str) -> str:
        wish = {"name": host, "image_id": image, "flavor_id": flavor, "networks": "none", "host": host}
        return str(self.cloud.compute.create_server(**wish).id)

    def server(self, id: str) -> Any:
        found = self.cloud.compute.get_server(id)
        assert found.status != "ERROR", found.fault
        return found

    def settled(self, id: str, status: str) -> Any:
        """The server, once it has this status and nothing is under way."""

        def ready() -> Any:
            found = self.server(id)
            return found if found.status == status and found.task_state is None else None

        return until(f"server {id} is {status}", ready)

    def counted(self, id: str) -> list[int]:
        """What the guest has written on the console of the host where it is, once there is something."""

        def written() -> list[int]:
            return counts(self.cloud.compute.get_server_console_output(id)["output"].replace("\r", ""))

        return list(until(f"the guest of {id} counts", written))

    def migrate(self, id: str, host: str) -> Any:
        """The migration, once the guest is on its way; by itself it does not arrive."""
        self.cloud.compute.live_migrate_server(id, host=host, block_migration="auto")

        def under_way() -> Any:
            found = list(self.cloud.compute.server_migrations(id))
            return found[0] if found and found[0].status == "running" and found[0].memory_total_bytes else None

        return until(f"the guest of {id} is on its way", under_way)

    def hurry(self, migration: Any, id: str) -> None:
        self.cloud.compute.force_complete_server_migration(migration, id)


def goes_on(before: list[int], after: list[int]) -> bool:
    """Whether a guest that counted so far has neither begun anew nor left out a number."""
    return after[0] > before[-1] and after == list(range(after[0], after[0] + len(after)))


def test_guests_move_among_hosts_while_hosts_and_processes_are_killed(cluster: Cluster) -> None:
    """One story, since each step needs those before it."""
    admin = Admin(cluster.connection(cluster.processes[0]))
    image, flavor = prepared(admin)
    one, two = (admin.boot(host, image, flavor) for host in ("east", "west"))
    for id in (one, two):
        admin.settled(id, "ACTIVE")
    moves_while_it_counts(cluster, admin, one)
    stays_when_called_back(cluster, admin, one)
    moves_off(cluster, admin, two)
    admin = outlives_a_process(cluster, admin, one)
    outlives_its_host(cluster, admin, two)
    for id in (one, two):
        admin.cloud.compute.delete_server(id)
    until("nothing is left of them", lambda: not cluster.having(one) and not cluster.having(two))


def prepared(admin: Admin) -> tuple[str, str]:
    until("all hosts are known", lambda: len(list(admin.cloud.compute.hypervisors())) == len(HOSTS) + 1)
    wish = {"name": "counting", "disk_format": "raw", "container_format": "bare"}
    image = admin.cloud.image.create_image(**wish, data=counting_guest.disk(), validate_checksum=False)
    flavor = admin.cloud.compute.create_flavor(name="tiny", ram=counting_guest.MEMORY_MIB, vcpus=1, disk=1)
    return str(image.id), str(flavor.id)


def moves_while_it_counts(cluster: Cluster, admin: Admin, id: str) -> None:
    before = admin.counted(id)
    admin.hurry(admin.migrate(id, "north"), id)
    assert admin.settled(id, "ACTIVE").compute_host == "north"
    assert cluster.having(id) == {"north": True}
    assert goes_on(before, admin.counted(id))


def stays_when_called_back(cluster: Cluster, admin: Admin, id: str) -> None:
    admin.cloud.compute.abort_server_migration(admin.migrate(id, "west"), id)
    assert admin.settled(id, "ACTIVE").compute_host == "north"
    assert cluster.having(id) == {"north": True}


def moves_off(cluster: Cluster, admin: Admin, id: str) -> None:
    """A cold migration takes the disk along."""
    admin.cloud.compute.migrate_server(id, host="east")
    admin.settled(id, "VERIFY_RESIZE")
    admin.cloud.compute.confirm_server_resize(id)
    host = admin.settled(id, "ACTIVE").compute_host
    assert host == "east" and cluster.having(id) == {host: True}
    # It was started there, so it counts anew.
    assert admin.counted(id)


def outlives_a_process(cluster: Cluster, admin: Admin, id: str) -> Admin:
    """Whoever moves it is killed in the midst of it; the other one brings it to an end. Who is asked from now on."""
    before = admin.counted(id)
    there = "west"
    under_way = admin.migrate(id, there)
    worker = until("a process moves it", lambda: cluster.worker("compute.server.live_migrate"))
    worker.kill()
    other = Admin(cluster.connection(next(each for each in cluster.processes if each is not worker)))
    until("the other moves it", lambda: cluster.worker("compute.server.live_migrate") not in (None, worker))
    other.hurry(under_way, id)
    assert other.settled(id, "ACTIVE").compute_host == there
    assert cluster.having(id) == {there: True}
    assert goes_on(before, other.counted(id))
    return other


def outlives_its_host(cluster: Cluster, admin: Admin, id: str) -> None:
    """The host is switched off; the server is made anew on another, and the old one, when it returns, drops it."""
    host = admin.server(id).compute_host
    lost = cluster.hosts.pop(host)
    lost.end()

    def is_down() -> bool:
        return any(each.host == host and each.state == "down" for each in admin.cloud.compute.services())

    until(f"{host} is seen to be down", is_down)
    there = min(cluster.hosts)
    admin.cloud.compute.evacuate_server(id, host=there)
    assert admin.settled(id, "ACTIVE").compute_host == there
    assert cluster.having(id) == {there: True}
    assert admin.counted(id)
    lost.start()
    cluster.hosts[host] = lost
    until(f"{host} drops what it had", lambda: cluster.having(id) == {there: True})
