"""Hosts that die, or are cut off, and are recovered from by the cloud itself: it notices, proves, and only then acts.

Hosts see one directory with their guests' disks, as on a shared file system, so a guest that ran twice would write one
image twice: the test looks for that all the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from attrs import define, field

from tests.live import cluster as clusters
from tests.live.cluster import HOSTS, Admin, Cluster, a_cluster, until
from tests.live.machine import Machine
from tests.live.process import LiveCloud
from tests.live.tenant import Guest, Tenant
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

PLUGIN = """
from cloudctl.drivers.maker import DriverMaker
plug = DriverMaker("fencer", "plug", "power_plug_of_the_tests", "Machines that are processes lose their power")
"""
# What a machine is, is in a file of its name: its first process, and the one that holds that. While there is a file
# `stuck` the controller does not answer; who asked it last is in `asked`.
MODULE = """
import os, signal, time
from pathlib import Path
from attrs import frozen
from zope.interface import implementer
from cloudctl.drivers.errors import UnknownHost, Unreachable
from cloudctl.drivers.interfaces import IFencer

@frozen
class Config:
    directory: Path = Path("/nowhere")

def create(config, resources):
    return Plug(config.directory)

@implementer(IFencer)
class Plug:
    def __init__(self, directory):
        self.directory = directory

    async def check(self):
        pass

    async def close(self):
        pass

    async def ensure_fenced(self, host):
        file = self.directory / host
        if not file.exists():
            raise UnknownHost(host)
        (self.directory / "asked").write_text(str(os.getpid()))
        if (self.directory / "stuck").exists():
            raise Unreachable("the controller of the plugs does not answer")
        (self.directory / f"{host}.on").unlink(missing_ok=True)
        holder, first = file.read_text().split()
        try:
            os.kill(int(holder), signal.SIGKILL)
        except ProcessLookupError:
            pass
        end = time.monotonic() + 5
        while Path(f"/proc/{first}").exists():
            if time.monotonic() > end:
                raise Unreachable(f"process {first} is still there")
            time.sleep(0.01)
        return f"process {first}, which was {host}, is gone"

    async def ensure_unfenced(self, host):
        (self.directory / f"{host}.on").touch()
"""
TOML = """
[driver.fencer.plug]
directory = "{plugs}"
[instance_ha]
unknown_silence = 3.0
unknown_interval = 2.0
fencing_interval = 1.0
"""


@define(eq=False)
class Plugs:
    """By which machines have power."""

    directory: Path

    def put_in(self, cluster: Cluster, name: str) -> None:
        host = cluster.hosts[name]
        (self.directory / name).write_text(f"{host.process.pid} {host.first}")

    @contextmanager
    def stuck(self) -> Iterator[None]:
        file = self.directory / "stuck"
        file.touch()
        yield
        file.unlink()

    def asked_by(self) -> str:
        """The last process that did."""
        return (self.directory / "asked").read_text()

    def is_on(self, name: str) -> bool:
        return (self.directory / f"{name}.on").exists()


@pytest.fixture
def plugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugs:
    (tmp_path / "twisted" / "plugins").mkdir(parents=True)
    (tmp_path / "twisted" / "plugins" / "power_plug_plugin.py").write_text(PLUGIN)
    (tmp_path / "power_plug_of_the_tests.py").write_text(MODULE)
    (tmp_path / "plugs").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Plugs(tmp_path / "plugs")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, plugs: Plugs) -> Iterator[Cluster]:
    need(clusters.lacking(), HOST)
    directory = tmp_path_factory.mktemp("recovery")
    (directory / "disks").mkdir()
    more = TOML.format(plugs=plugs.directory)
    with a_cluster(directory, postgresql_url, disks=str(directory / "disks"), fencer="plug", more=more) as made:
        for name in made.hosts:
            plugs.put_in(made, name)
        yield made


@define(eq=False)
class Writers:
    """Which processes of QEMU have a guest's disk open, looked at all the time, whatever any record says."""

    id: str
    at_once: int = 0
    looks: int = 0
    end: Event = field(factory=Event)

    def look(self) -> None:
        while not self.end.wait(0.02):
            self.at_once = max(self.at_once, sum(map(self._writes, Path("/proc").glob("[0-9]*"))))
            self.looks += 1

    def _writes(self, process: Path) -> bool:
        try:
            if not (process / "comm").read_text().startswith("qemu-system"):
                return False
            return any(os.readlink(each).endswith(f"/{self.id}.root") for each in (process / "fd").iterdir())
        except OSError:
            return False  # it has ended


@contextmanager
def never_twice(guest: Guest) -> Iterator[None]:
    writers = Writers(guest.id)
    looking = Thread(target=writers.look)
    looking.start()
    try:
        yield
    finally:
        writers.end.set()
        looking.join()
    assert writers.at_once == 1, f"{writers.at_once} at once"
    print(f"one writer at most, in {writers.looks} looks")


