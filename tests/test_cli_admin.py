"""`cloudctl reset-admin`: the way back of an operator whom the API does not know any more."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from sqlalchemy import select, update

from cloudctl import app, state_dir
from cloudctl.cli import database, main
from cloudctl.config import build
from cloudctl.db import schema
from cloudctl.identity.options import Argon2
from cloudctl.identity.passwords import Hashing
from cloudctl.identity.tables import Project, User


def test_a_password_is_printed_unless_it_was_given(tmp_path: Path) -> None:
    state_dir.touch_database(tmp_path)
    db = database(build({}, app.SECTIONS, tmp_path))
    schema.prepare(db)
    for given in (None, "of my own"):
        db.transact(False, lambda conn: conn.execute(update(Project).values(enabled=False)).rowcount)
        done = CliRunner().invoke(
            main, [f"--state-dir={tmp_path}", "reset-admin"], env={"CLOUDCTL_ADMIN_PASSWORD": given}
        )
        assert done.exit_code == 0, done.output
        assert given is None or given not in done.output
        user = db.transact(True, lambda conn: conn.execute(select(User)).one())
        assert Hashing(Argon2()).verify(user.password_hash, given or done.output.split()[-1])
        assert all(db.transact(True, lambda conn: conn.execute(select(Project.enabled)).scalars().all()))


def test_a_password_with_which_nobody_could_log_in_is_refused(tmp_path: Path) -> None:
    state_dir.touch_database(tmp_path)
    schema.prepare(database(build({}, app.SECTIONS, tmp_path)))
    done = CliRunner().invoke(main, [f"--state-dir={tmp_path}", "reset-admin", f"--password={'x' * 4097}"])
    assert (done.exit_code, done.output) == (1, "Error: A password has at most 4096 characters.\n")
