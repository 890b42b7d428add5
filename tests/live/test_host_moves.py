"""A guest of `qemu` with a volume and a floating address moves between two hosts while it counts, writes and answers.

Only through the public API. Hosts and the outside are network namespaces; see `host`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.error import URLError

import pytest

from tests.live import host as hosts
from tests.live import test_real_host as tenants
from tests.live import watching
from tests.live.host import HOSTS, Host, a_host, until
from tests.live.test_cluster_volumes import READ, SECTORS, WRITE
from tests.live.watching import COUNT, GuestHangs, Watch, emulated
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

# Slow enough that what is to happen during a migration does.
PACE = "migration_mib_per_second = 24\nmigration_pause = 0.1"
NEWEST = {"OpenStack-API-Version": "compute 2.96"}
DISK = "/dev/vdb"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    need(hosts.lacking(), HOST)
    with a_host(tmp_path_factory.mktemp("moves"), killing=False, guests=PACE) as made:
        yield made


def test_a_guest_moves_while_it_counts_and_whoever_is_killed_it_is_in_one_place(host: Host) -> None:
    """One story, since each step needs those before it."""
    image, network, public = tenants.prepare(host)
    id = host.boot("mover", network, image, key_name="key")
    host.is_now(id, "ACTIVE")
    address = tenants.floating(host, id, public)
    for protocol in ("tcp", "icmp"):
        let_in(host, protocol)
    volume = host.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})["volume"]["id"]
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "available")
    tenants.attach(host, id, volume)
    until("the guest sees the disk", lambda: host.succeeds(address, f"test -b {DISK}"))
    for piece in (moves, aborted, new_process_killed, cloud_killed):
        emulated(partial(counting_and_writing, host, id, address, piece))
    old_process_killed(host, id)
    host.ask("DELETE", f"/compute/v2.1/servers/{id}")
    host.is_gone(f"/compute/v2.1/servers/{id}")
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "available")


def counting_and_writing(host: Host, id: str, address: str, piece: Callable[[Host, str, Watch], None]) -> None:
    with watched(host, id, address) as watch:
        host.ssh(address, WRITE.format(disk=DISK))
        piece(host, id, watch)
        written = int(host.ssh(address, READ))
        found = host.ssh(address, SECTORS.format(disk=DISK, written=written)).split()
        assert found == [str(number) for number in range(written)], found[-20:]
        print(f"{written} sectors were written meanwhile, one after the other, and are there")


def let_in(host: Host, protocol: str) -> None:
    [group] = host.ask("GET", "/networking/v2.0/security-groups?name=default")["security_groups"]
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": protocol}
    host.ask("POST", "/networking/v2.0/security-group-rules", {"security_group_rule": rule})


# -- the guest, as the cloud has it


def place(host: Host, id: str) -> str:
    """The host that has it, according to its record, its volume, its port and its only process."""
    found = str(host.is_now(id, "ACTIVE")["OS-EXT-SRV-ATTR:host"])
    [port] = host.ask("GET", f"/networking/v2.0/ports?device_id={id}", user="admin")["ports"]
    bindings = host.ask("GET", f"/networking/v2.0/ports/{port['id']}/bindings", user="admin")["bindings"]
    assert [(each["host"], each["status"]) for each in bindings] == [(found, "ACTIVE")]
    assert len(qemus(host, id)) == 1
    return found


def qemus(host: Host, id: str) -> dict[bool, int]:
    """Its processes, by whether they have its second seat."""
    found = {}
    for pid in host.processes():
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode().split("\0")
        if id in words:
            found[words[words.index("-pidfile") + 1].endswith("-2.pid")] = pid
    return found


def leaves(host: Host, id: str, **ask: Any) -> tuple[str, str, int]:
    """From where, to where, and by which migration it moves."""
    here = place(host, id)
    (away,) = (each for each in HOSTS if each != here)
    wanted = {"os-migrateLive": {"host": away, "block_migration": "auto", **ask}}
    host.ask("POST", f"/compute/v2.1/servers/{id}/action", wanted, "admin", **NEWEST)

    def runs() -> Any:
        found = host.ask("GET", f"/compute/v2.1/servers/{id}/migrations", None, "admin", **NEWEST)["migrations"]
        return found if found and found[0]["status"] == "running" and found[0]["memory_remaining_bytes"] else None

    [migration] = until("it is on its way", runs)
    assert (migration["source_compute"], migration["dest_compute"]) == (here, away)
    return here, away, migration["id"]


def outcome(host: Host, id: str) -> str:
    """The status of its latest migration."""
    found = host.ask("GET", f"/compute/v2.1/os-migrations?instance_uuid={id}", None, "admin", **NEWEST)["migrations"]
    return str(max(found, key=lambda each: each["id"])["status"])


# -- the story


def moves(host: Host, id: str, watch: Watch) -> None:
    """There, and back by a forced migration."""
    began = time.monotonic()
    _, away, _ = leaves(host, id)
    assert (place(host, id), outcome(host, id)) == (away, "completed")
    watch.goes_on()
    print(f"moved within {time.monotonic() - began:.1f} s: {watch.facts()}")
    _, away, number = leaves(host, id)
    path = f"/compute/v2.1/servers/{id}/migrations/{number}/action"
    host.ask("POST", path, {"force_complete": None}, "admin", **NEWEST)
    assert (place(host, id), outcome(host, id)) == (away, "completed")
    watch.goes_on()
    print(f"forced: {watch.facts()}")


def aborted(host: Host, id: str, watch: Watch) -> None:
    here, _, number = leaves(host, id)
    host.ask("DELETE", f"/compute/v2.1/servers/{id}/migrations/{number}", None, "admin", **NEWEST)
    assert (place(host, id), outcome(host, id)) == (here, "cancelled")
    watch.goes_on()
    print(f"aborted: {watch.facts()}")


def new_process_killed(host: Host, id: str, watch: Watch) -> None:
    had = qemus(host, id)
    here, _, _ = leaves(host, id)
    [new] = [pid for seat, pid in qemus(host, id).items() if seat not in had]
    os.kill(new, signal.SIGKILL)
    assert (place(host, id), outcome(host, id)) == (here, "failed")
    watch.goes_on()
    print(f"the new process was killed: {watch.facts()}")


def cloud_killed(host: Host, id: str, watch: Watch) -> None:
    """The guest arrives all the same, and is found there."""
    _, away, _ = leaves(host, id)
    host.live.kill()
    watch.goes_on()
    host.live.start()
    assert (place(host, id), outcome(host, id)) == (away, "completed")
    watch.goes_on()
    print(f"the cloud was killed: {watch.facts()}")


def old_process_killed(host: Host, id: str) -> None:
    """That was the guest: it is off where it was, and starts again."""
    had = qemus(host, id)
    here, _, _ = leaves(host, id)
    os.kill(next(iter(had.values())), signal.SIGKILL)
    act = f"/compute/v2.1/servers/{id}/action"
    host.is_now(id, "SHUTOFF")
    assert qemus(host, id) == {}
    host.ask("POST", act, {"os-start": None})
    assert place(host, id) == here


# -- the guest, as seen from outside


def deaths(host: Host, id: str) -> int:
    with suppress(URLError):  # the cloud is killed now and then
        return host.console(id).count("Kernel panic")
    return 0


@contextmanager
def watched(host: Host, id: str, address: str) -> Iterator[Watch]:
    assert host.ssh(address, "hostname")
    counting = subprocess.Popen(host.ssh_command(address, COUNT), stdout=subprocess.PIPE, text=True)
    try:
        with watching.watched(counting, partial(deaths, host, id), host.outside, address) as watch:
            yield watch
    except GuestHangs:
        host.ask("POST", f"/compute/v2.1/servers/{id}/action", {"reboot": {"type": "HARD"}})
        host.is_now(id, "ACTIVE")
        raise
