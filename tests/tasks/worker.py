"""A process for `test_task_kill` to kill: runs the tasks of a database, whose effects are files in a folder.

python -m tests.tasks.worker URL FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sqlalchemy import Column, String, Table, insert, select
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import deferLater, react

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.tasks import Context, Kind, Step, Workflow
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import OPEN, TaskRow

commits = Table(
    "test_commits",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("step", String(64), primary_key=True),
)


def note(conn: Connection, task: int, step: str) -> None:
    # A step that is over and is run again would break the primary key.
    conn.execute(insert(commits).values(task=str(task), step=step))


async def work(ctx: Context) -> None:
    """Ensure a file, then record it."""
    file = Path(ctx.drivers["folder"]) / f"{ctx.task.id}-{ctx.step}"
    file.touch()
    await deferLater(ctx.drivers["reactor"], 0.002, lambda: None)
    await ctx.commit(note, ctx.task.id, ctx.step)


FOUR = Workflow(Kind("four", "thing"), [Step(name, work) for name in ("one", "two", "three", "four")])


def any_open(conn: Connection) -> bool:
    return conn.execute(select(TaskRow.id).where(TaskRow.state.in_(OPEN)).limit(1)).first() is not None


async def run(reactor: Any, url: str, folder: str) -> None:
    db = Database.open(url, reactor)
    db.startService()
    drivers = {"folder": folder, "reactor": reactor}
    engine = Engine(db, reactor, drivers, [FOUR], exclusive=db.is_sqlite, lease=2.0)
    engine.startService()
    while not engine.active and await db.read(any_open):
        await deferLater(reactor, 0.002, lambda: None)
    print("working", flush=True)
    while await db.read(any_open):
        await deferLater(reactor, 0.05, lambda: None)
    await engine.stopService()
    db.stopService()


if __name__ == "__main__":
    react(lambda reactor: ensureDeferred(run(reactor, *sys.argv[1:])))
