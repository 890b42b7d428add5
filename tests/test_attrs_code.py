"""Code that attrs generates is compiled once, and what cannot be read is made again."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import attrs
import pytest

from cloudctl import attrs_code

# A start, in which what its classes compile is counted. The hashes of names differ from process to process.
START = """
import sys
from functools import partial
from pathlib import Path

from cloudctl import attrs_code

kept, made = attrs_code.Code, []

def code(known):
    made.append(kept(known))
    return made[-1]

attrs_code.Code = code
attrs_code.kept = partial(attrs_code.kept, Path(sys.argv[1]))
import cloudctl.tap
print(len(made[0].used), made[0].compiled)
"""


def point() -> type:
    @attrs.frozen
    class Point:
        x: int
        y: int = 0

    return Point


def check(kind: type) -> None:
    assert kind(1) == kind(1, 0) != kind(1, 2)
    assert len({kind(1), kind(1, 0), kind(1, 2)}) == 2
    assert repr(kind(1)).endswith("Point(x=1, y=0)")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "__pycache__" / "code.attrs"


def test_a_class_is_compiled_when_it_is_made_first(file: Path) -> None:
    for times in range(3):
        with attrs_code.kept(file) as code:
            made = point()
        check(made)
        assert (code.compiled == 0) is (times > 0)
    assert os.listdir(file.parent) == [file.name]


def test_the_second_start_compiles_nothing(file: Path) -> None:
    def start(seed: str) -> list[int]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.run(
            [sys.executable, "-c", START, file], env=environment, check=True, capture_output=True, text=True
        )
        return [int(word) for word in done.stdout.split()]

    used, compiled = start("1")
    assert 0 < compiled <= used
    assert start("2") == [used, 0]


def test_what_a_class_no_longer_is_is_compiled_again(file: Path) -> None:
    with attrs_code.kept(file):
        point()
    with attrs_code.kept(file) as code:

        @attrs.frozen
        class Point:
            y: int
            x: int = 0

    assert code.compiled == 1
    assert repr(Point(1)).endswith("Point(y=1, x=0)")


@pytest.mark.parametrize(
    "content", [b"", b"no code", MAGIC_NUMBER, MAGIC_NUMBER + b"{", MAGIC_NUMBER + b"N", b"\0\0\0\0" + b"0"]
)
def test_a_file_that_cannot_be_read_is_made_again(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with attrs_code.kept(file):
        made = point()
    check(made)
    with attrs_code.kept(file) as code:
        point()
    assert code.compiled == 0


def test_nothing_is_kept_where_python_keeps_no_bytecode(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with attrs_code.kept(file):
        made = point()
    check(made)
    assert not file.parent.exists()


def test_a_place_that_cannot_be_written_is_no_error(file: Path) -> None:
    file.parent.touch()
    with attrs_code.kept(file):
        made = point()
    check(made)
    assert file.parent.read_bytes() == b""


def test_attrs_compiles_for_itself_afterwards(file: Path) -> None:
    with pytest.raises(ZeroDivisionError), attrs_code.kept(file):
        raise ZeroDivisionError
    with attrs_code.kept(file) as code:
        pass
    check(point())
    assert code.used == {}
