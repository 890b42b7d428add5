"""How fast a cloud is, beside a bare Klein route in the same run on the same machine.

    python benchmarks/cloud.py [--servers 10000] [--seconds 4]

Each figure is taken with 100 servers and again with more, to show what grows. A cloud on SQLite with synchronous=FULL
and fake drivers without delay.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import Serial, encode, rate, until

from tests.live.process import LiveCloud, free_port

CONFIG = """
[driver.hypervisor.fake]
hosts = 4
vcpus = 100000
memory_mib = 200000000
disk_gib = 10000000
durable = false

[driver.volume.fake]
durable = false

[driver.network.fake]
durable = false
"""
CONCURRENCY = 10
PAGE = 100


def thing(_number: int) -> bytes:
    return encode("GET", "/thing/one", {})


class Cloud:
    def __init__(self, directory: Path) -> None:
        self.live = LiveCloud(directory, CONFIG)
        self.cold = self.live.start()
        self.live.stop()
        self.warm = self.live.start()
        self.port = self.live.port
        self.serial = Serial(self.port)
        for service in ("compute/v2.1", "volume/v3"):
            body = {"quota_set": {"instances": -1, "cores": -1, "ram": -1}} if "compute" in service else None
            if body:
                project = self.live.ask("GET", "/identity/v3/auth/projects")[1]["projects"][0]["id"]
                status, answer = self.live.ask("PUT", f"/{service}/os-quota-sets/{project}", body, "admin")
                assert status == 200, answer
                status, answer = self.live.ask(
                    "PUT", f"/networking/v2.0/quotas/{project}", {"quota": {"port": -1}}, "admin"
                )
                assert status == 200, answer
        net = {"network": {"name": "bench"}}
        self.network = self.live.ask("POST", "/networking/v2.0/networks", net)[1]["network"]["id"]
        subnet = {"network_id": self.network, "ip_version": 4, "cidr": "10.64.0.0/12"}
        self.live.ask("POST", "/networking/v2.0/subnets", {"subnet": subnet})
        self.image = self.live.ask("GET", "/image/v2/images")[1]["images"][0]["id"]
        self.headers = {"X-Auth-Token": self.live.token()}

    def get(self, path: str) -> bytes:
        return encode("GET", path, self.headers)

    def again(self, path: str) -> Callable[[int], bytes]:
        """The same request each time: its answer is kept while nothing is written."""
        request = self.get(path)
        return lambda number: request

    def anew(self, path: str) -> Callable[[int], bytes]:
        """A request that differs each time in a parameter that nobody reads: its answer is read from the database."""
        separator = "&" if "?" in path else "?"
        return lambda number: self.get(f"{path}{separator}x={number}")

    def ask(self, path: str) -> Any:
        status, body, _ = self.serial.ask(self.get(path))
        assert status == 200, body
        return json.loads(body)

    def post_server(self, name: str, count: int = 1) -> str:
        wanted = {
            "name": name, "flavorRef": "1", "imageRef": self.image, "networks": [{"uuid": self.network}],
            "min_count": count, "max_count": count,
        }  # fmt: skip
        body = json.dumps({"server": wanted}).encode()
        headers = {**self.headers, "Content-Type": "application/json"}
        status, answer, _ = self.serial.ask(encode("POST", "/compute/v2.1/servers", headers, body))
        assert status == 202, answer
        return str(json.loads(answer)["server"]["id"])

    def building(self) -> int:
        return len(self.ask("/compute/v2.1/servers?status=BUILD&limit=1")["servers"])

    def boots_a_second(self, count: int) -> float:
        """From the first request to the last ACTIVE, with CONCURRENCY servers under way at any time."""
        began = time.perf_counter()
        under_way: set[str] = set()
        asked = 0
        while asked < count or under_way:
            while len(under_way) < CONCURRENCY and asked < count:
                under_way.add(self.post_server(f"boot-{asked}"))
                asked += 1
            # One list a round, far more often than any client looks: asking for each server would be the main load.
            under_way &= {server["id"] for server in self.ask("/compute/v2.1/servers?status=BUILD")["servers"]}
            time.sleep(0.01)
        assert not self.ask("/compute/v2.1/servers?status=ERROR")["servers"]
        return count / (time.perf_counter() - began)

    def fill(self, count: int) -> None:
        """Boot servers until there are `count`."""
        have = self.count()
        while have < count:
            more = min(100, count - have)
            self.post_server("fill", more)
            have += more
        until(lambda: self.building() == 0, 900, "the servers do not become ACTIVE", 0.2)

    def count(self) -> int:
        total, marker = 0, ""
        while True:
            found = self.ask(f"/compute/v2.1/servers?limit=1000{marker}")["servers"]
            total += len(found)
            if len(found) < 1000:
                return total
            marker = f"&marker={found[-1]['id']}"

    def memory(self) -> float:
        """Resident MiB."""
        assert self.live.process is not None
        status = Path(f"/proc/{self.live.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def measure(cloud: Cloud, bare: float, seconds: float) -> dict[str, float]:
    servers = cloud.ask(f"/compute/v2.1/servers?limit={PAGE}")["servers"]
    first, last = servers[0]["id"], servers[-1]["id"]
    token = {**cloud.headers, "X-Subject-Token": cloud.headers["X-Auth-Token"]}
    path = f"/compute/v2.1/servers/{first}"
    show = rate(cloud.port, cloud.again(path), seconds)
    show_anew = rate(cloud.port, cloud.anew(path), seconds)
    validation = encode("GET", "/identity/v3/auth/tokens", token)
    validate = rate(cloud.port, lambda number: validation, seconds)
    validate_anew = rate(
        cloud.port, lambda number: encode("GET", f"/identity/v3/auth/tokens?x={number}", token), seconds
    )
    page = cloud.serial.typical(cloud.anew(f"/compute/v2.1/servers/detail?limit={PAGE}"), 30)
    after = cloud.serial.typical(cloud.anew(f"/compute/v2.1/servers/detail?limit={PAGE}&marker={last}"), 30)
    return {
        "GET of one server, % of bare Klein": 100 * show / bare,
        "  the same, read anew each time": 100 * show_anew / bare,
        "token validation, % of bare Klein": 100 * validate / bare,
        "  validation, read anew each time": 100 * validate_anew / bare,
        f"page of {PAGE} servers with detail, ms": 1000 * page,
        "the page after it, ms": 1000 * after,
        "boots/s to ACTIVE at concurrency 10": cloud.boots_a_second(200),
        "resident MiB": cloud.memory(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    port = free_port()
    klein = subprocess.Popen([sys.executable, str(Path(__file__).with_name("bare_klein.py")), str(port)])
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            run(Path(directory), port, options)
    finally:
        klein.kill()


def run(directory: Path, klein_port: int, options: argparse.Namespace) -> None:
    until(lambda: answers(klein_port), 10, "bare Klein does not answer")
    bare = rate(klein_port, thing, options.seconds)
    print(f"bare Klein async route: {bare:.0f} requests/s")
    cloud = Cloud(directory)
    try:
        print(f"first start to first answer {cloud.cold:.2f} s, second start {cloud.warm:.2f} s")
        print(f"idle after start: {cloud.memory():.0f} MiB resident")
        columns: dict[int, dict[str, float]] = {}
        for size in sorted({100, min(1000, options.servers), options.servers}):
            cloud.fill(size)
            columns[size] = measure(cloud, rate(klein_port, thing, 2), options.seconds)
            if size >= 1000:
                thousand = cloud.serial.typical(cloud.anew("/compute/v2.1/servers/detail?limit=1000"), 10)
                columns[size]["list of 1,000 servers with detail, ms"] = 1000 * thousand
        names = list(dict.fromkeys(name for column in columns.values() for name in column))
        print(f"{'servers':<45}" + "".join(f"{size:>12}" for size in columns))
        for name in names:
            cells = (f"{column[name]:12.1f}" if name in column else f"{'':>12}" for column in columns.values())
            print(f"{name:<45}" + "".join(cells))
    finally:
        cloud.live.kill()


def answers(port: int) -> bool:
    try:
        return Serial(port).ask(thing(0))[0] == 200
    except OSError:
        return False


if __name__ == "__main__":
    main()
