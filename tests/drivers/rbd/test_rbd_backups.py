"""Backups of volumes in a real Ceph, each of what has changed since the one before: what was there is restored."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pytest

from tests.drivers.rbd.cluster import POOL, USER, Cluster
from tests.live.process import LiveCloud

TOML = """
[drivers]
volume = {{ceph = "rbd", other = "rbd"}}
[driver.volume.ceph]
monitors = ["{monitor}"]
user = "{user}"
keyring = "{keyring}"
namespace = "{namespace}"
answer_timeout = 120.0
[driver.volume.other]
monitors = ["{monitor}"]
user = "{user}"
keyring = "{keyring}"
namespace = "{namespace}b"
answer_timeout = 120.0
[volume]
backup_store = "{store}"
"""
V3 = "/volume/v3"
NEWEST = {"OpenStack-API-Version": "volume latest"}
PATIENCE, PERIOD = 240.0, 0.2  # seconds
MIB = 1 << 20
READS_ALL = "reads all of volume"


class Ceph:
    """A cloud with volumes in Ceph, and what is in the pool."""

    def __init__(self, cloud: LiveCloud, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.cloud, self.cluster, self.directory = cloud, cluster, directory
        self.place = f"{POOL}/{namespace}"

    def good(self, method: str, path: str, body: Any = None) -> Any:
        status, found = self.cloud.ask(method, f"{V3}{path}", body, "admin", **NEWEST)
        assert status < 300, (method, path, status, found)
        return found

    def settled(self, kind: str, id: str, wanted: str = "available") -> Any:
        limit = time.monotonic() + PATIENCE
        while True:
            found = self.good("GET", f"/{kind}s/{id}")[kind]
            if found["status"] == wanted:
                return found
            assert "error" not in found["status"] and time.monotonic() < limit, (found, self.cloud.log.read_text())
            time.sleep(PERIOD)

    def volume(self) -> str:
        id = str(self.good("POST", "/volumes", {"volume": {"size": 1, "volume_type": "ceph"}})["volume"]["id"])
        self.settled("volume", id)
        return id

    def act(self, volume_id: str, **action: Any) -> None:
        self.good("POST", f"/volumes/{volume_id}/action", {name.replace("__", "-"): it for name, it in action.items()})
        self.settled("volume", volume_id)

    def image(self, volume_id: str) -> str:
        """Of its backend: each has a namespace of its own."""
        host = self.good("GET", f"/volumes/{volume_id}")["volume"]["os-vol-host-attr:host"]
        return f"{self.place}{'b' if 'other' in host else ''}/volume-{volume_id}"

    def change(self, volume_id: str, *orders: str) -> None:
        """As a guest would: in the words of qemu-io."""
        image = f"rbd:{self.image(volume_id)}:conf={self.cluster.conf}"
        words = [word for order in orders for word in ("-c", order)]
        subprocess.run(["qemu-io", "-f", "raw", image, *words], check=True, capture_output=True)

    def held(self, volume_id: str, name: str) -> Path:
        """A file with what the volume holds now."""
        target = self.directory / name
        self.cluster.rbd("export", "--no-progress", self.image(volume_id), str(target))
        return target

    def back_up(self, volume_id: str, **wish: Any) -> Any:
        made = self.good("POST", "/backups", {"backup": {"volume_id": volume_id, **wish}})["backup"]
        return self.settled("backup", made["id"])

    def restored(self, backup_id: str, name: str) -> Path:
        made = self.good("POST", f"/backups/{backup_id}/restore", {"restore": {"name": name}})["restore"]
        self.settled("volume", made["volume_id"])
        return self.held(made["volume_id"], name)

    def snapshots(self, volume_id: str) -> list[str]:
        found = orjson.loads(self.cluster.rbd("snap", "ls", self.image(volume_id), "--format=json"))
        return [each["name"] for each in found]

    def reads_of_all(self) -> int:
        return self.cloud.log.read_text().count(READS_ALL)


def same(one: Path, other: Path) -> bool:
    """As filecmp, but what neither of them has on the disk is not read: it is zeros in both."""
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        at = 0
        while (at := min(written(first, at), written(second, at))) < one.stat().st_size:
            first.seek(at)
            second.seek(at)
            if first.read(MIB) != second.read(MIB):
                return False
            at += MIB
    return True


def written(file: BinaryIO, at: int) -> int:
    """Where the file's next bytes are that it has on the disk, or its end."""
    try:
        return os.lseek(file.fileno(), at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.fstat(file.fileno()).st_size


@pytest.fixture
def start(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Callable[[str], Ceph]]:
    made: list[LiveCloud] = []

    def started(store: str) -> Ceph:
        cluster.rbd("namespace", "create", f"{POOL}/{namespace}b")
        words = {"monitor": cluster.monitor, "user": USER, "keyring": cluster.keyring}
        made.append(LiveCloud(tmp_path, TOML.format(**words, namespace=namespace, store=store)))
        made[-1].start()
        ceph = Ceph(made[-1], cluster, namespace, tmp_path)
        for name in ("ceph", "other"):
            ceph.good("POST", "/types", {"volume_type": {"name": name, "extra_specs": {"volume_backend_name": name}}})
        return ceph

    yield started
    for each in made:
        each.kill()


@pytest.mark.slow
def test_what_was_written_discarded_and_added_comes_back_out_of_each_of_a_chain(start: Callable[[str], Ceph]) -> None:
    ceph = start("directory")
    id = ceph.volume()
    steps = [
        [f"write -P 1 0 {9 * MIB}", f"write -P 2 {500 * MIB} {2 * MIB}", f"write -P 3 {1023 * MIB} {MIB}"],
        [f"write -P 4 {MIB - 512} 1024", f"write -P 5 {700 * MIB + 4096} 512", f"discard {4 * MIB} {4 * MIB}"],
        [f"write -P 6 {1200 * MIB} 65536", f"write -P 7 {1023 * MIB} 4096", f"discard {500 * MIB} {MIB}"],
        [f"discard 0 {1024 * MIB}", f"write -P 8 {3 * MIB} 4096"],
    ]
    made, held = [], {}
    for number, orders in enumerate(steps):
        if number == 2:
            ceph.act(id, os__extend={"new_size": 2})
        ceph.change(id, *orders)
        if number in (1, 3):
            held[number] = ceph.held(id, f"held-{number}")
        made.append(ceph.back_up(id, incremental=number > 0))
        assert ceph.snapshots(id) == [f"mark-{made[-1]['id']}"]
    assert [each["is_incremental"] for each in made] == [False, True, True, True]
    # Pieces: of the first all that are not empty, of the others those that have changed.
    assert [each["object_count"] for each in made] == [3, 3, 2, 1]
    assert ceph.reads_of_all() == 0
    assert ceph.good("GET", f"/snapshots?volume_id={id}")["snapshots"] == []
    # One in the middle of the chain, before the volume grew, and the last: to read a volume takes its time.
    for number in (1, 3):
        found = ceph.restored(made[number]["id"], f"restored-{number}")
        assert same(found, held[number]), number
        found.unlink()
    # The newest goes with its mark; what follows builds on the one before, of which nothing is known any more.
    ceph.good("DELETE", f"/backups/{made[3]['id']}")
    while ceph.cloud.ask("GET", f"{V3}/backups/{made[3]['id']}", None, "admin")[0] != 404:
        time.sleep(PERIOD)
    assert ceph.snapshots(id) == []
    last = ceph.back_up(id, incremental=True)
    assert (ceph.reads_of_all(), ceph.snapshots(id)) == (1, [f"mark-{last['id']}"])
    assert last["object_count"] == made[3]["object_count"]


@pytest.mark.slow
def test_a_volume_that_was_reverted_filled_and_moved_is_backed_up_as_it_is(start: Callable[[str], Ceph]) -> None:
    ceph = start("objects")
    id = ceph.volume()

    def backed_up(incremental: bool = True) -> str:
        found = ceph.back_up(id, incremental=incremental)["id"]
        held = ceph.held(id, "held")
        restored = ceph.restored(found, "restored")
        assert same(restored, held)
        restored.unlink()
        held.unlink()
        return str(found)

    ceph.change(id, f"write -P 1 0 {5 * MIB}", f"write -P 2 {900 * MIB} {MIB}")
    snapshot = ceph.good("POST", "/snapshots", {"snapshot": {"volume_id": id}})["snapshot"]["id"]
    ceph.settled("snapshot", snapshot)
    ceph.change(id, f"write -P 3 {4 * MIB} {MIB}", f"discard {900 * MIB} {MIB}")
    first = backed_up(incremental=False)
    ceph.act(id, revert={"snapshot_id": snapshot})
    backed_up()
    ceph.change(id, f"write -P 4 {2 * MIB} {3 * MIB}")
    ceph.good("POST", f"/backups/{first}/restore", {"restore": {"volume_id": id}})
    ceph.settled("volume", id)
    backed_up()
    assert ceph.reads_of_all() == 0
    ceph.good("DELETE", f"/snapshots/{snapshot}")
    while ceph.cloud.ask("GET", f"{V3}/snapshots/{snapshot}", None, "admin")[0] != 404:
        time.sleep(PERIOD)
    # Elsewhere there is no mark; and with its marks it is moved, and deleted.
    ceph.act(id, os__retype={"new_type": "other", "migration_policy": "on-demand"})
    newest = backed_up()
    assert (ceph.reads_of_all(), ceph.snapshots(id)) == (1, [f"mark-{newest}"])
    ceph.good("DELETE", f"/volumes/{id}")
    while ceph.cloud.ask("GET", f"{V3}/volumes/{id}", None, "admin")[0] != 404:
        time.sleep(PERIOD)
    for place in (ceph.place, f"{ceph.place}b"):
        assert f"volume-{id}" not in ceph.cluster.rbd("ls", place)
        assert ceph.cluster.rbd("trash", "ls", place) == ""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_backs_up_leaves_one_mark_and_all_bytes(start: Callable[[str], Ceph]) -> None:
    ceph = start("objects")
    id = ceph.volume()
    ceph.change(id, f"write -P 1 0 {64 * MIB}")
    ceph.back_up(id)
    for number, seconds in enumerate((0.1, 0.3, 0.6, 1.0)):
        ceph.change(id, f"write -P {2 + number} {number * MIB + 512} {8 * MIB}")
        made = ceph.good("POST", "/backups", {"backup": {"volume_id": id, "incremental": True}})["backup"]["id"]
        time.sleep(seconds)
        ceph.cloud.kill()
        ceph.cloud.start()
        ceph.settled("backup", made)
        assert ceph.snapshots(id) == [f"mark-{made}"]
    held = ceph.held(id, "held")
    assert same(ceph.restored(made, "restored"), held)