@define(eq=False)
class Ha:
    """The instance-HA API, asked by whoever is alive."""

    cluster: Cluster

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        process = next(each for each in self.cluster.processes if each.alive)
        newest = {"OpenStack-API-Version": "instance-ha 1.3"}
        status, answer = process.ask(method, f"/instance-ha/v1{path}", body, "admin", **newest)
        assert status < 400, (status, answer)
        return answer

    def watched(self) -> dict[str, str]:
        """All hosts are members of a segment. Their ids there."""
        new = {"name": "rack", "recovery_method": "auto", "service_type": "COMPUTE"}
        segment = self.ask("POST", "/segments", {"segment": new})["segment"]["uuid"]
        path, ids = f"/segments/{segment}/hosts", {}
        for name in HOSTS:
            member = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
            ids[name] = f"{path}/{self.ask('POST', path, {'host': member})['host']['uuid']}"
        return ids

    def open_of(self, name: str) -> dict[str, Any] | None:
        """The last notification of this host."""
        found = self.ask("GET", "/notifications?sort_key=created_at&sort_dir=desc")["notifications"]
        return next((each for each in found if each["hostname"] == name), None)

    def told(self, name: str, status: str) -> dict[str, Any]:
        def seen() -> dict[str, Any] | None:
            found = self.open_of(name)
            return found if found is not None and found["status"] == status else None

        found: dict[str, Any] = until(f"the notification of {name} is {status}", seen)
        return found


def test_hosts_that_die_or_are_cut_off_are_recovered_from_once_they_are_fenced(cluster: Cluster, plugs: Plugs) -> None:
    """One story, since each step needs those before it."""
    admin = Admin(cluster.connection(cluster.processes[0]))
    admin.knows(len(HOSTS) + 1)
    machines = dict(cluster.hosts)
    for service in admin.cloud.compute.services():
        if service.binary == "nova-compute" and service.host not in machines:
            # It has no guests of this kind.
            admin.cloud.compute.disable_service(service)
    tenant, ha = Tenant.moved_in(cluster, admin), Ha(cluster)
    members = ha.watched()
    guest = tenant.guest(tenant.booting("east"))
    tenant.let_in("tcp", 22)
    cluster.say(guest.floating, "echo kept > /root/kept; sync")
    where = its_host_is_killed(tenant, ha, guest)
    # Before another one dies: a gateway stays where it was if the next chassis sees nobody but itself.
    comes_back(tenant, ha, plugs, members["east"], machines["east"], guest)
    its_host_is_cut_off(tenant, ha, plugs, guest, where)
    comes_back(tenant, ha, plugs, members[where], machines[where], guest)
    assert cluster.say(guest.floating, "cat /root/kept") == "kept"


def its_host_is_killed(tenant: Tenant, ha: Ha, guest: Guest) -> str:
    """Nobody tells of it. The fencer finds the host off, and that is proof."""
    with never_twice(guest):
        tenant.cluster.hosts["east"].end()
        ha.told("east", "finished")
    del tenant.cluster.hosts["east"]
    host = tenant.on_one_side(guest)
    assert tenant.cluster.say(guest.floating, "cat /root/kept") == "kept"
    return host


def its_host_is_cut_off(tenant: Tenant, ha: Ha, plugs: Plugs, guest: Guest, host: str) -> None:
    """Its guest goes on, so nobody else may run it, whoever dies, until the host has no power."""
    cluster = tenant.cluster
    with never_twice(guest):
        with plugs.stuck():
            cluster.hosts[host].cut()
            until("it waits for a proof", lambda: "no proof" in str((ha.open_of(host) or {}).get("message")))
            assert runs(cluster, guest, host)
            one, two = cluster.processes
            for each, other in ((one, two), (two, one)):
                killed_and_missed(plugs, each, other)
            assert runs(cluster, guest, host) and (ha.open_of(host) or {})["status"] == "running"
            proven = time.monotonic()
        ha.told(host, "finished")
        print(f"recovered {time.monotonic() - proven:.1f} s after the fencer could be asked again")
    tenant.admin = Admin(cluster.connection(cluster.processes[0]))
    cluster.hosts.pop(host).end()
    assert tenant.on_one_side(guest) != host
    assert cluster.say(guest.floating, "cat /root/kept") == "kept"


def runs(cluster: Cluster, guest: Guest, host: str) -> bool:
    """By the host's own libvirtd, which is reached without a cable."""
    return cluster.having(guest.id) == {host: True}


def killed_and_missed(plugs: Plugs, process: LiveCloud, other: LiveCloud) -> None:
    """The other one goes on with the recovery; the first one is started again."""
    process.kill()
    assert other.process is not None
    pid = str(other.process.pid)
    until("the other one asks", lambda: plugs.asked_by() == pid)
    process.start()


def comes_back(tenant: Tenant, ha: Ha, plugs: Plugs, member: str, machine: Machine, guest: Guest) -> None:
    """It has power once an operator says so, and is used once it has nothing that runs elsewhere by now."""
    cluster, host = tenant.cluster, machine.name

    def service() -> Any:
        return next(each for each in tenant.admin.cloud.compute.services() if each.host == host)

    assert not plugs.is_on(host) and service().status == "disabled"
    ha.ask("PUT", member, {"host": {"on_maintenance": False}})
    until(f"{host} gets its power", lambda: plugs.is_on(host))
    assert service().status == "disabled", "it has not been seen yet"
    machine.mend()
    machine.start()
    machine.wait()
    cluster.hosts[host] = machine
    plugs.put_in(cluster, host)
    until(f"{host} is used again", lambda: service().status == "enabled" and service().state == "up")
    assert host not in cluster.having(guest.id), "it has a copy of a guest that runs elsewhere"
