"""A starting process finds what exists and makes nothing again; a stopping one leaves nothing half done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from cloudctl.compute.tables import ControlService
from cloudctl.db import Connection
from cloudctl.db.columns import metadata
from cloudctl.placement.tables import Host
from cloudctl.tasks.tables import TaskRow
from tests.live.load import TOML, Load, open_tasks, read
from tests.live.process import LiveCloud

pytestmark = pytest.mark.slow


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LiveCloud]:
    made = LiveCloud(tmp_path, TOML)
    yield made
    made.kill()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[LiveCloud]:
    """Each of its processes imports everything by itself."""
    made = LiveCloud(tmp_path, TOML, afresh=True)
    yield made
    made.kill()


def url_of(cloud: LiveCloud) -> str:
    return f"sqlite:///{cloud.state_dir / 'cloudctl.sqlite'}"


def load_of(cloud: LiveCloud, boots: int) -> Load:
    load = Load([cloud], Random(1), boots, 0)
    load.prepare()
    return load


def everything(cloud: LiveCloud) -> tuple[dict[str, Any], dict[str, bytes]]:
    """All rows, and all files except the database's."""
    files = {
        str(path.relative_to(cloud.state_dir)): path.read_bytes()
        for path in sorted(cloud.state_dir.rglob("*"))
        if path.is_file() and not path.name.startswith("cloudctl.sqlite")
    }
    return read(url_of(cloud), rows), files


def rows(conn: Connection) -> dict[str, Any]:
    """The rows of all tables except those that record when something was seen."""
    noted = (Host.table, ControlService.table)
    ours = [each for each in metadata.sorted_tables if each not in noted and not each.name.startswith("test_")]
    return {table.name: sorted(map(repr, conn.execute(select(table)))) for table in ours}


def test_a_start_after_a_clean_stop_makes_nothing_anew(alone: LiveCloud) -> None:
    alone.start()
    load_of(alone, 2).finish()
    alone.stop()
    before = everything(alone)
    alone.start()
    alone.stop()
    assert everything(alone) == before


def test_a_process_that_is_told_to_stop_in_the_middle_of_boots_lets_go_of_them(cloud: LiveCloud) -> None:
    cloud.start()
    load = load_of(cloud, 30)
    load.work(30)
    status = cloud.stop()
    assert status in (0, -15)
    assert (
        read(url_of(cloud), lambda conn: conn.execute(select(TaskRow.id).where(TaskRow.owner.is_not(None))).all()) == []
    )
    assert read(url_of(cloud), open_tasks), "it was not in the middle of anything"
    assert "Traceback" not in cloud.log.read_text()
    cloud.start()
    load.finish()
    load.check(url_of(cloud))


def test_a_cloud_runs_on_the_reactor_of_asyncio(tmp_path: Path) -> None:
    cloud = LiveCloud(tmp_path, TOML, reactor="asyncio")
    cloud.start()
    try:
        load = Load([cloud], Random(1), 4, 2)
        load.prepare()
        load.finish()
        load.check(url_of(cloud))
        cloud.stop()
        assert "Traceback" not in cloud.log.read_text()
    finally:
        cloud.kill()
