"""A line made by us is the line that Twisted would have made."""

from __future__ import annotations

import io
import json
from copy import copy
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twisted.application.twist._options import TwistOptions
from twisted.logger import (
    ILogObserver,
    Logger,
    LogLevel,
    eventAsJSON,
    formatTime,
    globalLogPublisher,
    jsonFileLogObserver,
    textFileLogObserver,
)
from twisted.python import log as legacy
from twisted.python.failure import Failure

from cloudctl import json_log, tap, text_log
from cloudctl.testing.cloud import MemoryCloud


class Thing:
    def __init__(self) -> None:
        self.inner = 5

    def __repr__(self) -> str:
        return "a thing"

    def __call__(self) -> str:
        return "called"


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1000, 1000), st.just(10**30), st.floats(), st.text(),
    st.text("ab\n\x00\x7f\x1e\u2028é\ud800"),
    st.binary(max_size=3), st.just(Thing()), st.lists(st.integers(), max_size=2), st.just(LogLevel.warn),
    st.just(Logger("x")), st.just(Failure(ValueError("odd"))),
)  # fmt: skip
FORMATS = st.sampled_from([
    "", "plain", "{a}", "{a} {b:.1f} {a!r} {a}", "{{a}}", "{a!r} {a!s}", "{log_namespace}", "{log_level.name}",
    "{t()}", "{t.inner}", "{l[0]}", "{log_logger}", "é {a}", "{a!x}", "{b:{a}}", "{log_format}", "{log_level}",
])  # fmt: skip


def is_wide(log_format: str, a: Any) -> bool:
    """Whether it asks for a field of a gigabyte, as «{b:{a}}» does where `a` is 1000000000.5."""
    return log_format == "{b:{a}}" and sum(map(str.isdecimal, str(a))) > 4


def parsed(line: str) -> Any:
    """Keeps the order of the keys, and makes NaN equal to itself."""
    return json.loads(line, object_pairs_hook=list, parse_constant=str)


@settings(max_examples=400, deadline=None)
@given(FORMATS, VALUES, st.floats(), st.sampled_from(list(LogLevel.iterconstants())), st.booleans())
def test_a_line_is_what_twisted_would_write(log_format: str, a: Any, b: float, level: Any, has_failure: bool) -> None:
    assume(not is_wide(log_format, a))
    events: list[dict[str, Any]] = []
    more = {"log_failure": Failure(ValueError("b"))} if has_failure else {}
    Logger("some.where", observer=cast(ILogObserver, events.append)).emit(
        level, log_format, a=a, b=b, t=Thing(), l=[1], **more
    )
    for drop in ((), ("t", "l")):
        (event,) = ({name: value for name, value in event.items() if name not in drop} for event in events)
        try:
            expected = eventAsJSON(copy(event))
        except KeyError:  # the format names what was dropped
            assert json_log.flat(event) is None
            continue
        out = io.StringIO()
        json_log.observer(out)(event)
        assert out.getvalue()[0] == "\x1e"
        assert out.getvalue()[-1] == "\n"
        assert parsed(out.getvalue()[1:]) == parsed(expected)


@settings(max_examples=400, deadline=None)
@given(
    FORMATS,
    VALUES,
    st.floats(),
    st.sampled_from([LogLevel.warn, None]),
    st.sampled_from([None, "old"]),
    st.floats(0, 2**32) | st.none(),
)
def test_a_line_of_text_is_what_twisted_would_write(
    log_format: str, a: Any, b: float, level: Any, system: str | None, when: float | None
) -> None:
    assume(not is_wide(log_format, a))
    event = {"a": a, "b": b, "log_format": log_format, "log_namespace": "some.where", "log_level": level}
    event |= {"log_system": system, "log_time": when, "log_logger": Logger("some.where")}
    expected, out = io.StringIO(), io.StringIO()
    textFileLogObserver(expected)(copy(event))
    text_log.observer(out)(event)
    assert out.getvalue() == text_log.harmless(expected.getvalue())


HOSTILE = "a\nb\r\x1b[2J\x9b31m\u202etxt\u2028\x85\ud800"


@pytest.mark.parametrize("more", [{"a": HOSTILE}, {"a": [HOSTILE], "log_failure": Failure(ValueError(HOSTILE))}])
def test_nobody_writes_commands_or_other_lines_to_who_reads_the_log(more: dict[str, Any]) -> None:
    out = io.StringIO()
    event = {"log_format": "{a}", "log_time": 1.0, "log_namespace": "x", "log_level": LogLevel.info, **more}
    text_log.observer(out)(event)
    first, *others = out.getvalue().rstrip("\n").split("\n")
    assert all(line.isprintable() for line in (first, *(each.replace("\t", "") for each in others)))
    assert all(line.startswith("\t") for line in others)
    assert "\\x1b[2J" in out.getvalue()


