"""What the core costs: processor time of the whole process per piece of work, in K.

    python benchmarks/core.py [--servers 1000] [--seconds 2] [--quick]

K is the processor time of one answer of a bare Klein `async` route, measured before and after each piece; a figure is
the median of some rounds, shown beside its bound. A cloud on SQLite with synchronous=FULL and fake drivers without
delay gets requests over one connection, with 100 servers, with 1,000, and with --servers; with PostgreSQL too, if
CLOUDCTL_TEST_POSTGRESQL names a server on which databases may be created. PostgreSQL's own time is not counted.

Reads are «anew»: see `Cloud.anew`. «Kept» is the same request again while nothing is written. A login exchanges a token
for a token: it involves no hash. The start is from the command to the first answer, beside a Python that only imports
klein, SQLAlchemy and twisted.web. Polled work finds the processor cold after each rest, and so does the bare route if
it rests as long: «in K after a rest» is the same work in such answers. Writes wait for the disk, and find the processor
cold as well: «in commits» is the same work in answers of a bare route that commits one row to SQLite first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from select import select
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cloud import PAGE, SERVERS, Cloud
from load import Connection, encode, until
from processor import BareKlein, Meter, spent, spent_by_children
from seed import copy_server, tidy

from tests.databases import a_database

# The drivers do not know the copies that `seed` makes: an audit would end them.
CONFIG = "\n[tasks]\naudit_period = 86400.0\n"
IMPORTS = "import klein, sqlalchemy, twisted.web.server"
READS = 50  # in one piece
PAGES = 5
MANY = 5  # of writing work
BOOTS = 50  # while the latency of reads is measured
PORTS = 200
POLL = 0.02  # seconds between two looks at something that is being made
PATIENCE = 60.0

Figures = dict[str, float]
Work = Callable[[Meter], None]

GET, VALIDATE, LIST = "GET one server", "validate a token", f"list {PAGE} servers with detail"
BOOT, NETWORK = "boot → ACTIVE, with polls", "network + subnet + port, made and deleted"
START = "second start, beside the imports"
MEMORY = "resident after all this, MiB"
AT_MOST: Figures = {
    GET: 2.6,
    VALIDATE: 2.2,
    LIST: 14,
    f"list {PORTS} ports": 20,
    BOOT: 25,
    "delete → gone": 30,
    NETWORK: 66,
    "security group rule": 6,
    "volume → available": 28,
    "floating IP cycle": 60,
    "login without the hash": 8,
    START: 1.5,
}
AT_MOST_POSTGRESQL: Figures = {GET: 5, VALIDATE: 5, BOOT: 55, NETWORK: 150}
# With the most servers, relative to a thousand.
GROWTH: Figures = {GET: 1.1, LIST: 1.1, BOOT: 1.1, START: 1.1, MEMORY: 1.3}
THOUSAND = 1000


class Core:
    """The pieces of work, on one cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.server = cloud.post_server("first")
        self.becomes(f"{SERVERS}/{self.server}", "server", "ACTIVE")
        networks = cloud.ask("/networking/v2.0/networks")["networks"]
        self.private, self.public = (
            next(each["id"] for each in networks if each["name"] == name) for name in ("private", "public")
        )
        self.group = self.made("security-groups", "security_group", name="bench")
        for _ in range(PORTS):
            self.made("ports", "port", network_id=cloud.network)
        self.port = self.made("ports", "port", network_id=self.private)
        self.numbers = iter(range(10**9))

    # -- requests

    def made(self, path: str, member: str, /, **wanted: Any) -> str:
        return str(self.cloud.send("POST", f"/networking/v2.0/{path}", {member: wanted})[member]["id"])

    def drop(self, path: str, id: str) -> None:
        self.cloud.send("DELETE", f"/networking/v2.0/{path}/{id}")

    def becomes(self, path: str, name: str, status: str) -> None:
        def there() -> bool:
            found = self.cloud.ask(path)[name]["status"]
            assert found.lower() != "error"
            return bool(found == status)

        until(there, PATIENCE, f"{path} is not {status}", POLL)

    def gone(self, path: str) -> None:
        request = self.cloud.get(path)
        until(lambda: self.cloud.serial.ask(request)[0] == 404, PATIENCE, f"{path} is still there", POLL)

    # -- reads

    def read(self, name: str, request: Callable[[int], bytes], times: int) -> Work:
        def work(meter: Meter) -> None:
            with meter.counts(name, times):
                for _ in range(times):
                    status, body, _ = self.cloud.serial.ask(request(next(self.numbers)))
                    assert status == 200, body

        return work

    def reads(self) -> Iterator[Work]:
        cloud = self.cloud
        server = f"{SERVERS}/{self.server}"
        servers = f"{SERVERS}/detail?limit={PAGE}"
        yield self.read(GET, cloud.anew(server), READS)
        yield self.read(VALIDATE, self.validation(True), READS)
        yield self.read(LIST, cloud.anew(servers), PAGES)
        # Networking refuses unknown parameters.
        ports = f"limit={PORTS}&page_reverse=False"
        yield self.read(
            f"list {PORTS} ports", lambda number: cloud.get(f"/networking/v2.0/ports?{spelled(ports, number)}"), PAGES
        )

    def kept(self) -> Iterator[Work]:
        cloud = self.cloud
        server = f"{SERVERS}/{self.server}"
        servers = f"{SERVERS}/detail?limit={PAGE}"
        yield self.read(f"{GET}, kept", cloud.again(server), READS)
        yield self.read(f"{VALIDATE}, kept", self.validation(False), READS)
        yield self.read(f"{LIST}, kept", cloud.again(servers), PAGES)

    def validation(self, anew: bool) -> Callable[[int], bytes]:
        headers = {**self.cloud.headers, "X-Subject-Token": self.cloud.headers["X-Auth-Token"]}
        path = "/identity/v3/auth/tokens"
        return lambda number: encode("GET", f"{path}?x={number}" if anew else path, headers)

    # -- work

    def boots(self, meter: Meter) -> None:
        paths = []
        with meter.counts(BOOT, MANY, rest=POLL, writes=True):
            for _ in range(MANY):
                paths.append(f"{SERVERS}/{self.cloud.post_server('boot')}")
                self.becomes(paths[-1], "server", "ACTIVE")
        with meter.counts("delete → gone", MANY, rest=POLL, writes=True):
            for path in paths:
                self.cloud.send("DELETE", path)
                self.gone(path)

    def networks(self, meter: Meter) -> None:
        with meter.counts(NETWORK, MANY, writes=True):
            for _ in range(MANY):
                network = self.made("networks", "network", name="cycle")
                subnet = self.made("subnets", "subnet", network_id=network, ip_version=4, cidr="192.168.7.0/24")
                port = self.made("ports", "port", network_id=network)
                self.drop("ports", port)
                self.drop("subnets", subnet)
                self.drop("networks", network)

    def rules(self, meter: Meter) -> None:
        with meter.counts("security group rule", 4 * MANY, writes=True):
            rules = [
                self.made(
                    "security-group-rules", "security_group_rule", security_group_id=self.group,
                    direction="ingress", protocol="tcp", port_range_min=number, port_range_max=number,
                )
                for number in range(1, 4 * MANY + 1)
            ]  # fmt: skip
        with meter.counts("  its deletion", 4 * MANY):
            for rule in rules:
                self.drop("security-group-rules", rule)

    def volumes(self, meter: Meter) -> None:
        paths = []
        with meter.counts("volume → available", MANY, rest=POLL, writes=True):
            for _ in range(MANY):
                made = self.cloud.send("POST", "/volume/v3/volumes", {"volume": {"size": 1}})["volume"]
                paths.append(f"/volume/v3/volumes/{made['id']}")
                self.becomes(paths[-1], "volume", "available")
        with meter.counts("  its deletion", MANY):
            for path in paths:
                self.cloud.send("DELETE", path)
                self.gone(path)

    def floating_ips(self, meter: Meter) -> None:
        with meter.counts("floating IP cycle", MANY, writes=True):
            for _ in range(MANY):
                floating = self.made("floatingips", "floatingip", floating_network_id=self.public)
                path = f"/networking/v2.0/floatingips/{floating}"
                for port in (self.port, None):
                    self.cloud.send("PUT", path, {"floatingip": {"port_id": port}})
                self.drop("floatingips", floating)

    def logins(self, meter: Meter) -> None:
        identity = {"methods": ["token"], "token": {"id": self.cloud.headers["X-Auth-Token"]}}
        scope = {"project": {"name": "demo", "domain": {"id": "default"}}}
        with meter.counts("login without the hash", 4 * MANY):
            for _ in range(4 * MANY):
                self.cloud.send("POST", "/identity/v3/auth/tokens", {"auth": {"identity": identity, "scope": scope}})

    def work(self) -> Sequence[Work]:
        writes = (self.boots, self.networks, self.rules, self.volumes, self.floating_ips, self.logins)
        return *self.reads(), *self.kept(), *writes

    def work_on_postgresql(self) -> Sequence[Work]:
        return *list(self.reads())[:2], self.boots, self.networks

    def latency(self) -> tuple[float, float]:
        """Seconds within which 99 % of the GETs are answered, at rest and while servers boot, one request at a time."""
        request = self.cloud.get(f"{SERVERS}/{self.server}")
        quiet = [self.cloud.serial.ask(request)[2] for _ in range(200)]
        boots, reads, busy, asked = Connection(self.cloud.port), Connection(self.cloud.port), [], 0
        boot = self.cloud.request("POST", SERVERS, self.cloud.wanted("busy"))
        boots.send(boot)
        reads.send(request)
        ends = time.monotonic() + PATIENCE
        while asked < BOOTS or self.cloud.building():
            if time.monotonic() > ends:
                raise TimeoutError("the servers do not become ACTIVE")
            looked = time.monotonic() + 0.25
            while time.monotonic() < looked:
                ready, _, _ = select([boots.socket, reads.socket], [], [], 0.1)
                if boots.socket in ready and boots.receive() is not None:
                    asked += 1
                    if asked < BOOTS:
                        boots.send(boot)
                if reads.socket in ready and reads.receive() is not None:
                    busy.append(time.perf_counter() - reads.began)
                    reads.send(request)
        return quantiles(quiet, n=100)[98], quantiles(busy, n=100)[98]


