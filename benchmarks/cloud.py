"""How fast a cloud is, compared with a bare Klein route in the same run on the same machine.

    python benchmarks/cloud.py [--servers 10000] [--seconds 4]

Each figure is taken with 100 servers and again with more, to show what grows. A cloud on SQLite with synchronous=FULL
and fake drivers without delay.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import Serial, encode, rate, until
from processor import BareKlein

from tests.live.process import LiveCloud

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
SERVERS = "/compute/v2.1/servers"
CONCURRENCY = 10
PAGE = 100
# The quotas of the project that everything belongs to.
UNLIMITED = {
    "/compute/v2.1/os-quota-sets": {"quota_set": {"instances": -1, "cores": -1, "ram": -1}},
    "/volume/v3/os-quota-sets": {"quota_set": {"volumes": -1, "gigabytes": -1}},
    "/networking/v2.0/quotas": {
        "quota": {"network": -1, "subnet": -1, "port": -1, "floatingip": -1, "security_group_rule": -1}
    },
}


class Cloud:
    """A cloud with `more` in its configuration."""

    def __init__(self, directory: Path, more: str = "") -> None:
        self.live = LiveCloud(directory, CONFIG + more, afresh=True)
        self.cold = self.live.start()
        self.live.stop()
        self.warm = self.live.start()
        self.port = self.live.port
        self.serial = Serial(self.port)
        project = self.live.ask("GET", "/identity/v3/auth/projects")[1]["projects"][0]["id"]
        for path, limits in UNLIMITED.items():
            status, answer = self.live.ask("PUT", f"{path}/{project}", limits, "admin")
            assert status == 200, answer
        net = {"network": {"name": "bench"}}
        self.network = self.live.ask("POST", "/networking/v2.0/networks", net)[1]["network"]["id"]
        subnet = {"network_id": self.network, "ip_version": 4, "cidr": "10.64.0.0/12"}
        self.live.ask("POST", "/networking/v2.0/subnets", {"subnet": subnet})
        self.image = self.live.ask("GET", "/image/v2/images")[1]["images"][0]["id"]
        self.headers = {"X-Auth-Token": self.live.token()}

    def get(self, path: str) -> bytes:
        return encode("GET", path, self.headers)

    def restart(self) -> None:
        self.live.stop()
        self.warm = self.live.start()
        self.serial = Serial(self.port)

    @property
    def pid(self) -> int:
        assert self.live.process is not None
        return self.live.process.pid

    def again(self, path: str) -> Callable[[int], bytes]:
        """The same request each time: its answer is cached while nothing is written."""
        request = self.get(path)
        return lambda number: request

    def anew(self, path: str) -> Callable[[int], bytes]:
        """A request that differs each time in an unused parameter: its answer is read from the database."""
        separator = "&" if "?" in path else "?"
        return lambda number: self.get(f"{path}{separator}x={number}")

    def request(self, method: str, path: str, body: Any) -> bytes:
        if body is None:
            return encode(method, path, self.headers)
        return encode(method, path, {**self.headers, "Content-Type": "application/json"}, json.dumps(body).encode())

    def ask(self, path: str) -> Any:
        return self.send("GET", path)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer, or None. Raises RuntimeError for any status but 2xx."""
        status, answer, _ = self.serial.ask(self.request(method, path, body))
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer) if answer else None

    def wanted(self, name: str, count: int = 1) -> dict[str, Any]:
        """The body for so many new servers."""
        server = {
            "name": name, "flavorRef": "1", "imageRef": self.image, "networks": [{"uuid": self.network}],
            "min_count": count, "max_count": count,
        }  # fmt: skip
        return {"server": server}

    def post_server(self, name: str, count: int = 1) -> str:
        return str(self.send("POST", SERVERS, self.wanted(name, count))["server"]["id"])

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
            # One list per round, far more often than any client polls: a GET per server would be the main load.
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
        status = Path(f"/proc/{self.pid}/status").read_text()
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
    with BareKlein() as klein, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        run(Path(directory), klein, options)


def run(directory: Path, klein: BareKlein, options: argparse.Namespace) -> None:
    bare = rate(klein.port, klein.request, options.seconds)
    print(f"bare Klein async route: {bare:.0f} requests/s")
    cloud = Cloud(directory)
    try:
        print(f"first start to first answer {cloud.cold:.2f} s, second start {cloud.warm:.2f} s")
        print(f"idle after start: {cloud.memory():.0f} MiB resident")
        columns: dict[int, dict[str, float]] = {}
        for size in sorted({100, min(1000, options.servers), options.servers}):
            cloud.fill(size)
            columns[size] = measure(cloud, rate(klein.port, klein.request, 2), options.seconds)
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


if __name__ == "__main__":
    main()
