"""Hosts that die, or are cut off, and from which the cloud itself recovers: it notices, proves, and only then acts.

Hosts share one directory with their guests' disks, as on a shared file system, so a guest that ran twice would have two
writers on one image: the test checks for that all the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import cluster as clusters
from tests.live.cluster import HOSTS, Admin, Cluster, a_cluster, until
from tests.live.process import LiveCloud
from tests.live.recovery import TOML, Ha, Plugs, comes_back, never_twice
from tests.live.tenant import Guest, Tenant
from tests.needed import HOST, need

pytestmark = pytest.mark.slow


@pytest.fixture
def plugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugs:
    return Plugs.made(tmp_path, monkeypatch)


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
    comes_back(tenant.admin, ha, plugs, members["east"], machines["east"], guest.id)
    its_host_is_cut_off(tenant, ha, plugs, guest, where)
    comes_back(tenant.admin, ha, plugs, members[where], machines[where], guest.id)
    assert cluster.say(guest.floating, "cat /root/kept") == "kept"


def its_host_is_killed(tenant: Tenant, ha: Ha, guest: Guest) -> str:
    """Nobody reports it. The fencer finds the host off, which is proof."""
    with never_twice(guest.id):
        tenant.cluster.hosts["east"].end()
        ha.told("east", "finished")
    del tenant.cluster.hosts["east"]
    host = tenant.on_one_side(guest)
    assert tenant.cluster.say(guest.floating, "cat /root/kept") == "kept"
    return host


def its_host_is_cut_off(tenant: Tenant, ha: Ha, plugs: Plugs, guest: Guest, host: str) -> None:
    """Its guest goes on, so no other host may run it, whichever process dies, until the host has no power."""
    cluster = tenant.cluster
    with never_twice(guest.id):
        with plugs.being("stuck"):
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
    """According to the host's own libvirtd, which can be reached without a cable."""
    return cluster.having(guest.id) == {host: True}


def killed_and_missed(plugs: Plugs, process: LiveCloud, other: LiveCloud) -> None:
    """The other process goes on with the recovery; the first one is restarted."""
    process.kill()
    assert other.process is not None
    pid = str(other.process.pid)
    until("the other one asks", lambda: plugs.asked_by() == pid)
    process.start()
