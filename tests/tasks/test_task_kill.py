"""`kill -9` at random moments: every task is done in the end, and no step that was over is run again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.tasks import Unasked, submit
from cloudctl.tasks.tables import TaskRow
from tests.tasks.worker import FOUR, commits

ROOT = Path(__file__).parents[2]
TASKS = 300
KILLS = 6


def submit_all(conn: Connection) -> None:
    for number in range(TASKS):
        submit(conn, FOUR.kind, f"thing-{number}", Unasked())


def start(url: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.tasks.worker", url, str(folder)]
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "working\n"
    return worker


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_killed_again_and_again_all_work_is_done_once(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = f"sqlite:///{tmp_path / 'cloud.db'}"
    if database == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    folder = tmp_path / "effects"
    folder.mkdir()
    engine = create_engine(url)
    metadata.create_all(engine)
    clock = Clock()
    clock.advance(time.time())
    inline: Any = Inline()
    db = Database(create(url), inline, inline, clock)
    db.transact(False, submit_all)
    db.close()
    kills = 0
    while True:
        worker = start(url, folder)
        try:
            worker.wait(timeout=random.uniform(0.01, 0.12) if kills < KILLS else 600.0)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
            kills += 1
            assert kills <= KILLS, "it does not end"
        else:
            break
    assert worker.returncode == 0
    with engine.connect() as conn:
        states = conn.execute(select(TaskRow.state, func.count()).group_by(TaskRow.state)).all()
        repeated = conn.execute(select(func.count()).where(TaskRow.fence > 1)).scalar_one()
        done = conn.execute(select(func.count()).select_from(commits)).scalar_one()
    engine.dispose()
    assert [tuple(row) for row in states] == [("done", TASKS)]
    assert done == len(list(folder.iterdir())) == TASKS * len(FOUR.steps)
    assert kills > 0
    assert repeated > 0, "no kill hit a running task"
