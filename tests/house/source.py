"""The project's modules as syntax trees, for the tests of this folder. Nothing is imported to be looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]


@frozen
class Module:
    name: str  # dotted
    is_package: bool
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, text: str, *, is_package: bool = False) -> Module:
        return cls(name, is_package, text, ast.parse(text, name))


@frozen
class Import:
    target: str  # the module's name if the module is known, else as written
    line: int


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def dotted(path: Path) -> str:
    """The name of a module of the project."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def read(path: Path) -> Module:
    """A module of the project. conftest.py forgets them: together they are a hundred megabytes."""
    return Module.parse(dotted(path), path.read_text(), is_package=path.name == "__init__.py")


def modules(*folders: str) -> dict[str, Module]:
    """Every module below the given folders of the project, by dotted name."""
    return {dotted(path): read(path) for path in python_files(*folders)}


def imports(module: Module, known: Mapping[str, Module]) -> Iterator[Import]:
    """Every import, wherever it is: in a function or under TYPE_CHECKING it is still a dependency."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield Import(submodule if submodule in known else base, node.lineno)


def _base(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module.name.split(".")
    up = node.level - 1 if module.is_package else node.level
    kept = package[: len(package) - up]
    return ".".join([*kept, node.module] if node.module else kept)
