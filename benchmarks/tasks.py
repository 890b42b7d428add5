"""Tasks per second: five steps that do nothing but `ctx.commit`, on a real reactor.

python benchmarks/tasks.py [--tasks 1000] [--url sqlite:////tmp/tasks.db]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from twisted.internet import defer, task

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.tasks import Context, Kind, Step, Unasked, Workflow, queue, submit
from cloudctl.tasks.engine import Engine


def nothing(_conn: Connection) -> None:
    pass


async def commit(ctx: Context) -> None:
    await ctx.commit(nothing)


FIVE = Workflow(
    Kind("benchmark.five", "thing"), [Step(name, commit) for name in ("one", "two", "three", "four", "five")]
)


def submit_all(conn: Connection, count: int) -> None:
    for number in range(count):
        submit(conn, FIVE.kind, f"thing-{number}", Unasked())


async def measure(reactor: object, url: str, count: int) -> None:
    db = Database.open(url, reactor)
    db.startService()
    metadata.create_all(db.engine)
    engine = Engine(db, reactor, None, [FIVE], exclusive=db.is_sqlite)
    await db.run(submit_all, count)
    started = time.perf_counter()
    engine.startService()
    while engine.counts.ended[FIVE.kind.name, "done"] < count:
        await task.deferLater(reactor, 0.02, lambda: None)
    seconds = time.perf_counter() - started
    await engine.stopService()
    left = await db.read(lambda conn: len(queue.listing(conn, states=("done",), limit=count)))
    db.stopService()
    assert left == count
    print(
        f"{count} tasks of 5 steps in {seconds:.2f} s: "
        f"{count / seconds:.0f} tasks/s, {5 * count / seconds:.0f} commits/s"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tasks", type=int, default=1000)
    options.add_argument("--url")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'tasks.db'}"
        task.react(lambda reactor: defer.ensureDeferred(measure(reactor, url, given.tasks)))


if __name__ == "__main__":
    main()
