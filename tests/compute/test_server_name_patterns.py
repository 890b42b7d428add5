"""The matcher of the list filters agrees with Python's, and never backtracks."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, literal, select, text

from cloudctl.compute import patterns
from cloudctl.compute.patterns import BadPattern
from cloudctl.errors import Invalid
from cloudctl.testing.cloud import MemoryCloud
from tests.effort import lines

atoms = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", "(a|b)", "(?:ba)", "x-1"])
repeated = st.builds(
    lambda atom, sign: atom + sign, atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
)
sequences = st.lists(repeated, max_size=4).map("".join)
bodies = st.lists(sequences, min_size=1, max_size=3).map("|".join)
expressions = st.builds(
    lambda start, body, end: f"{start}{body}{end}", st.sampled_from(["", "^"]), bodies, st.sampled_from(["", "$"])
)


@pytest.fixture
def postgresql(postgresql_url: str) -> Iterator[Any]:
    engine = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        yield conn
    engine.dispose()


def valid(pattern: str) -> bool:
    # Python's «ab*» repeats the b alone, as does ours; only that both take the pattern is needed.
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


@settings(max_examples=400, deadline=None)
@given(expressions.filter(valid), st.text("abcx-1.2", max_size=12))
def test_it_finds_what_python_finds(pattern: str, text: str) -> None:
    assert patterns.compile(pattern).search(text) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", True),
        ("", "x", True),
        ("^$", "", True),
        ("^$", "x", False),
        ("b$", "ab", True),
        ("^b", "ab", False),
        ("a|", "", True),
        (r"^web-\d+$", "web-12", True),
        (r"^web-\d+$", "web-", False),
        (r"[]a]", "]", True),
        (r"[a\]]", "]", True),
        (r"[a-]", "-", True),
        (r"[\w.]+@", "a.b@", True),
        ("(^a|b)$", "ab", True),
        (r"\\", "\\", True),
        ("ä+", "ää", True),
        ("(a*)*", "", True),
        ("(a*)+b", "aab", True),
        ("(|a)+$", "aa", True),
    ],
)
def test_it_knows_the_usual_syntax(pattern: str, text: str, found: bool) -> None:
    assert patterns.compile(pattern).search(text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "*",
        "a**",
        "+a",
        "^*",
        "(?=a)",
        "(?P<n>a)",
        r"\1",
        r"\q",
        "\\",
        "{",
        "a{",
        "a{2,1}",
        "a{300}",
        "a{1,999}",
        "[b-a]",
        "[[:alpha:]]",
        "a" * 256,
        "(a{100}){100}",
        "a{2}{3}",
        "a|*b",
        "(*a)",
        "a+??",
        "(?i)a",
        r"\pL",
        r"[\b]",
        r"[\x41]",
        r"\Qa",
        "\ud800",
        "[a-\\d]",
        r"[]\d}\d-{1}[a-c]",
        "a*+",
    ],
)
def test_it_refuses_what_it_does_not_know(pattern: str) -> None:
    with pytest.raises(BadPattern):
        patterns.compile(pattern)
    with pytest.raises(Invalid):
        patterns.checked("name", pattern)


def test_deep_nesting_is_no_error() -> None:
    nested = "(" * 120 + "a" + ")" * 120
    assert patterns.checked("name", nested) == nested
    assert patterns.compile(nested).search("a")


HOSTILE = [
    "(((((){255}){255}){255}){255}){255}",
    "((((((a?){9}){9}){9}){9}){9}){9}",
    "(a+)+$",
    "(a|aa)+$",
    "^(a*)*$",
    "^" + "a*" * 60 + "$",
    "(.*.*.*)*c",
    "(x*)*" * 50,
    "[^a]{255}" * 28,
    "(" * 127 + ")" * 127,
    "[^a-z]" * 42,
    "(a|b)*a" + "(a|b)" * 49,
    "é" * 255,
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_more_than_a_little_time_and_memory(pattern: str) -> None:
    """Processor time: compiled or refused, and matched against a page of the longest names."""
    names = ["a" * 255, "ab" * 127, "é😀" * 127] * 10
    patterns.compile.cache_clear()

    def work() -> None:
        try:
            compiled = patterns.compile(pattern)
        except BadPattern:
            return
        for name in names:
            compiled.search(name)

    lines(work, 10_000)
    patterns.compile.cache_clear()
    began = time.thread_time()
    work()
    assert time.thread_time() - began < 0.25


def test_what_is_kept_of_patterns_is_bounded() -> None:
    before = resident()
    for number in range(1000):
        compiled = patterns.compile(f"(a|[^b{number}]){{200}}x*[^a]{{50}}{number}")
        compiled.search(f"é😀ab{number}" * 20)
    assert resident() - before < (patterns.MOST_KEPT + 128) * patterns.MOST_MEMORY


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_is_an_answer(pattern: str) -> None:
    cloud = MemoryCloud()
    query = quote(pattern, safe="")
    admin = cloud.client("admin")

    def ask() -> None:
        answer = admin.get(f"/compute/v2.1/servers?name={query}&ip={query}&hostname={query}&all_tenants=1")
        assert answer.status in (200, 400)

    lines(ask, 100_000)
    cloud.close()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*"a-^$|(){}[]?*+\\.:,12\n", "\\d", "\\w", "(?:", "[^"]), max_size=12).map("".join))
@example("[a-]")
@example("[]a]")
@example("(^)*")
@example("()")
def test_postgresql_reads_all_that_is_taken_as_it_is_meant(postgresql: Any, pattern: str) -> None:
    try:
        compiled = patterns.compile(pattern)
    except BadPattern:
        return
    for name in ("", "a", "ab-1", "a2a", "^a$", "(a)", "{1,2}", "a\\b", "1:,."):
        found = postgresql.execute(text("SELECT :name ~ :pattern"), {"name": name, "pattern": pattern}).scalar_one()
        assert found is compiled.search(name), (pattern, name)


# -- what the database finds by itself

plain_texts = st.text(r"aAx-_%. \^$", min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(plain_texts, st.lists(st.text("aAx-_%. ", max_size=6), max_size=4))
def test_a_plain_pattern_is_found_by_the_database_as_by_the_matcher(pattern: str, names: list[str]) -> None:
    try:
        machine = patterns.compile(pattern)
    except BadPattern:
        return
    plain = patterns.plain(pattern)
    if plain is None:
        return
    with create_engine("sqlite://").connect() as conn:
        for name in names:
            found = conn.execute(select(plain.found_in(literal(name)))).scalar_one()
            assert bool(found) is machine.search(name)


@pytest.mark.parametrize("pattern", ["web", "^web", "web$", "^web$", r"web\.1", r"a\$", "a b", "%", "_"])
def test_a_text_and_simple_anchors_are_plain(pattern: str) -> None:
    assert patterns.plain(pattern) is not None


@pytest.mark.parametrize("pattern", ["", "^", "$", "^$", "w.b", "w*", "a|b", "[a]", "(a)", "\\d", "a\\", "a^b", "a$b"])
def test_everything_else_is_not(pattern: str) -> None:
    assert patterns.plain(pattern) is None
