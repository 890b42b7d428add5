"""`cloudctl tasks`: what an operator, and a script, reads of the work."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from cloudctl import app, state_dir
from cloudctl.cli import database, main
from cloudctl.config import build
from cloudctl.db import Connection
from cloudctl.db.columns import metadata
from cloudctl.tasks import Kind, Unasked, submit

LONGEST = Kind("network.security_group.ensure", "security_group", deadline=60.0)


def test_the_parts_of_a_line_are_apart_however_long_they_are(tmp_path: Path) -> None:
    state_dir.touch_database(tmp_path)
    db = database(build({}, app.SECTIONS, tmp_path))
    metadata.create_all(db.engine)

    def begin(conn: Connection) -> object:
        return submit(conn, LONGEST, "the-group", Unasked())

    db.transact(False, begin)
    done = CliRunner().invoke(main, [f"--state-dir={tmp_path}", "tasks", "list"])
    assert done.output.split()[4:6] == [LONGEST.name, "the-group"], done.output


def test_a_number_that_no_task_can_have_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    state_dir.touch_database(tmp_path)
    metadata.create_all(database(build({}, app.SECTIONS, tmp_path)).engine)
    done = CliRunner().invoke(main, [f"--state-dir={tmp_path}", "tasks", "retry", str(2**63)])
    assert done.exit_code == 2 and "is not in the range" in done.output, done.output
