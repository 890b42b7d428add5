"""Access rules: what a pattern covers, and that no pattern keeps the process busy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudctl.rest.access_rules import allow, covers, segments
from cloudctl.rest.identity import AccessRule
from tests.effort import lines

LONGEST = 225  # characters of a pattern
MOST = 200  # rules of a credential
DEEP = "/v2.1/servers/1/os-volume_attachments/2/more/and/more/of/it"


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/v2.1/servers", "/v2.1/servers", True),
        ("/v2.1/servers/*", "/v2.1/servers/1", True),
        ("/v2.1/servers/*", "/v2.1/servers/1/ips", False),
        ("/v2.1/servers/{id}/ips", "/v2.1/servers/1/ips", True),
        ("/v2.1/**", "/v2.1/servers/1/ips", True),
        ("/v2.1/**", "/v2.1", True),
        ("/v2.1/**/ips", "/v2.1/servers/1/ips", True),
        ("/v2.1/**/ips", "/v2.1/servers/1", False),
        ("/**/**/ips", "/v2.1/ips", True),
        ("/**/a/*/**/b", "/a/a/b/c/b", True),
        ("/", "/", True),
    ],
)
def test_what_a_pattern_covers(pattern: str, path: str, covered: bool) -> None:
    assert covers(pattern, [segments(path)]) is covered


few = st.lists(st.sampled_from(["a", "b", "*", "{x}", "**"]), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(few, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6))
def test_it_is_what_a_regular_expression_says(pattern: list[str], path: list[str]) -> None:
    forms = {"**": "(/[ab])*", "*": "/[ab]", "{x}": "/[ab]"}
    expected = re.fullmatch("".join(forms.get(each, f"/{each}") for each in pattern), "/" + "/".join(path))
    assert covers("/" + "/".join(pattern), [path]) is (expected is not None)


@pytest.mark.parametrize("unit", ["/**", "/**/*", "/**/x", "/*", "/**/1/**/*", "/{a}/**"])
def test_no_credential_costs_more_than_a_little(unit: str) -> None:
    pattern = (unit * LONGEST)[: LONGEST - 5] + "/none"
    rules = [AccessRule(str(number), "compute", "GET", pattern) for number in range(MOST)]
    paths = (DEEP, f"/compute{DEEP}")

    def ask() -> None:
        assert not allow(rules, ("compute",), "GET", paths)

    lines(ask, MOST * 300)
