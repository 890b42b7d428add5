"""A rolling upgrade is rehearsed: this release, and one whose schema is a step ahead, on one database under load."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from random import Random
from signal import SIGTERM

import psycopg
import pytest

from cloudctl.db import Connection, schema
from tests.live.load import PATIENCE, TOML, Load, read
from tests.live.process import LiveCloud

pytestmark = pytest.mark.slow

NEXT = schema.VERSION + 1
STEP = f'''
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT:04}", "{schema.VERSION:04}"
branch_labels = depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("servers") as batch:
        batch.add_column(sa.Column("of_the_next_release", sa.Text(), nullable=True))
    op.create_table("of_the_next_release", sa.Column("id", sa.Integer(), primary_key=True))
'''
# Python imports it before anything else in a process.
CUSTOM = """
from functools import partial
from pathlib import Path
from cloudctl.db import schema

schema.VERSION = {version}
schema.upgrade = partial(schema.upgrade, directory=Path({migrations!r}))
"""


def next_release(directory: Path) -> str:
    """The PYTHONPATH that makes a process one of the next release."""
    migrations = directory / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
    (migrations / "versions" / f"{NEXT:04}_next.py").write_text(STEP)
    (directory / "sitecustomize.py").write_text(CUSTOM.format(version=NEXT, migrations=str(migrations)))
    return os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))


def versions(conn: Connection) -> tuple[int, int] | None:
    return schema.found_version(conn)


def test_the_next_release_takes_over_under_load_and_the_last_one_can_come_back(
    tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = f'{TOML}\n[database]\nurl = "{postgresql_url}"\n[tasks]\nlease = 3600.0\n'
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = (LiveCloud(tmp_path / name, toml, state_dir=tmp_path / "state") for name in ("old", "new"))
    try:
        old.start()
        load = Load([old, new], Random(13), boots=10, deletes=3)
        load.prepare()
        load.work(3)

        # The schema takes its step while requests and tasks go on.
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", next_release(tmp_path / "next"))
            began = time.monotonic()
            new.start(wait=False)
        load.work(4)
        new.wait(began)
        assert read(postgresql_url, versions) == (NEXT, schema.COMPATIBLE_FROM)
        load.work(4)
        assert old.stop() == -SIGTERM
        load.finish()
        load.check(postgresql_url)

        # It was a mistake: the last release comes back, while the next one works, and then alone.
        old.start()
        load.boots += 4
        load.work(4)
        assert new.stop() == -SIGTERM
        load.delete_all()
        load.check(postgresql_url)
        assert "Traceback" not in old.log.read_text() + new.log.read_text()

        # With a schema that it cannot work with, it says so.
        assert old.stop() == -SIGTERM
        with psycopg.connect(postgresql_url.replace("+psycopg", "")) as connection:
            connection.execute(f"UPDATE schema_version SET compatible_from = {NEXT}")
        old.start(wait=False)
        assert old.process is not None and old.process.wait(PATIENCE) != 0
        assert f"its schema version is {NEXT}, but this release supports at most {schema.VERSION}" in (
            old.log.read_text()
        )
    finally:
        old.kill()
        new.kill()
