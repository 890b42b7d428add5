"""Two control processes sharing a PostgreSQL but no directory; guests on three hosts with OVN between them.

Through the public API with the stock SDK. Each host has namespaces of its own, with disks that no other host sees; it
needs root and Debian packages, which `.ci/run` installs; elsewhere it is skipped with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.drivers.qemu import counting_guest
from tests.drivers.qemu.counting_guest import counts
from tests.live import cluster as clusters
from tests.live import gates
from tests.live.cluster import GATEWAYS, HOSTS, Admin, Cluster, a_cluster, until
from tests.live.process import LiveCloud
from tests.live.tenant import Guest, Tenant, watched
from tests.live.watching import Watch, emulated
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

METADATA = "http://169.254.169.254/openstack/latest/meta_data.json"
MOVES = "compute.server.live_migrate"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, postgresql_url: str) -> Iterator[Cluster]:
    need(clusters.lacking(), HOST)
    with a_cluster(tmp_path_factory.mktemp("cluster"), postgresql_url, metadata=True) as made:
        yield made


def test_guests_go_on_while_they_move_and_hosts_daemons_and_processes_are_killed(cluster: Cluster) -> None:
    """One story, since each step needs those before it."""
    admin = Admin(cluster.connection(cluster.processes[0]))
    admin.knows(len(HOSTS) + 1)
    tenant = Tenant.moved_in(cluster, admin)
    # One takes its key from its config drive, the other one asks for it.
    ids = [tenant.booting("east"), tenant.booting("north", config_drive=False)]
    counter = a_counter(admin, "west")
    one = tenant.guest(ids[0])
    closed_until_a_rule_opens(tenant, one)
    reached_by_a_port(tenant, ids[1])
    two = tenant.guest(ids[1])
    neighbours(tenant, one, two)
    emulated(lambda: moves_with_its_address(tenant, one))
    stays_when_called_back(cluster, admin, counter)
    moves_off(cluster, admin, counter)
    gates.make(cluster.database)
    for step in (None, "prepare", "move", "leave"):
        all_die_between_steps(tenant, one, step)
    daemons_are_killed_meanwhile(tenant, one)
    daemons_are_killed_at_the_switch(tenant, one)
    outlives_a_process(tenant, one)
    admin = tenant.admin
    outlives_its_host(tenant, two)
    for id in (*ids, counter):
        admin.cloud.compute.delete_server(id)
    until("nothing is left of them", lambda: not any(cluster.having(id) for id in (*ids, counter)))


def a_counter(admin: Admin, host: str) -> str:
    """A server whose guest writes to memory so fast that its migration does not finish by itself."""
    wish = {"name": "counting", "disk_format": "raw", "container_format": "bare"}
    image = admin.cloud.image.create_image(**wish, data=counting_guest.disk(), validate_checksum=False)
    flavor = admin.cloud.compute.create_flavor(name="tiny", ram=counting_guest.MEMORY_MIB, vcpus=1, disk=1)
    id = admin.boot(host, image.id, flavor.id)
    admin.settled(id, "ACTIVE")
    return id


def closed_until_a_rule_opens(tenant: Tenant, guest: Guest) -> None:
    assert not tenant.connects(guest.floating, 22)
    rule = tenant.let_in("tcp", 22)
    until("ssh is let through", lambda: tenant.connects(guest.floating, 22))
    tenant.admin.cloud.network.delete_security_group_rule(rule)
    until("ssh is dropped again", lambda: not tenant.connects(guest.floating, 22))
    tenant.let_in("tcp", 22)
    tenant.let_in("icmp")


def reached_by_a_port(tenant: Tenant, id: str) -> None:
    tenant.admin.settled(id, "ACTIVE")
    with tenant.forwarded(id, 2222, 22) as address:
        until("a port of an address leads there", lambda: tenant.connects(address, 2222))


def neighbours(tenant: Tenant, one: Guest, two: Guest) -> None:
    """They are on two hosts; they learned their addresses by DHCP."""
    say = tenant.cluster.say
    for guest, other in ((one, two), (two, one)):
        assert f"inet {guest.inner}/24" in say(guest.floating, "ip address show dev eth0")
        assert "mtu 1442" in say(guest.floating, "ip link show dev eth0")
        assert " 0% packet loss" in say(guest.floating, f"ping -c 3 -W 5 {other.inner}")
        told_of_itself(tenant, guest)


def told_of_itself(tenant: Tenant, guest: Guest) -> None:
    """By the proxy of the host that it is on."""
    asking = f"timeout 10 wget -q -O - {METADATA} || true"
    until(f"{guest.id} finds its metadata", lambda: guest.id in tenant.cluster.say(guest.floating, asking))


def moves_with_its_address(tenant: Tenant, guest: Guest) -> None:
    """Its disk moves along: each host has its own."""
    there = other_host(tenant, guest)
    with watched(tenant, guest) as watch:
        began = time.monotonic()
        tenant.admin.migrate(guest.id, there)
        assert tenant.on_one_side(guest) == there
        print(f"moved within {time.monotonic() - began:.1f} s: {watch.facts()}")
        watch.goes_on()
    told_of_itself(tenant, guest)


def stays_when_called_back(cluster: Cluster, admin: Admin, id: str) -> None:
    until("it counts", lambda: counts(admin.console(id)))
    admin.cloud.compute.abort_server_migration(admin.migrate(id, "north"), id)
    assert admin.settled(id, "ACTIVE").compute_host == "west"
    assert cluster.having(id) == {"west": True}


def moves_off(cluster: Cluster, admin: Admin, id: str) -> None:
    """A cold migration takes the disk along."""
    admin.cloud.compute.migrate_server(id, host="east")
    admin.settled(id, "VERIFY_RESIZE")
    admin.cloud.compute.confirm_server_resize(id)
    assert admin.settled(id, "ACTIVE").compute_host == "east"
    assert cluster.having(id) == {"east": True}
    # It was started there, so it counts from the beginning.
    until("it counts", lambda: counts(admin.console(id)))


def all_die_between_steps(tenant: Tenant, guest: Guest, step: str | None) -> None:
    """The process that moves it, its hosts' libvirtds and OVN's daemons die at the end of a step that is not recorded
    yet. None: the first one, which claims the new place.
    """
    cluster = tenant.cluster

    def once() -> None:
        with watched(tenant, guest) as watch:
            here, there = tenant.on_one_side(guest), other_host(tenant, guest)
            with gates.closed(cluster.database, MOVES, step) as gate:
                tenant.admin.sent(guest.id, there, lambda: gate.holds)
                stopped = process_dies(tenant)
                libvirtds_are_killed(cluster, here, there)
                everything_of_ovn(cluster)
            try:
                where = tenant.on_one_side(guest)
            finally:
                stopped.start()
            reached(tenant, guest, watch)
            told(f"all of them were killed at the end of step {step or 'schedule'}", where == there, watch)

    emulated(once)


def daemons_are_killed_meanwhile(tenant: Tenant, guest: Guest) -> None:
    """Each of them while the guest is on its way. It ends on one side, and has missed nothing."""
    hosts = tenant.cluster.hosts
    for what, kill in {
        "libvirtd of the source was killed": lambda here, _there: hosts[here].kill("libvirtd"),
        "libvirtd of the target was killed": lambda _here, there: hosts[there].kill("libvirtd"),
        "its QEMU at the target was killed": lambda _here, there: hosts[there].kill_guest(guest.id),
    }.items():
        emulated(partial(moves_while, tenant, guest, what, kill, Watch.goes_on))
    kill = partial(everything_of_ovn, tenant.cluster)
    emulated(partial(moves_while, tenant, guest, "OVN's daemons were killed", kill, partial(reached, tenant, guest)))


def daemons_are_killed_at_the_switch(tenant: Tenant, guest: Guest) -> None:
    """Each of them while it is paused to change sides: the target's libvirtd, which would report its arrival, is
    stopped as soon as it is no longer needed to transfer memory.
    """
    hosts = tenant.cluster.hosts

    def at_the_switch(kill: Callable[[str, str], object], here: str, there: str) -> None:
        hosts[there].freeze()
        try:
            hosts[here].hasten(guest.id)
            until("it stands still, or was too quick", lambda: hosts[here].stands_still(guest.id) is not False)
            print("it stands still" if hosts[here].stands_still(guest.id) else "it was too quick")
            kill(here, there)
        finally:
            hosts[there].thaw()

    for what, kill in {
        "libvirtd of the target was killed": lambda _here, there: hosts[there].kill("libvirtd"),
        "libvirtd of the source was killed": lambda here, _there: hosts[here].kill("libvirtd"),
        "both libvirtds were killed": lambda here, there: libvirtds_are_killed(tenant.cluster, here, there),
        "its QEMU at the target was killed": lambda _here, there: hosts[there].kill_guest(guest.id),
    }.items():
        happen = partial(at_the_switch, kill)
        emulated(partial(moves_while, tenant, guest, f"{what} at the switch", happen, Watch.goes_on))

    stopped: list[LiveCloud] = []

    def process_and_ovn(_here: str, _there: str) -> None:
        stopped.append(process_dies(tenant))
        everything_of_ovn(tenant.cluster)

    def once() -> None:
        while stopped:
            stopped.pop().start()
        what = "a process and OVN's daemons were killed at the switch"
        moves_while(tenant, guest, what, partial(at_the_switch, process_and_ovn), partial(reached, tenant, guest))

    emulated(once)
    stopped.pop().start()


def reached(tenant: Tenant, guest: Guest, watch: Watch) -> None:
    # The daemon tracks userspace packets, so connections may be cut when it dies.
    so_far = len(watch.lines)
    with watch.unless_it_hangs():
        assert "load average" in tenant.cluster.say(guest.floating, "uptime")
    print("what was connected", "goes on" if watch.counts_on(so_far) else "was cut")


def moves_while(
    tenant: Tenant, guest: Guest, what: str, happen: Callable[[str, str], object], then: Callable[[Watch], object]
) -> None:
    """Runs `happen(here, there)` meanwhile, and `then` when it has arrived."""
    here, there = tenant.on_one_side(guest), other_host(tenant, guest)
    with watched(tenant, guest) as watch:
        # Asked of libvirt itself, since `happen` must run before the guest has arrived.
        source = tenant.cluster.hosts[here]
        tenant.admin.sent(guest.id, there, lambda: source.is_sending(guest.id))
        happen(here, there)
        where = tenant.on_one_side(guest)
        then(watch)
        told(what, where == there, watch)


def told(what: str, moved: bool, watch: Watch) -> None:
    print(f"{what}, and the guest is {'there' if moved else 'here'}: {watch.facts()}")


def other_host(tenant: Tenant, guest: Guest) -> str:
    """The other of the two hosts between which it alternates."""
    here = tenant.on_one_side(guest)
    return next(each for each in ("east", "west") if each != here)


def libvirtds_are_killed(cluster: Cluster, *hosts: str) -> None:
    for host in hosts:
        cluster.hosts[host].kill("libvirtd")


def everything_of_ovn(cluster: Cluster, *hosts: str) -> None:
    for what in ("northbound", "southbound", "ovn-northd"):
        cluster.killed(what)
    for host in hosts:
        for program in ("ovn-controller", "ovs-vswitchd", "ovsdb-server"):
            cluster.hosts[host].kill(program)


def process_dies(tenant: Tenant) -> LiveCloud:
    """Kills the process that moves a server; the other one is used from then on, and finishes the move."""
    cluster = tenant.cluster
    worker: LiveCloud = until("a process moves it", lambda: cluster.worker(MOVES))
    worker.kill()
    tenant.admin = Admin(cluster.connection(next(each for each in cluster.processes if each is not worker)))
    return worker


def outlives_a_process(tenant: Tenant, guest: Guest) -> None:
    """A process is killed while the guest is on its way."""
    stopped: list[LiveCloud] = []

    def killed(_here: str, _there: str) -> None:
        stopped.append(process_dies(tenant))

    def once() -> None:
        while stopped:
            stopped.pop().start()
        moves_while(tenant, guest, "a process was killed", killed, Watch.goes_on)

    emulated(once)


def outlives_its_host(tenant: Tenant, guest: Guest) -> None:
    """The host, which also has the floating addresses, is switched off; the server is rebuilt on another. The old
    host, when it returns, drops it."""
    cluster, admin = tenant.cluster, tenant.admin
    host = tenant.on_one_side(guest)
    assert host == GATEWAYS[0]
    lost = cluster.hosts.pop(host)
    lost.end()

    def is_down() -> bool:
        return any(each.host == host and each.state == "down" for each in admin.cloud.compute.services())

    until(f"{host} is seen to be down", is_down)
    admin.cloud.compute.evacuate_server(guest.id, host="west")
    assert tenant.on_one_side(guest) == "west"
    assert cluster.say(guest.floating, "hostname") == host_name(admin, guest)
    lost.start()
    cluster.hosts[host] = lost
    until(f"{host} drops what it had", lambda: cluster.having(guest.id) == {"west": True})


def host_name(admin: Admin, guest: Guest) -> str:
    return str(admin.server(guest.id).name)
