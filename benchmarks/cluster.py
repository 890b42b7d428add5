"""What a cloud of several hosts costs, compared with the tools of its backends used by hand in the same run.

    python benchmarks/cluster.py [--rounds 5]

As root, with the Debian packages of `.ci/run`, libvirt-clients, and CLOUDCTL_TEST_POSTGRESQL. Two control processes,
OVN, hosts with libvirtd. A server without a network is booted through the API until it is ACTIVE; then virsh defines
and starts the same domain on the existing disk. A guest's port is created until it is in OVN's northbound database, and
another by ovn-nbctl. A control process is killed in the middle of a guest's move, until the other process has taken
that over.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hushed import hushed

from tests.databases import a_database
from tests.drivers.qemu import counting_guest
from tests.live.cluster import Admin, Cluster, a_cluster, lacking, until

MOVES = "compute.server.live_migrate"
SERVERS, PORTS = "/compute/v2.1/servers", "/networking/v2.0/ports"
PAUSE = 0.005  # seconds between two looks


def took(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def once(seen: Callable[[], Any]) -> None:
    give_up = time.monotonic() + 120
    while not seen():
        if time.monotonic() > give_up:
            raise TimeoutError
        time.sleep(PAUSE)


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.process = cluster.processes[0]
        self.admin = Admin(cluster.connection(self.process))
        self.admin.knows(len(cluster.hosts) + 1)
        wish = {"name": "counting", "disk_format": "raw", "container_format": "bare"}
        images = self.admin.cloud.image
        self.image = images.create_image(**wish, data=counting_guest.disk(), validate_checksum=False).id
        self.flavor = self.admin.cloud.compute.create_flavor(name="tiny", ram=64, vcpus=1, disk=1).id
        self.network = self.ask("POST", "/networking/v2.0/networks", {"network": {"name": "n"}})["network"]["id"]
        subnet = {"network_id": self.network, "ip_version": 4, "cidr": "10.9.0.0/16"}
        self.ask("POST", "/networking/v2.0/subnets", {"subnet": subnet})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.process.ask(method, path, body, "admin", **{"OpenStack-API-Version": "compute 2.90"})
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def boot(self) -> dict[str, float]:
        uri = self.cluster.hosts["east"].uri
        wish = {"name": "b", "imageRef": self.image, "flavorRef": self.flavor, "networks": "none", "host": "east"}
        made: list[str] = []

        def through_the_api() -> None:
            made.append(self.ask("POST", SERVERS, {"server": wish})["server"]["id"])
            once(lambda: self.ask("GET", f"{SERVERS}/{made[0]}")["server"]["status"] == "ACTIVE")

        api = took(through_the_api)
        [id] = made
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(virsh(uri, "dumpxml", "--inactive", id))
            file.flush()
            virsh(uri, "destroy", id)
            virsh(uri, "undefine", id)
            by_hand = took(lambda: (virsh(uri, "define", file.name), virsh(uri, "start", id)))
        self.ask("DELETE", f"{SERVERS}/{id}")
        until("it has gone", lambda: not self.cluster.having(id))
        return {"boot, API": api, "boot, virsh define and start": by_hand, "boot, own share": api - by_hand}

    def port(self) -> dict[str, float]:
        wish = {"network_id": self.network, "binding:host_id": "east", "device_id": "nobody's"}
        made: list[str] = []

        def through_the_api() -> None:
            made.append(self.ask("POST", PORTS, {"port": wish})["port"]["id"])
            self.nbctl("wait-until", "Logical_Switch_Port", made[0])

        api = took(through_the_api)
        [id] = made
        [switch] = [line.split()[1] for line in self.nbctl("ls-list").splitlines() if self.network in line]
        words = [
            "lsp-add",
            switch.strip("()"),
            "by-hand",
            "--",
            "lsp-set-addresses",
            "by-hand",
            "02:00:00:00:00:01 10.9.9.9",
        ]
        by_hand = took(
            lambda: self.nbctl(*words, "--", "lsp-set-port-security", "by-hand", "02:00:00:00:00:01 10.9.9.9")
        )
        self.nbctl("lsp-del", "by-hand")
        self.ask("DELETE", f"{PORTS}/{id}")
        return {"port, API": api, "port, ovn-nbctl": by_hand, "port, own share": api - by_hand}

    def fail_over(self) -> dict[str, float]:
        """The last measurement: afterwards there is only one process."""
        id = self.admin.boot("east", self.image, self.flavor)
        self.admin.settled(id, "ACTIVE")
        self.admin.migrate(id, "west")
        worker = until("a process moves it", lambda: self.cluster.worker(MOVES))
        other = next(each for each in self.cluster.processes if each is not worker)
        worker.kill()
        return {"fail-over of a task": took(lambda: once(lambda: self.cluster.worker(MOVES) is other))}

    def nbctl(self, *words: str) -> str:
        return said("ovn-nbctl", f"--db={self.cluster.central.northbound.remote}", *words)


def virsh(uri: str, *words: str) -> str:
    return said("virsh", "-q", "-c", uri, *words)


def said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    server = os.environ.get("CLOUDCTL_TEST_POSTGRESQL")
    if reason := lacking() or (None if server else "CLOUDCTL_TEST_POSTGRESQL is not set"):
        print(f"no cluster here: {reason}")
        return
    seen: dict[str, list[float]] = {}
    with (
        hushed(),
        tempfile.TemporaryDirectory(prefix="cc") as name,
        a_database(server or "") as url,
        a_cluster(Path(name), url) as cluster,
    ):
        bench = Bench(cluster)
        for piece in [*[bench.boot, bench.port] * rounds, bench.fail_over]:
            for what, seconds in piece().items():
                seen.setdefault(what, []).append(seconds)
    print(f"{'ms':32}{'least':>8}{'median':>8}{'most':>8}")
    for what, found in seen.items():
        print(f"{what:32}" + "".join(f"{each * 1000:8.0f}" for each in (min(found), median(found), max(found))))


if __name__ == "__main__":
    main()
