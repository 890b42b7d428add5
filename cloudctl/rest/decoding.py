"""A body's bytes → the JSON value, if it is one that can be stored and shown again."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import orjson

from cloudctl.rest.body import BodyError, Problem

# PostgreSQL stores no NUL; an escaped backslash before the u makes it plain text.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
ESCAPED = b"\\u0000"
HOLDERS = (dict, list)
DEEPEST = 100  # lists and objects in one another: an answer that holds them can be written with at most 254


def parse(raw: bytes) -> Any:
    """Raises BodyError."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BodyError([Problem("$", f"the body is not valid JSON: {error}", "syntax")]) from None
    # Few bodies have it at all, and the expression tries each place of a long one.
    if ESCAPED in raw and NUL.search(raw):
        raise BodyError([Problem("$", "the character NUL is not allowed", "syntax")])
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deep(value):
        raise BodyError([Problem("$", f"the body is nested too deeply (at most {DEEPEST} levels)", "syntax")])
    return value


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, HOLDERS) else []
    for _ in range(DEEPEST):
        level = [each for holder in level if holder for each in _inside(holder) if isinstance(each, HOLDERS)]
    return bool(level)


def _inside(holder: Any) -> Collection[Any]:
    """What is in a list or an object."""
    return holder.values() if isinstance(holder, dict) else holder
