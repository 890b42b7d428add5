"""Files stay small, say what they are, and give a reason when they switch a checker off."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT, Module, modules, python_files

FOLDERS = ("cloudctl", "tests", "twisted", "benchmarks")
LONGEST = 500

# Path → why this file is one idea although it is long.
LONG_FOR_A_REASON: dict[str, str] = {}

VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "managers", "manager", "common", "base", "misc"})
# Pieced together so that this file does not look like an offender itself.
SWITCHED_OFF = re.compile(
    r"#\s*(?:type:\s*" + r"ignore|no" + r"qa|pragma:\s*no cover)(?:\[[^]]*\]|:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?"
)


def unexplained(text: str) -> Iterator[int]:
    """Lines that silence a checker without a reason, either after it or in a comment on the line above."""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        silenced = SWITCHED_OFF.search(line)
        if silenced is None:
            continue
        after = line[silenced.end() :].strip(" #-:")
        above = lines[number - 2].strip() if number > 1 else ""
        if not after and not above.startswith("#"):
            yield number


def undocumented(module: Module) -> bool:
    return ast.get_docstring(module.tree) is None


def too_long(sizes: dict[str, int]) -> list[str]:
    return [path for path, lines in sizes.items() if lines > LONGEST and path not in LONG_FOR_A_REASON]


def vague(path: Path) -> bool:
    return not VAGUE_NAMES.isdisjoint(path.with_suffix("").parts)


def sizes() -> dict[str, int]:
    """The sizes of all files except the migrations, which alembic writes."""
    return {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in python_files(*FOLDERS)
        if "versions" not in path.parts
    }


def shared_names(paths: list[Path]) -> list[str]:
    """Names that two files have."""
    counted = Counter(path.name for path in paths)
    return [name for name, times in counted.items() if times > 1]


def test_the_name_of_a_test_file_says_alone_what_it_tests() -> None:
    assert shared_names(list((ROOT / "tests").rglob("test_*.py"))) == []


def test_a_name_that_two_test_files_have_is_found() -> None:
    paths = [Path("tests/a/test_it.py"), Path("tests/b/test_it.py"), Path("tests/b/test_that.py")]
    assert shared_names(paths) == ["test_it.py"]


def test_no_file_is_long_without_a_reason() -> None:
    assert too_long(sizes()) == []


def test_every_reason_for_a_long_file_is_still_needed() -> None:
    assert [path for path in LONG_FOR_A_REASON if sizes().get(path, 0) <= LONGEST] == []


def test_a_long_file_is_found() -> None:
    assert too_long({"a.py": LONGEST, "b.py": LONGEST + 1}) == ["b.py"]


def test_the_folder_twisted_is_no_package() -> None:
    """An `__init__.py` there would hide Twisted itself if this folder is on the path."""
    assert list((ROOT / "twisted").rglob("__init__.py")) == []


def test_no_module_has_a_vague_name() -> None:
    assert [path for path in python_files(*FOLDERS) if vague(path.relative_to(ROOT))] == []


@pytest.mark.parametrize("path", ["cloudctl/utils.py", "cloudctl/common/x.py", "cloudctl/compute/base.py"])
def test_a_vague_name_is_found(path: str) -> None:
    assert vague(Path(path))


def test_every_module_says_what_it_is() -> None:
    assert [name for name, module in modules("cloudctl", "twisted/plugins").items() if undocumented(module)] == []


def test_a_module_without_a_docstring_is_found() -> None:
    assert undocumented(Module.parse("bare", "x = 1"))


def test_every_silenced_checker_has_a_reason() -> None:
    silenced = {path.relative_to(ROOT): unexplained(path.read_text()) for path in python_files(*FOLDERS)}
    assert [f"{path}:{line}" for path, lines in silenced.items() for line in lines] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1  # type: " + "ignore[misc]", [1]),
        ("x = 1  # no" + "qa", [1]),
        ("y = 2\nx = 1  # no" + "qa: E501, B008", [2]),
        ("x = 1  # type: " + "ignore[misc]  # the stub is wrong", []),
        ("# the stub is wrong\nx = 1  # no" + "qa: B008", []),
    ],
)
def test_an_unexplained_silence_is_found(text: str, lines: list[int]) -> None:
    assert list(unexplained(text)) == lines
