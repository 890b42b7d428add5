"""A scene on a database in memory and a Clock, with or without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from twisted.internet.task import Clock

from cloudctl.testing.cloud import empty_database
from tests.tasks.scene import Scene

START = 1_800_000_000.0


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.advance(START)
    return clock


@pytest.fixture
def bare(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A scene in which no engine has started."""
    db = empty_database(clock)
    db.startService()
    scene = Scene(clock, db)
    monkeypatch.setattr(db, "run", partial(scene.run, db.run))
    monkeypatch.setattr(db, "read", partial(scene.run, db.read))
    yield scene
    for engine in scene.engines:
        engine.kill()
    db.stopService()


@pytest.fixture
def scene(bare: Scene) -> Scene:
    """A scene with one engine that has started."""
    bare.start()
    return bare
