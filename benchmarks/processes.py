"""Two control processes compared with one, of one cloud on PostgreSQL, in the same run.

    python benchmarks/processes.py [--rounds 3] [--seconds 5] [--clients 16]

CLOUDCTL_TEST_POSTGRESQL names a server on which databases may be created. In each round the same load is put on one
process, then, with another one started on the same database, on both, clients being assigned in turn: a server is read,
anew each time; servers are booted by a fake hypervisor until they are ACTIVE, and deleted until they are gone, with a
look every 50 ms. The load itself and PostgreSQL run on the same processors, so the gain from a second process depends
on how many there are: that is reported, and how much of them was idle. On two processors, one process, PostgreSQL and
the load together can already use everything.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cryptography.fernet import Fernet
from load import Connection, Serial, encode, until

from tests.databases import a_database
from tests.live.process import LiveCloud

CONFIG = """
[database]
url = "{url}"
sealing_keys = ["{key}"]
[server]
data_dir = "{backends}/data"
[image.stores.default]
driver = "file"
[driver.objects.file]
directory = "{backends}/contents"
[driver.hypervisor.fake]
directory = "{backends}/guests"
vcpus = 100000
memory_mib = 200000000
disk_gib = 10000000
[driver.volume.fake]
directory = "{backends}/volumes"
[driver.network.fake]
directory = "{backends}/networks"
"""
SERVERS = "/compute/v2.1/servers"
NEWEST = {"OpenStack-API-Version": "compute 2.37"}
LOOK = 0.05  # seconds between two looks at a server

Figures = dict[str, list[float]]


class Load:
    """A load on these processes of the cloud: how many clients, for how long."""

    def __init__(self, clouds: Sequence[LiveCloud], clients: int, seconds: float, server: str, image: str) -> None:
        self.ports = [each.port for each in clouds]
        self.headers = {"X-Auth-Token": clouds[0].token(), "Content-Type": "application/json", **NEWEST}
        self.clients, self.seconds = clients, seconds
        self.server, self.image = server, image

    def reads(self) -> list[float]:
        """How many seconds each answer took."""
        numbers, found = count(), []

        def request() -> bytes:
            return encode("GET", f"{SERVERS}/{self.server}?x={next(numbers)}", self.headers)

        with selectors.DefaultSelector() as selector:
            for client in range(self.clients):
                connection = Connection(self.ports[client % len(self.ports)])
                selector.register(connection.socket, selectors.EVENT_READ, connection)
                connection.send(request())
            ends = time.perf_counter() + self.seconds
            while (now := time.perf_counter()) < ends:
                for key, _events in selector.select(1.0):
                    if (answer := key.data.receive()) is not None:
                        demand(answer, 200)
                        found.append(time.perf_counter() - key.data.began)
                        if now < ends:
                            key.data.send(request())
            for key in list(selector.get_map().values()):
                key.data.socket.close()
        return found

    def boots(self) -> list[float]:
        """The seconds from the request until each server was ACTIVE; all are gone at the end."""
        found: list[float] = []
        failed: list[BaseException] = []
        ends = time.perf_counter() + self.seconds

        def work(client: int) -> None:
            serial = Serial(self.ports[client % len(self.ports)])
            try:
                while time.perf_counter() < ends and not failed:
                    found.append(self._booted(serial))
            except BaseException as error:
                failed.append(error)
                raise

        threads = [Thread(target=work, args=(client,)) for client in range(self.clients)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if failed:
            raise failed[0]
        return found

    def _booted(self, serial: Serial) -> float:
        began = time.perf_counter()
        wish = {"server": {"name": "b", "flavorRef": "1", "imageRef": self.image, "networks": "none"}}
        answer = demand(serial.ask(encode("POST", SERVERS, self.headers, json.dumps(wish).encode())), 202)
        path = f"{SERVERS}/{json.loads(answer)['server']['id']}"

        def look() -> tuple[int, bytes]:
            return serial.ask(encode("GET", path, self.headers))[:2]

        until(lambda: json.loads(demand(look(), 200))["server"]["status"] == "ACTIVE", 120, "it is not ACTIVE", LOOK)
        took = time.perf_counter() - began
        demand(serial.ask(encode("DELETE", path, self.headers)), 204)
        until(lambda: look()[0] == 404, 120, "it does not go", LOOK)
        return took


def demand(answer: Sequence[Any], status: int) -> bytes:
    if answer[0] != status:
        raise RuntimeError(f"{answer[0]}: {answer[1][:300]!r}")
    return bytes(answer[1])


def ticks() -> tuple[int, int]:
    """Ticks of all processors since the machine started: the idle ones, and all."""
    found = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return found[3] + found[4], sum(found)


def measured(load: Load, piece: Callable[[Load], list[float]], what: str, seen: Figures) -> None:
    idle, every, began = *ticks(), time.perf_counter()
    found = sorted(piece(load))
    spent, (idle_now, every_now) = time.perf_counter() - began, ticks()
    figures = {
        f"{what}, a second": len(found) / spent,
        f"{what}, median ms": 1000 * median(found),
        f"{what}, 95th percentile ms": 1000 * quantiles(found, n=20)[-1],
        f"{what}, idle processor %": 100 * (idle_now - idle) / (every_now - every),
    }
    for name, figure in figures.items():
        seen.setdefault(name, []).append(figure)


def run(clouds: Sequence[LiveCloud], options: argparse.Namespace) -> tuple[Figures, Figures]:
    one, two = clouds
    one.start()
    image = one.ask("GET", "/image/v2/images")[1]["images"][0]["id"]
    wish = {"server": {"name": "read", "flavorRef": "1", "imageRef": image, "networks": "none"}}
    status, answer = one.ask("POST", SERVERS, wish, **NEWEST)
    assert status == 202, answer
    project = one.ask("GET", "/identity/v3/auth/projects")[1]["projects"][0]["id"]
    limits = {"quota_set": {"instances": -1, "cores": -1, "ram": -1}}
    status, refused = one.ask("PUT", f"/compute/v2.1/os-quota-sets/{project}", limits, "admin")
    assert status == 200, refused
    alone: Figures = {}
    both: Figures = {}
    for _ in range(options.rounds):
        for serving, seen in (([one], alone), ([one, two], both)):
            if len(serving) == 2:
                two.start()
            load = Load(serving, options.clients, options.seconds, answer["server"]["id"], image)
            measured(load, Load.reads, "GET of a server", seen)
            measured(load, Load.boots, "boot and delete", seen)
        two.stop()
    return alone, both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    server = os.environ.get("CLOUDCTL_TEST_POSTGRESQL")
    if not server:
        print("no PostgreSQL here: CLOUDCTL_TEST_POSTGRESQL is not set")
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as name, a_database(server) as url:
        toml = CONFIG.format(url=url, key=Fernet.generate_key().decode(), backends=Path(name, "backends"))
        clouds = []
        for each in ("one", "two"):
            Path(name, each).mkdir()
            clouds.append(LiveCloud(Path(name, each), toml, afresh=True))
        try:
            alone, both = run(clouds, options)
        finally:
            for cloud in clouds:
                cloud.kill()
    print(f"{os.cpu_count()} processors, {options.clients} clients; medians of {options.rounds} rounds")
    print(f"{'':40}{'one':>10}{'two':>10}{'two/one':>10}")
    for what in alone:
        one, two = median(alone[what]), median(both[what])
        print(f"{what:40}{one:10.1f}{two:10.1f}" + ("" if what.endswith("%") else f"{two / one:10.2f}"))


if __name__ == "__main__":
    main()