def test_a_path_of_commands_is_told_and_not_obeyed() -> None:
    cloud, out = MemoryCloud(), io.StringIO()
    observe = text_log.observer(out)
    globalLogPublisher.addObserver(observe)
    for path in ("/volume/v3/%1b[2J", "/volume/v3/\x1b[2J\x9b", "/volume/v3/%0aforged"):
        cloud.client("demo").get(path)
    globalLogPublisher.removeObserver(observe)
    cloud.close()
    assert "2J" in out.getvalue() and all(line.replace("\t", "").isprintable() for line in out.getvalue().split("\n"))


def test_a_time_just_before_a_second_is_shown_as_that_second() -> None:
    for when in (0.0, 1.9999994, 1.9999996, 1_800_000_000.9999999):
        assert text_log.second(text_log.rounded(when)) == formatTime(when)


def test_a_request_is_a_line_of_text_that_is_made_here() -> None:
    event = {"log_format": "{method} {ms:.1f} ms", "method": "GET", "ms": 1.25, "log_level": LogLevel.info}
    assert text_log.flat({**event, "log_namespace": "some.where"}) == "- [some.where#info] GET 1.2 ms\n"


@pytest.mark.parametrize("log_format", ["{", "{a", "{missing}", "{}", "{0}"])
def test_a_format_that_twisted_cannot_flatten_is_left_to_it(log_format: str) -> None:
    assert json_log.flat({"log_format": log_format, "a": 1}) is None


def test_lines_of_the_old_way_to_log_are_the_same() -> None:
    events: list[dict[str, Any]] = []
    observer = cast(ILogObserver, events.append)
    globalLogPublisher.addObserver(observer)
    legacy.msg("hello", system="there")
    globalLogPublisher.removeObserver(observer)
    (event,) = events
    assert parsed(json_log.flat(event) or eventAsJSON(copy(event))) == parsed(eventAsJSON(copy(event)))


def test_the_lines_of_a_cloud_are_made_without_twisted_and_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = MemoryCloud()
    out = io.StringIO()
    observe = json_log.observer(out)
    globalLogPublisher.addObserver(observe)
    demo = cloud.client("demo")

    def work() -> None:
        demo.post("/volume/v3/volumes", {"volume": {"size": 1}})
        cloud.settle()
        demo.get("/compute/v2.1/servers/detail?limit=3")
        demo.get("/compute/v2.1/nothing")
        cloud.login("demo", "demo-secret")

    # A format's flattening is worked out at its first event.
    work()
    monkeypatch.setattr(json_log, "eventAsJSON", lambda event: pytest.fail(f"left to Twisted: {event}"))
    work()
    globalLogPublisher.removeObserver(observe)
    lines = [json.loads(line) for line in out.getvalue().split("\x1e")[1:]]
    assert [(line["method"], line["status"]) for line in lines if "status" in line][-4:] == [
        ("POST", 202), ("GET", 200), ("GET", 404), ("POST", 201),
    ]  # fmt: skip
    assert (demo.token or "?") not in out.getvalue()
    assert "demo-secret" not in out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "factory"),
    [
        (["--log-format=json"], json_log.observer),
        (["--log-format=text"], text_log.observer),
        (["--log-file=FILE"], json_log.observer),
        (["--log-file=FILE", "--log-format=text"], text_log.observer),
    ],
)
def test_the_logs_of_twist_are_replaced(tmp_path: Path, arguments: list[str], factory: Any) -> None:
    options = TwistOptions()
    given = [argument.replace("FILE", str(tmp_path / "log")) for argument in arguments]
    options.parseOptions([*given, "cloudctl", f"--state-dir={tmp_path}"])
    twisteds = {json_log.observer: jsonFileLogObserver, text_log.observer: textFileLogObserver}
    assert options["fileLogObserverFactory"] is twisteds[factory]
    assert tap.writer(options["fileLogObserverFactory"]) is factory


def test_what_writes_another_log_is_not_replaced() -> None:
    assert tap.writer(io.StringIO) is io.StringIO


def test_options_that_are_not_twists_have_no_log() -> None:
    assert tap.filter_log(tap.Options()) is None
