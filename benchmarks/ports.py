"""What pages of ports cost as one project has more and more of them, on both databases.

    python benchmarks/ports.py [--sizes 200 1000 10000] [--rounds 9] [--all]

One cloud per size gets the same requests in turn: a page of 100 by each filter and in the order of each sort key, as a
member and as an administrator, the first page and the last; one port; a port that is created and deleted. The
database's work is counted, the same in every run: steps of SQLite's machine, and pages that PostgreSQL looks at to
read. With the most ports it may be a tenth more than with the next size (and see DEEPER). Beside it is the least
processor time of some rounds, including that of PostgreSQL's process; its ratio says little if other work is running.
--all: every row, not only those that grow.

PostgreSQL: if CLOUDCTL_TEST_POSTGRESQL names a server on this machine on which databases may be created.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attrs import define
from seed import copy_port, tidy
from sqlalchemy import insert, select, text, update
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.network.api.ports import PORTS
from cloudctl.network.options import NetworkOptions
from cloudctl.network.tables import NetworkTag, Port
from tests.databases import a_database
from tests.network.conftest import START, Neutron, make_neutron
from tests.statements import asked

PAGE = 100
LIMIT = 1.1
# Pages of PostgreSQL: an index of ten times as many rows has one level more, for each row of a page that something is
# looked up for, and the rows of a page lie further apart.
DEEPER = PAGE + 25
USERS = ("demo", "admin")
# Known to grow with what a project has: docs/internals.md.
LEFT = ("changed_since", "revision_number", "updated_at", "not-tags")


@define
class Sized:
    """A cloud whose project `demo` has a given number of ports on one network, one of which is like no other."""

    neutron: Neutron
    network: str
    subnet: str
    group: str
    one: dict[str, Any]
    backend: int | None  # the process of PostgreSQL

    def spent(self) -> int:
        """Nanoseconds of processor time so far, of this process and of the database's."""
        own = time.process_time_ns()
        if self.backend is None:
            return own
        return own + int(Path(f"/proc/{self.backend}/schedstat").read_text().split()[0])

    def cost(self, work: Callable[[Sized], object]) -> int:
        began = self.spent()
        work(self)
        return self.spent() - began

    def counted(self, work: Callable[[Sized], object]) -> int:
        """The database's work for it: steps of SQLite's machine, or pages that PostgreSQL looked at to read."""
        return self._steps(work) if self.backend is None else self._pages(work)

    def _steps(self, work: Callable[[Sized], object]) -> int:
        told = [0]

        def tick() -> None:
            told[0] += 1

        driver: Any = self.neutron.db.connections.get().driver
        driver.set_progress_handler(tick, 1)
        work(self)
        driver.set_progress_handler(None, 0)
        return told[0]

    def _pages(self, work: Callable[[Sized], object]) -> int:
        with asked() as seen:
            work(self)

        def looked_at(conn: Connection) -> int:
            found = 0
            for query, arguments in seen:
                if query.startswith("SELECT"):
                    rows = conn.driver.execute(f"EXPLAIN (ANALYZE, BUFFERS) {query}", arguments)
                    # The first line of buffers covers the whole query.
                    line = next((row[0] for row in rows if "Buffers:" in row[0]), "")
                    found += sum(map(int, re.findall(r"(?:hit|read)=(\d+)", line)))
            return found

        return int(self.neutron.db.transact(True, looked_at))

    def marker(self, user: str, query: str) -> str:
        """The port before the last page of a list."""
        page = self.neutron.get(f"/ports?limit={PAGE + 1}&page_reverse=true{query}", user)["ports"]
        return str(page[0]["id"])


def filled(url: str, size: int) -> Sized:
    neutron = make_neutron(opened(url), Clock(), NetworkOptions())
    neutron.clock.rightNow = START
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"port": -1}}, "admin")
    network = neutron.network("10.64.0.0/12")
    device = str(uuid4())
    port = neutron.create(
        "port", "admin", network_id=network["id"], name="usual", device_id=device, device_owner="compute:nova",
        binding__host_id="host", project_id="demo",
    )  # fmt: skip
    one = neutron.create(
        "port", "admin", network_id=network["id"], name="one", description="one", device_id="one",
        device_owner="baremetal:none", binding__host_id="another", project_id="demo",
    )  # fmt: skip
    neutron.settle()
    neutron.engine.stopService()
    neutron.db.close()
    copy_port(url, device, size - 2)
    neutron = make_neutron(opened(url), Clock(), NetworkOptions())
    neutron.clock.rightNow = START
    neutron.transact(one_a_second)
    backend = None
    if not neutron.db.is_sqlite:
        tidy(url)
        backend = neutron.transact(lambda conn: conn.alchemy.execute(text("SELECT pg_backend_pid()")).scalar_one())
    return Sized(neutron, network["id"], network["subnets"][0], port["security_groups"][0], one, backend)


def one_a_second(conn: Connection) -> None:
    """Make it look as if the copies had been created one per second. Each has a tag."""
    for number, id in enumerate(conn.execute(select(Port.id).order_by(Port.created_at, Port.id)).scalars().all()):
        when = datetime(2026, 1, 1) + timedelta(seconds=number)
        conn.execute(update(Port.table).where(Port.id == id).values(created_at=when, updated_at=when))
        conn.execute(insert(NetworkTag.table).values(resource_id=id, tag="every"))


