"""How much work a piece of code does, in lines of Python: a count, the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class TooMuch(AssertionError):
    """The work was stopped."""


def lines(work: Callable[[], object], most: int) -> int:
    """The number of lines that `work` executes. Raises TooMuch over `most`, so that endless work ends."""
    count = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        if count > most:
            raise TooMuch(f"over {most} lines")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
