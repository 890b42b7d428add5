"""A cloud of several machines on this one: PostgreSQL, two control processes without a shared directory, OVN, hosts.

Tests see the public API, through the stock SDK, and what is outside the cloud.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import openstack
import psycopg
from attrs import define
from cryptography.fernet import Fernet
from openstack.exceptions import BadRequestException

from tests.bounds import ending_within
from tests.drivers.libvirt import daemon, pki
from tests.drivers.netns.lab import run
from tests.drivers.ovn import lab
from tests.drivers.rbd.cluster import POOL, USER
from tests.drivers.rbd.cluster import Cluster as Ceph
from tests.live import guest_image
from tests.live.load import PATIENCE
from tests.live.machine import METADATA_PORTS, METADATA_SECRET, Central, Machine, Wires
from tests.live.process import PASSWORDS, LiveCloud

HOSTS = ("east", "north", "west")
GATEWAYS = ("north", "west", "east")  # in order of preference; the next one takes over if it still sees a third
# Seconds after which a story is given up, whatever it waits for.
ENDS = 1500.0
# Nothing depends on a lease ending: a dead process is missed by its connection.
TOML = """
[database]
url = "{url}"
sealing_keys = ["{key}"]
[tasks]
lease = 3600.0
[image.stores.default]
driver = "file"
[network]
public_cidr = "203.0.113.0/24"
physical_networks = ["public"]
[driver.objects.file]
directory = "{backends}/contents"
[driver.volume.fake]
directory = "{backends}/volumes"
[drivers]
volume = "{volume}"
network = "ovn"
fencer = "{fencer}"
hypervisor = {{ rack = "libvirt", here = "fake" }}
[driver.hypervisor.here]
hosts = 1
directory = "{backends}/guests"
[driver.hypervisor.rack]
hosts = {{ {hosts} }}
peers = {{ {hosts} }}
directory = "{disks}"
accelerator = "tcg"
slots = 2
retry_seconds = 1.0
keepalive_seconds = 1
migration_mib_per_second = {pace}
migration_pause = 0.05
[driver.network.ovn]
northbound = ["{northbound}"]
southbound = ["{southbound}"]
silence_seconds = 5.0
gateway_chassis = [{gateways}]
datapath = "netdev"
metadata = {metadata}
"""
METADATA = """
[compute]
metadata_listen = "tcp:{port}:interface={here}"
metadata_secret = "{secret}"
"""
VOLUMES = """
[driver.volume.rbd]
monitors = ["{monitor}"]
pool = "{pool}"
user = "{user}"
keyring = "{keyring}"
"""


def lacking() -> str | None:
    """Why such a cluster is impossible here."""
    return daemon.lacking() or lab.lacking() or guest_image.lacking()


def until(what: str, seen: Callable[[], Any], instead: Callable[[], object] = lambda: "never") -> Any:
    """`instead`: what to report if the wait was in vain."""
    give_up = time.monotonic() + PATIENCE
    while not (found := seen()):
        assert time.monotonic() < give_up, f"{what}: {instead()}"
        time.sleep(0.1)
    return found


@define(eq=False)
class Cluster:
    directory: Path
    wires: Wires
    central: Central
    hosts: dict[str, Machine]
    processes: list[LiveCloud]
    database: str  # its URL, as libpq takes it
    key: Path  # the ssh key that guests accept

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
        """Host → whether the guest is on there, for the hosts that have it; from libvirt itself."""
        import libvirt

        found = {}

        def opened(host: Machine) -> Any:
            with suppress(libvirt.libvirtError):  # it is being started again
                return libvirt.open(host.uri)

        for name, host in self.hosts.items():
            connection = until(f"the libvirtd of {name} answers", partial(opened, host))
            for guest in connection.listAllDomains():
                if guest.name() == id:
                    with suppress(libvirt.libvirtError):  # it has gone since it was listed
                        found[name] = bool(guest.isActive())
            connection.close()
        return found

    def worker(self, kind: str) -> LiveCloud | None:
        """The process that works on a task of this kind."""
        sought = "SELECT p.pid FROM tasks t JOIN task_processes p ON p.owner = t.owner WHERE t.kind = %s"
        with psycopg.connect(self.database) as connection:
            pids = {row[0] for row in connection.execute(sought, [kind])}
        return next((each for each in self.processes if each.process is not None and each.process.pid in pids), None)

    def killed(self, what: str) -> None:
        """kill -9 of one of OVN's own daemons, which is started again."""
        if what == "ovn-northd":
            self.central.stop_northd()
            self.central.start_northd()
        else:
            server = {"northbound": self.central.northbound, "southbound": self.central.southbound}[what]
            server.stop()
            server.start()

    # -- from outside

    def ssh(self, address: str, command: str) -> subprocess.Popen[str]:
        """The command in the guest that has this floating address."""
        words = ["ip", "netns", "exec", self.wires.outside, "ssh", "-i", str(self.key), "-o", "BatchMode=yes"]
        words += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=2"]
        words += ["-o", "LogLevel=ERROR", f"root@{address}", command]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def say(self, address: str, command: str) -> str:
        """What the command prints there, once the guest can be reached."""

        def said() -> str | None:
            made = self.ssh(address, command)
            out, _ = made.communicate(timeout=60)
            # 255 is ssh's own: no connection, or not let in yet.
            assert made.returncode in (0, 255), out
            return out.strip() or " " if made.returncode == 0 else None

        return str(until(f"{command!r} at {address}", said))


