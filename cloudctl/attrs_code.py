"""The code that attrs generates, kept where Python keeps the bytecode of modules.

attrs writes the methods of each class as text and compiles it at every import: a sixth of a start. Code is found by the
text it came from, so no version of attrs or of a class can be given another's. The file is one more of `__pycache__`:
made under the same conditions, read by the same Python, and as much to be trusted; a missing or damaged one costs time.

Not a part of what the text says is the number that tells the hashes of one class from those of another: attrs takes it
from the hash of a name, which differs from process to process.
"""

from __future__ import annotations

import marshal
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from types import CodeType

from attr import _make as attrs

FILE = Path(cache_from_source(__file__)).with_suffix(".attrs")
NUMBER = re.compile(r"^ +-?\d+,$", re.MULTILINE)


@contextmanager
def kept(file: Path = FILE) -> Iterator[Code]:
    """Classes that are made meanwhile compile only what the file does not have; at the end it has that too."""
    code = Code(_read(file))
    # attrs has no option for this. Its module finds this name before the built-in one.
    vars(attrs)["compile"] = code.compile
    try:
        yield code
    finally:
        del vars(attrs)["compile"]
    if code.compiled and not sys.dont_write_bytecode:
        # As with bytecode, who may not write there starts without.
        with suppress(OSError):
            _write(file, code.used)


class Code:
    """Stands for `compile`. `used`: what it gave, by what that came from; `compiled`: how many of them were new."""

    def __init__(self, known: dict[bytes, CodeType]) -> None:
        self.known, self.used, self.compiled = known, dict[bytes, CodeType](), 0

    def compile(self, source: str, filename: str, mode: str) -> CodeType:
        key = blake2b(f"{mode}\0{filename}\0{NUMBER.sub('', source)}".encode(), digest_size=16).digest()
        code = self.known.get(key)
        if code is None:
            self.compiled += 1
            code = compile(source, filename, mode)
        self.used[key] = code
        return code


def _read(file: Path) -> dict[bytes, CodeType]:
    try:
        data = file.read_bytes()
        if data.startswith(MAGIC_NUMBER):
            known = marshal.loads(data[len(MAGIC_NUMBER) :])
            return known if isinstance(known, dict) else {}
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return {}


def _write(file: Path, code: dict[bytes, CodeType]) -> None:
    """Whole or not at all: other processes start meanwhile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(MAGIC_NUMBER + marshal.dumps(code))
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
