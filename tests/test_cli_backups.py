"""`cloudctl backups`: what it makes the running cloud do."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from sqlalchemy import insert, select

from cloudctl import state_dir
from cloudctl.cli import database, main
from cloudctl.config import build
from cloudctl.db.columns import metadata, utc
from cloudctl.tasks.tables import TaskRow
from cloudctl.volume.tables import Backup


def test_backups_of_the_directory_are_submitted_once(tmp_path: Path) -> None:
    state_dir.touch_database(tmp_path)
    db = database(build({}, {}, tmp_path))
    metadata.create_all(db.engine)
    same = {
        "project_id": "p", "user_id": "u", "volume_id": "v", "container": "c", "availability_zone": "nova", "size": 1,
        "data_timestamp": utc(0), "created_at": utc(0),
    }  # fmt: skip
    rows = [
        {"id": "here", "status": "available", "kept_at": None},
        {"id": "there", "status": "available", "kept_at": "p/c/volume"},
        {"id": "broken", "status": "error", "kept_at": None},
    ]
    for row in rows:
        db.transact(False, lambda conn, row=row: conn.execute(insert(Backup).values(**same, **row)).rowcount)
    for told in ("1 backups", "0 backups"):
        done = CliRunner().invoke(main, [f"--state-dir={tmp_path}", "backups", "move"])
        assert (done.exit_code, told in done.output) == (0, True), done.output
    (task,) = db.transact(True, lambda conn: conn.execute(select(TaskRow)).all())
    assert (task.kind, task.resource_id) == ("volume.backup.move", "here")
