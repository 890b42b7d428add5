"""Which events of a log are written, and how that changes while a process runs."""

from __future__ import annotations

import io
from types import ModuleType
from typing import cast

import pytest
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import (
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    Logger,
    LogLevel,
    PredicateResult,
    globalLogPublisher,
)
from twisted.web.client import Agent

from cloudctl import tap
from cloudctl.log_levels import LogLevels


@pytest.mark.parametrize(
    ("namespace", "level"),
    [
        ("cloudctl.volume", LogLevel.debug),
        ("cloudctl.volume.api.logs", LogLevel.debug),
        ("cloudctl.volumes", LogLevel.warn),
        ("cloudctl", LogLevel.warn),
        ("twisted.web", LogLevel.error),
        ("", LogLevel.error),
    ],
)
def test_the_nearest_namespace_above_decides(namespace: str, level: object) -> None:
    levels = LogLevels(LogLevel.error)
    levels.set("cloudctl", LogLevel.warn)
    levels.set("cloudctl.volume", LogLevel.debug)
    assert levels.of(namespace) is level


def test_what_is_said_later_of_a_prefix_holds_for_all_below_it() -> None:
    levels = LogLevels(LogLevel.info)
    levels.set("cloudctl.volume", LogLevel.debug)
    levels.set("cloudctl", LogLevel.error)
    assert levels.of("cloudctl.volume") is LogLevel.error
    levels.set("", LogLevel.warn)
    assert (levels.of("cloudctl"), levels.said) == (LogLevel.warn, {})


def test_an_event_is_written_from_its_level_on() -> None:
    seen: list[LogEvent] = []
    levels = LogLevels(LogLevel.warn)
    log = Logger("cloudctl.volume", observer=FilteringLogObserver(cast(ILogObserver, seen.append), [levels]))
    log.info("one")
    levels.set("cloudctl.volume", LogLevel.info)
    log.info("two")
    log.debug("three")
    assert [event["log_format"] for event in seen] == ["two"]
    assert levels({"log_namespace": "cloudctl.volume"}) is PredicateResult.no


async def test_an_http_clients_connections_are_not_told_of_one_by_one() -> None:
    from twisted.internet import reactor

    seen: list[LogEvent] = []
    globalLogPublisher.addObserver(seen_by := FilteringLogObserver(cast(ILogObserver, seen.append), [LogLevels()]))
    try:
        with pytest.raises(ConnectionRefusedError):
            await Agent(reactor).request(b"GET", b"http://127.0.0.1:1/")
        await deferLater(cast(IReactorTime, reactor), 0)
    finally:
        globalLogPublisher.removeObserver(seen_by)
    assert [event for event in seen if "factory" in event] == []


def test_loggers_are_found_in_modules() -> None:
    module = ModuleType("one")
    module.log = Logger("cloudctl.one")  # type: ignore[attr-defined]  # as in a module
    levels = LogLevels(LogLevel.info)
    levels.set("cloudctl.two", LogLevel.debug)
    assert levels.told({"one": module}, "cloudctl.") == {
        "cloudctl.one": LogLevel.info, "cloudctl.two": LogLevel.debug,
    }  # fmt: skip
    assert levels.told({"one": module}, "cloudctl.t") == {"cloudctl.two": LogLevel.debug}


def test_the_log_of_twist_goes_through_it() -> None:
    from twisted.application.twist._options import TwistOptions

    options = TwistOptions()
    options.parseOptions(["--log-level=warn", "--log-format=text", "cloudctl"])
    levels = tap.filter_log(options.subOptions)
    assert levels is not None and levels.default is LogLevel.warn
    assert options["logLevel"] is LogLevel.debug
    out = io.StringIO()
    observer = options["fileLogObserverFactory"](out)
    log = Logger("cloudctl.volume", observer=observer)
    log.info("not yet")
    levels.set("cloudctl", LogLevel.info)
    log.info("now")
    assert "now" in out.getvalue() and "not yet" not in out.getvalue()
