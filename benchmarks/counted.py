"""What the core's work amounts to, counted: the same within a thousandth in every run, whatever else the machine does.

    python benchmarks/counted.py [--most 20] [PIECE …]

For each piece: Python bytecode instructions, function calls, statements, and transactions that write; beside them the
same for a bare Klein `async` route. It is a cloud in memory, so threads, the disk and the time of C code are not in it:
`core.py` measures those. --most: the functions that run the most instructions, including those that they call.

One more transaction is a commit that a live process waits for; one more statement is some 260 instructions and SQLite's
time for it. Claims are transactions of their own here, and a boot's choice of a host is; with a file both are made in
the transaction that submits.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.web.server import Site

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bare_klein import app

from cloudctl.db.connection import Connection
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.databases import Undoable
from cloudctl.testing.http import request

SERVERS, VOLUMES, NETWORKING = "/compute/v2.1/servers", "/volume/v3/volumes", "/networking/v2.0"
WARM = 3  # runs before counting: the first ones make plans and fill caches


class Work:
    """The pieces of work, on one cloud."""

    def __init__(self) -> None:
        self.cloud = MemoryCloud({"tasks": {"audit_period": 86400.0}})
        self.demo = self.cloud.client("demo")
        self.network = self.made("network", name="bench")
        self.made("subnet", network_id=self.network, ip_version=4, cidr="10.64.0.0/12")
        self.group = self.made("security-group", name="bench")
        self.image = self.demo.get("/image/v2/images").json()["images"][0]["id"]
        self.numbers = iter(range(1, 60000))
        self.rest()
        self.server = self.boot()

    def pieces(self) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
        """Name, what is done first without counting, what is counted."""
        yield "GET one server", self.nothing, lambda: self.demo.get(f"{SERVERS}/{self.server}")
        yield "boot", self.nothing, self.boot
        yield "delete", self.note(self.boot), lambda: self.gone(f"{SERVERS}/{self.noted}")
        yield "network + subnet + port", self.nothing, self.cycle
        yield "security group rule", self.nothing, self.rule
        yield "volume", self.nothing, self.volume
        yield "its deletion", self.note(self.volume), lambda: self.gone(f"{VOLUMES}/{self.noted}")

    def nothing(self) -> None: ...

    def note(self, make: Callable[[], str]) -> Callable[[], None]:
        def before() -> None:
            self.noted = make()

        return before

    def rest(self) -> None:
        """Run until nothing is due now."""
        clock = self.cloud.clock
        while clock.calls and clock.calls[0].getTime() <= clock.seconds():
            clock.advance(0.0)

    def made(self, name: str, /, **wanted: Any) -> str:
        member = name.replace("-", "_")
        answer = self.demo.post(f"{NETWORKING}/{name}s", {member: wanted})
        assert answer.status == 201, answer
        self.cloud.advance(0.0)
        self.rest()
        return str(answer.json()[member]["id"])

    def gone(self, path: str) -> None:
        answer = self.demo.delete(path)
        assert answer.status < 300, answer
        self.rest()

    def boot(self) -> str:
        wanted = {"name": "b", "imageRef": self.image, "flavorRef": "1", "networks": [{"uuid": self.network}]}
        answer = self.demo.post(SERVERS, {"server": wanted})
        assert answer.status == 202, answer
        self.rest()
        return str(answer.json()["server"]["id"])

    def volume(self) -> str:
        answer = self.demo.post(VOLUMES, {"volume": {"size": 1}})
        assert answer.status == 202, answer
        self.rest()
        return str(answer.json()["volume"]["id"])

    def cycle(self) -> None:
        network = self.made("network", name="cycle")
        subnet = self.made("subnet", network_id=network, ip_version=4, cidr="192.168.7.0/24")
        port = self.made("port", network_id=network)
        for path in (f"ports/{port}", f"subnets/{subnet}", f"networks/{network}"):
            self.gone(f"{NETWORKING}/{path}")

    def rule(self) -> None:
        port = next(self.numbers)
        wanted = {"direction": "ingress", "protocol": "tcp", "port_range_min": port, "port_range_max": port}
        self.made("security-group-rule", security_group_id=self.group, **wanted)


@define
class Counted:
    """What is executed between two calls of `count`."""

    instructions: int = 0
    calls: int = 0
    statements: int = 0
    transactions: int = 0  # those that write
    within: Counter[str] = field(factory=Counter)  # by function, including what it calls
    _began: dict[Any, int] = field(factory=dict)

    def trace(self, frame: Any, event: str, _argument: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.calls += 1
            self._began[frame] = self.instructions
        elif event == "opcode":
            self.instructions += 1
        elif event == "return" and frame in self._began:
            code = frame.f_code
            where = "/".join(Path(code.co_filename).parts[-3:])
            self.within[f"{where}:{code.co_firstlineno} {code.co_name}"] += self.instructions - self._began.pop(frame)
        return self.trace

    def count(self, work: Callable[[], Any]) -> None:
        sys.settrace(self.trace)
        try:
            work()
        finally:
            sys.settrace(None)


def ask(counted: Counted, work: Callable[[], Any]) -> None:
    """Do it, and count the database's statements."""
    execute, begin = Connection.execute, Undoable.begin

    def executing(self: Connection, *arguments: Any) -> Any:
        counted.statements += 1
        return execute(self, *arguments)

    def beginning(self: Undoable, read_only: bool) -> None:
        counted.transactions += not read_only
        begin(self, read_only)

    Connection.execute, Undoable.begin = executing, beginning
    try:
        work()
    finally:
        Connection.execute, Undoable.begin = execute, begin


def show(name: str, counted: Counted, klein: Counted, most: int) -> None:
    print(
        f"{name:<26}{counted.instructions:>13,}{counted.instructions / klein.instructions:>9.1f}"
        f"{counted.calls:>8,}{counted.statements:>12,}{counted.transactions:>14,}"
    )
    for where, instructions in counted.within.most_common(most):
        print(f"    {instructions:>9,}  {where}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("pieces", nargs="*")
    options = parser.parse_args()
    klein, site = Counted(), Site(app.resource())

    def bare() -> None:
        assert request(site, "GET", "/thing/one", headers={"Accept": "application/json"}).status == 200

    for _ in range(WARM):
        bare()
    klein.count(bare)
    print(f"{'':<26}{'instructions':>13}{'× Klein':>9}{'calls':>8}{'statements':>12}{'transactions':>14}")
    show("a bare Klein route", klein, klein, options.most)
    work = Work()
    for name, before, piece in work.pieces():
        if options.pieces and not any(wanted in name for wanted in options.pieces):
            continue
        for _ in range(WARM):
            before()
            piece()
        counted = Counted()
        before()
        counted.count(piece)
        before()
        ask(counted, piece)
        show(name, counted, klein, options.most)
    work.cloud.close()


if __name__ == "__main__":
    main()
