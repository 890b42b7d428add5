"""The matcher of the list filters agrees with Python's, and never backtracks."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, literal, select

from cloudctl.compute import patterns
from cloudctl.compute.patterns import BadPattern
from cloudctl.errors import Invalid

atoms = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", "(a|b)", "(?:ba)", "x-1"])
repeated = st.builds(
    lambda atom, sign: atom + sign, atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
)
sequences = st.lists(repeated, max_size=4).map("".join)
bodies = st.lists(sequences, min_size=1, max_size=3).map("|".join)
expressions = st.builds(
    lambda start, body, end: f"{start}{body}{end}", st.sampled_from(["", "^"]), bodies, st.sampled_from(["", "$"])
)


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
        "a*+",
    ],
)
def test_it_refuses_what_it_does_not_know(pattern: str) -> None:
    with pytest.raises(BadPattern):
        patterns.compile(pattern)
    with pytest.raises(Invalid):
        patterns.checked("name", pattern)


def test_deep_nesting_is_refused_and_not_an_error() -> None:
    nested = "(" * 120 + "a" + ")" * 120
    assert patterns.checked("name", nested) == nested
    assert patterns.compile(nested).search("a")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "^(a*)*$", "^" + "a*" * 60 + "$", "(.*.*.*)*c"])
def test_the_work_of_every_pattern_grows_with_the_text_and_no_faster(pattern: str) -> None:
    compiled = patterns.compile(pattern)

    def lines(length: int, most: int) -> int:
        """Lines of Python that a search executes."""
        count = 0

        def trace(_frame: Any, event: str, _argument: Any) -> Any:
            nonlocal count
            count += event == "line"
            assert count <= most, f"over {most} lines for {length} characters"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert not compiled.search("a" * length + "b")
        finally:
            sys.settrace(before)
        return count

    lines(240, 6 * lines(60, 1_000_000))


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