def spelled(query: str, number: int) -> str:
    """The query in its n-th spelling: letters for which the number has a 1 bit are written as %XX."""
    letters = iter(range(len(query)))
    return "".join(
        f"%{ord(letter):02x}" if letter.isalnum() and number >> next(letters) & 1 else letter for letter in query
    )


def start(cloud: Cloud, rounds: int) -> float:
    """Processor time of a start, until the first answer, in units of that of the imports. The median."""
    ratios = []
    for _ in range(rounds):
        cloud.restart()
        took = spent(cloud.pid) + spent_by_children(cloud.pid)
        child = subprocess.Popen([sys.executable, "-c", IMPORTS])
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0
        ratios.append(took / (usage.ru_utime + usage.ru_stime))
    return median(ratios)


def measure(core: Core, klein: BareKlein, work: Sequence[Work], seconds: float, rounds: int) -> Figures:
    begun = start(core.cloud, rounds)
    figures = {"resident after the start, MiB": core.cloud.memory()}
    meter = Meter(klein, core.cloud.pid)
    for piece in work:
        meter.rounds(piece, seconds, 3 if rounds > 1 else 1)
    at_rest, busy = core.latency()
    figures = {**meter.figures(), START: begun, **figures, MEMORY: core.cloud.memory()}
    figures["p99 of GET at rest, ms"] = 1000 * at_rest
    figures[f"p99 of GET while {BOOTS} boot, ms"] = 1000 * busy
    return figures


