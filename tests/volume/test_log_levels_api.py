"""Log levels of the services of block storage, from 3.32 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import LogLevel

from cloudctl.log_levels import LogLevels
from cloudctl.testing.cloud import MemoryCloud
from tests.volume.asking import LATEST, V3, at

PREFIX = "cloudctl.volume"


@pytest.fixture(scope="module")
def levels() -> LogLevels:
    return LogLevels(LogLevel.info)


@pytest.fixture(scope="module")
def cloud(levels: LogLevels) -> Iterator[MemoryCloud]:
    made = MemoryCloud(log_levels=levels)
    yield made
    made.close()


def ask(client: Any, what: str, **wish: Any) -> Any:
    return client.put(f"{V3}/os-services/{what}-log", wish, headers=LATEST)


def test_levels_are_set_and_shown(admin: Any, levels: LogLevels) -> None:
    assert ask(admin, "set", level="debug", prefix=PREFIX).status == 202
    assert levels.of(f"{PREFIX}.audit") is LogLevel.debug and levels.of("cloudctl.compute") is LogLevel.info
    answer = ask(admin, "get", binary="cinder-volume", prefix=PREFIX)
    (told,) = answer.json()["log_levels"]
    assert (answer.status, told["binary"], told["host"]) == (200, "cinder-volume", "cloudctl@volumes")
    assert set(told["levels"].values()) == {"DEBUG"} and PREFIX in told["levels"]
    everything = ask(admin, "get").json()["log_levels"]
    assert [each["binary"] for each in everything] == [
        "cinder-api",
        "cinder-scheduler",
        "cinder-volume",
        "cinder-backup",
    ]
    assert everything[0]["levels"]["cloudctl.tasks.engine"] == "INFO"


def test_a_service_that_is_not_here_changes_nothing(admin: Any, levels: LogLevels) -> None:
    assert ask(admin, "set", level="CRITICAL", server="elsewhere").status == 202
    assert levels.default is LogLevel.info
    assert ask(admin, "get", server="elsewhere").json() == {"log_levels": []}


def test_what_is_no_level_or_no_service_is_refused(admin: Any, demo: Any) -> None:
    assert ask(admin, "set", level="loud").status == 400
    assert ask(admin, "set").status == 400
    assert ask(admin, "set", level="INFO", binary="nova-api").status == 400
    for what in ("set", "get"):
        assert ask(demo, what, level="INFO").status in (400, 403)
        assert admin.put(f"{V3}/os-services/{what}-log", {"level": "INFO"}, headers=at("3.31")).status == 404


def test_a_process_with_a_log_of_its_own_says_so() -> None:
    cloud = MemoryCloud()
    try:
        assert ask(cloud.client("admin"), "get").status == 409
        assert ask(cloud.client("admin"), "set", level="INFO").status == 409
    finally:
        cloud.close()