def opened(url: str) -> Database:
    inline: Any = Inline()
    return Database(create(url), inline, inline, Clock())


def queries(sized: Sized) -> Iterator[str]:
    """The queries of a list: each filter with the value of all ports but one and with that one's; each sort key."""
    yield ""
    subnet, one = sized.subnet, sized.one
    usual = sized.neutron.get("/ports?limit=1&name=usual", "admin")["ports"][0]
    beside = {
        "fixed_ips": [
            f"subnet_id={subnet}",
            f"ip_address={one['fixed_ips'][0]['ip_address']}",
            "ip_address_substr=10.6",
        ],
        "security_groups": [sized.group],
        "changed_since": ["2020-01-01T00:00:00"],
        **{name: ["every", "nobody"] for name in ("tags", "tags-any", "not-tags", "not-tags-any")},
    }
    described = PORTS.collection
    for name in (*described.listing.filters, *described.of_caller):
        shown = [usual.get(name), one.get(name)]
        for value in beside.get(name) or dict.fromkeys(str(each) for each in shown if each not in (None, "")):
            yield f"&{name}={quote(value)}"
    for name in described.listing.sort_keys:
        for direction in ("asc", "desc"):
            yield f"&sort_key={name}&sort_dir={direction}"


def pieces(sizes: Sequence[Sized]) -> Iterator[tuple[str, Callable[[Sized], object]]]:
    # Only the ids differ from cloud to cloud.
    lists = list(zip(*(queries(sized) for sized in sizes), strict=True))
    for user in USERS:
        for alike in lists:
            paths = {id(sized): f"/ports?limit={PAGE}{query}" for sized, query in zip(sizes, alike, strict=True)}
            yield f"{user}: page {alike[0][1:]}", get(user, paths)
            if len(sizes[0].neutron.get(paths[id(sizes[0])], user)["ports"]) == PAGE:
                behind = {
                    id(sized): f"{paths[id(sized)]}&marker={sized.marker(user, query)}"
                    for sized, query in zip(sizes, alike, strict=True)
                }
                yield f"{user}: last page {alike[0][1:]}", get(user, behind)
        yield f"{user}: one port", get(user, {id(sized): f"/ports/{sized.one['id']}" for sized in sizes})
    yield "a port is made and deleted", cycle


def get(user: str, paths: dict[int, str]) -> Callable[[Sized], object]:
    """A request for one path in each cloud."""
    return lambda sized: sized.neutron.get(paths[id(sized)], user)


def cycle(sized: Sized) -> None:
    clock = sized.neutron.clock
    port = sized.neutron.create("port", network_id=sized.network)
    clock.advance(1)
    sized.neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    clock.advance(1)


def measure(sizes: Sequence[Sized], options: argparse.Namespace) -> None:
    grown, times = 0, []
    for name, work in pieces(sizes):
        # The first one makes plans, and renders ports as JSON.
        least = [min(sized.cost(work), sized.cost(work)) for sized in sizes]
        counted = [sized.counted(work) for sized in sizes]
        for _ in range(options.rounds):
            least = [min(before, sized.cost(work)) for before, sized in zip(least, sizes, strict=True)]
        times.append(least[-1] / least[-2])
        ratio = (counted[-1] - (0 if sizes[0].backend is None else DEEPER)) / max(counted[-2], 1)
        excused = any(each in name for each in LEFT)
        grown += ratio > LIMIT and not excused
        if options.all or ratio > LIMIT:
            shown = "".join(f"{each / 1e6:>10.2f}" for each in least) + "".join(f"{each:>9,}" for each in counted)
            verdict = "" if ratio <= LIMIT else "known" if excused else "NO"
            print(f"{name:<70}{shown}{times[-1]:>8.2f}{ratio:>8.2f}  {verdict}", flush=True)
    print(
        f"of {len(times)} pieces of work {grown} grow by more than {LIMIT:g}; time: {median(times):.2f} in the median"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 10000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ports-") as directory:
        run("SQLite", [f"sqlite:///{directory}/{size}.sqlite" for size in options.sizes], options)
    if server := os.environ.get("CLOUDCTL_TEST_POSTGRESQL"):
        with ExitStack() as stack:
            urls = [stack.enter_context(a_database(server)) for _ in options.sizes]
            run("PostgreSQL", urls, options)
    else:
        print("CLOUDCTL_TEST_POSTGRESQL is not set: nothing is said of PostgreSQL")


def run(title: str, urls: Sequence[str], options: argparse.Namespace) -> None:
    for url in urls:
        db = opened(url)
        metadata.create_all(db.engine)
        db.close()
    sizes = [filled(url, size) for url, size in zip(urls, options.sizes, strict=True)]
    heads = "".join(f"{f'{size:,} ms':>10}" for size in options.sizes)
    print(f"\n{title + ', ports:':<70}{heads}")
    measure(sizes, options)
    for sized in sizes:
        sized.neutron.db.close()


if __name__ == "__main__":
    main()