def columns(core: Core, url: str, klein: BareKlein, options: argparse.Namespace, work: Sequence[Work]) -> None:
    found: dict[int, Figures] = {}
    for size in options.sizes:
        began = time.monotonic()
        have = core.cloud.count()
        core.cloud.live.stop()
        copy_server(url, core.server, max(0, size - have))
        tidy(url)
        core.cloud.live.start()
        found[size] = measure(core, klein, work, options.seconds, options.rounds)
        print(f"({size} servers: {time.monotonic() - began:.0f} s)", flush=True)
    is_sqlite = url.startswith("sqlite")
    show("SQLite" if is_sqlite else "PostgreSQL", found, AT_MOST if is_sqlite else AT_MOST_POSTGRESQL)
    growth(found)


def show(title: str, found: dict[int, Figures], at_most: Figures) -> None:
    """The bounds are compared with the column of a thousand servers, or of the most that there are."""
    judged = found[max(size for size in found if size <= THOUSAND)]
    print(f"\n{title + ', servers:':<46}" + "".join(f"{size:>10,}" for size in found) + f"{'must':>10}")
    for name in judged:
        cells = "".join(f"{figures[name]:>10.1f}" for figures in found.values())
        limit = at_most.get(name)
        verdict = "" if limit is None else f"{'≤ ' + format(limit, 'g'):>10}  {met(judged[name], limit)}"
        print(f"{shown(name):<46}{cells}{verdict}")


