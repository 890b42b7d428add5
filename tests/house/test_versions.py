"""Only a Span compares microversions: what a version changes is declared, can be looked up, and none is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Module, modules

# Where spans and an API's range do the comparing.
ITS_OWN = frozenset({"cloudctl.rest.versions"})
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_version(node: ast.expr) -> bool:
    """`version`, `call.version`, `around.call.version`."""
    return (isinstance(node, ast.Name) and node.id == "version") or (
        isinstance(node, ast.Attribute) and node.attr == "version"
    )


def comparisons(module: Module) -> Iterator[int]:
    """Lines that compare versions by order."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Compare) and any(isinstance(each, ORDER) for each in node.ops):
            sides = (node.left, *node.comparators)
            if any(is_version(side) for side in sides):
                yield node.lineno


def is_of_an_api(name: str) -> bool:
    return name not in ITS_OWN and (name.startswith("cloudctl.rest.") or ".api" in name)


def test_nothing_but_a_span_compares_microversions() -> None:
    ours = {name: module for name, module in modules("cloudctl").items() if is_of_an_api(name)}
    assert [f"{name}:{line}" for name, module in ours.items() for line in comparisons(module)] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("if call.version >= (2, 53): pass", [1]),
        ("x = 1\ny = a if version < SINCE else b", [2]),
        ("(2, 1) <= around.call.version <= (2, 9)", [1]),
        ("if call.version in gates.UUIDS: pass", []),
        ("address.version == version", []),
    ],
)
def test_a_comparison_is_found(text: str, lines: list[int]) -> None:
    assert list(comparisons(Module.parse("cloudctl.compute.api.x", text))) == lines
