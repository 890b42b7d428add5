"""`cloudctl db purge`: what an operator types and reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import func, insert, select

from cloudctl import app, state_dir
from cloudctl.cli import database, main
from cloudctl.config import build
from cloudctl.db import Connection, Database, schema
from cloudctl.db.columns import utc
from cloudctl.identity.tables import Trust

DAY = 86_400.0


@pytest.fixture
def db(tmp_path: Path) -> Database:
    state_dir.touch_database(tmp_path)
    found = database(build({}, app.SECTIONS, tmp_path))
    schema.prepare(found)
    return found


def purge(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--state-dir={tmp_path}", "db", "purge", *arguments])


def three(conn: Connection) -> None:
    now = utc(time.time())
    for id, days in (("old", 40), ("older", 50), ("young", 20)):
        ended = utc(time.time() - days * DAY)
        people = {"trustor_user_id": "u", "trustee_user_id": "v"}
        conn.execute(insert(Trust), {"id": id, **people, "expires_at": ended, "created_at": now})


def count(db: Database) -> int:
    return int(db.transact(True, lambda conn: conn.scalar(select(func.count()).select_from(Trust.table))))


def test_what_is_counted_is_removed_and_then_there_is_nothing_more(tmp_path: Path, db: Database) -> None:
    db.transact(False, three)
    counted = purge(tmp_path, "--older-than=30", "--dry-run")
    assert (counted.exit_code, counted.output.split("\n")) == (
        0,
        ["        2  expired trusts", "        2  rows would be removed", ""],
    )
    assert count(db) == 3
    done = purge(tmp_path, "--older-than=30")
    assert (done.exit_code, done.output.split("\n")) == (
        0,
        ["        2  expired trusts", "        2  rows removed", ""],
    )
    assert count(db) == 1
    assert purge(tmp_path, "--older-than=30").output == "        0  rows removed\n"


def test_the_days_must_be_said(tmp_path: Path, db: Database) -> None:
    db.transact(False, three)
    for arguments in ((), ("--older-than=0",), ("--older-than=soon",)):
        assert purge(tmp_path, *arguments).exit_code == 2
    assert count(db) == 3


def test_a_database_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    nowhere = purge(tmp_path, "--older-than=30")
    assert (nowhere.exit_code, nowhere.output.count("\n")) == (1, 1)
    state_dir.touch_database(tmp_path)
    empty = purge(tmp_path, "--older-than=30")
    assert (empty.exit_code, empty.output.count("\n")) == (64, 1)