def shown(name: str) -> str:
    """The same work in another unit is shown below it, without repeating its name."""
    _, unit, what = name.rpartition(", in ")
    return f"    in {what}" if unit and name.startswith("  ") else name


def growth(found: dict[int, Figures]) -> None:
    """Only of what was measured: with PostgreSQL not every piece of work is."""
    most = max(found)
    if most <= THOUSAND:
        return
    print(f"\n{f'{most:,} servers against {THOUSAND:,}':<46}{'ratio':>10}{'must':>10}")
    for name, limit in GROWTH.items():
        if name not in found[most]:
            continue
        ratio = found[most][name] / found[THOUSAND][name]
        print(f"{name:<46}{ratio:>10.2f}{f'≤ {limit:g}':>10}  {met(ratio, limit)}")


def met(figure: float, limit: float) -> str:
    return "yes" if figure <= limit else "NO"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", type=int, default=THOUSAND)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each piece of work")
    parser.add_argument("--quick", action="store_true", help="a rough look, with 100 servers only")
    options = parser.parse_args()
    options.rounds = 1 if options.quick else 5
    options.sizes = [100] if options.quick else sorted({100, min(THOUSAND, options.servers), options.servers})
    if options.quick:
        options.seconds = 0.5
    # A second start finds the bytecode of the first.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with BareKlein() as klein:
        print(f"K = {1000 * median(klein.cost() for _ in range(5)):.3f} ms now")
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            run(Path(directory), "", klein, options)
        if server := os.environ.get("CLOUDCTL_TEST_POSTGRESQL"):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory, a_database(server) as url:
                run(Path(directory), url, klein, options)
        else:
            print("CLOUDCTL_TEST_POSTGRESQL is not set: nothing is said of PostgreSQL")


def run(directory: Path, url: str, klein: BareKlein, options: argparse.Namespace) -> None:
    cloud = Cloud(directory, CONFIG + (f'\n[database]\nurl = "{url}"\n' if url else ""))
    try:
        core = Core(cloud)
        work = core.work_on_postgresql() if url else core.work()
        columns(core, url or f"sqlite:///{directory / 'state' / 'cloudctl.sqlite'}", klein, options, work)
    finally:
        cloud.live.kill()


if __name__ == "__main__":
    main()