@contextmanager
def a_cluster(
    directory: Path, postgresql_url: str, names: Sequence[str] = HOSTS, disks: str = "/var/lib/libvirt/guests",
    fencer: str = "", more: str = "", pace: int = 40, ceph: bool = False, metadata: bool = False,
) -> Iterator[Cluster]:  # fmt: skip
    """`disks`: the directory on each host; below /var/lib/libvirt it is separate on each. `more`: TOML. `pace`: MiB/s
    of migrations. `ceph`: whether volumes are in a Ceph cluster, which is created. `metadata`: whether guests find
    theirs at 169.254.169.254, too.
    """
    with ExitStack() as left, ending_within(ENDS):
        # Paths of sockets must be short.
        short = Path(tempfile.mkdtemp(prefix="cc-"))
        left.callback(shutil.rmtree, short)
        wires = Wires()
        left.callback(wires.stop)
        wires.start()
        central = Central(wires)
        left.callback(shutil.rmtree, central.directory)
        left.callback(central.stop)
        certificates = pki.make(short / "pki", [wires.address(number + 1) for number in range(len(names))])
        hosts: dict[str, Machine] = {}
        for name in names:
            (short / name).mkdir()
            hosts[name] = Machine(wires, short / name, certificates, name, name in GATEWAYS, metadata)
            left.callback(hosts[name].end)
            left.callback(hosts[name].tell)
            hosts[name].start()
        if ceph:
            (short / "ceph").mkdir()
            keeping = Ceph(short / "ceph", wires.here)
            left.callback(keeping.end)
            keeping.start()
            more += VOLUMES.format(monitor=keeping.monitor, pool=POOL, user=USER, keyring=keeping.keyring)
        toml = TOML.format(
            volume="rbd" if ceph else "fake",
            backends=directory / "backends",
            url=postgresql_url,
            key=Fernet.generate_key().decode(),
            hosts=", ".join(f'{name} = "{host.tls_uri}"' for name, host in hosts.items()),
            disks=disks,
            pace=pace,
            northbound=central.northbound.remote,
            southbound=central.southbound.remote,
            fencer=fencer,
            metadata=str(metadata).lower(),
            gateways=", ".join(f'"{each}"' for each in GATEWAYS),
        )
        key = directory / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        for host in hosts.values():
            host.wait()
        processes: list[LiveCloud] = []
        for name, port in zip(("one", "two"), METADATA_PORTS, strict=True):
            (directory / name).mkdir()
            own = METADATA.format(port=port, here=wires.here, secret=METADATA_SECRET) if metadata else ""
            processes.append(LiveCloud(directory / name, toml + more + own))
            left.callback(processes[-1].kill)
        for process in processes:
            process.start(wait=False)
        for process in processes:
            process.wait(time.monotonic())
        yield Cluster(short, wires, central, hosts, processes, postgresql_url.replace("+psycopg", ""), key)


@define(eq=False)
class Admin:
    """What an administrator does, and sees."""

    cloud: Any

    def knows(self, hosts: int) -> None:
        """All of `hosts` hosts answer: on a busy machine one that has just started may not do so for a moment."""

        def answering() -> bool:
            found = list(self.cloud.compute.hypervisors(details=True))
            return len(found) == hosts and all(each.state == "up" for each in found)

        until("all hosts are there", answering)

    def boot(self, host: str, image: str, flavor: str, **more: Any) -> str:
        wish = {"name": host, "image_id": image, "flavor_id": flavor, "networks": "none", "host": host, **more}
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

    def console(self, id: str) -> str:
        return str(self.cloud.compute.get_server_console_output(id)["output"]).replace("\r", "")

    def migrate(self, id: str, host: str) -> Any:
        """The migration, once the guest is on its way."""

        def under_way() -> Any:
            found = list(self.cloud.compute.server_migrations(id))
            return found[0] if found and found[0].status == "running" and found[0].memory_total_bytes else None

        return self.sent(id, host, under_way)

    def sent(self, id: str, host: str, seen: Callable[[], Any]) -> Any:
        """What is `seen` once it has been told to go to the host. A host whose libvirtd has just been restarted cannot
        be reached for a moment, so the request is repeated."""

        def asked() -> Any:
            found = self.server(id)
            if found.compute_host == host:
                return True  # it was too quick to be seen
            if found.task_state is not None:
                return None
            try:
                self.cloud.compute.live_migrate_server(id, host=host, block_migration="auto")
            except BadRequestException:
                return None  # one of the hosts is shown as down for a moment
            given: list[Any] = []

            def decided() -> bool:
                given.append(seen())
                return bool(given[-1]) or self.server(id).task_state is None

            until(f"{id} is on its way or refused", decided)
            return given[-1]

        return until(f"the guest of {id} is on its way", asked)

    def hurry(self, migration: Any, id: str) -> None:
        self.cloud.compute.force_complete_server_migration(migration, id)
