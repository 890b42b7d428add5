"""A body's bytes → the JSON value, if it is one that can be stored and shown again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson

from cloudctl.rest.body import BodyError, Problem

# PostgreSQL stores no NUL; an escaped backslash before the u makes it plain text.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
DEEPEST = 100  # lists and objects in one another: an answer that holds them can be written with at most 254


def parse(raw: bytes) -> Any:
    """Raises BodyError."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BodyError([Problem("$", f"the body is not valid JSON: {error}", "syntax")]) from None
    if NUL.search(raw):
        raise BodyError([Problem("$", "the character NUL is not allowed", "syntax")])
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deep(value):
        raise BodyError([Problem("$", f"the body is nested too deeply (at most {DEEPEST} levels)", "syntax")])
    return value


def _is_deep(value: Any) -> bool:
    level = list(_nested([value]))
    for _ in range(DEEPEST):
        level = [each for holder in level for each in _nested(holder)]
    return bool(level)


def _nested(holder: Any) -> Iterable[Any]:
    """The lists and objects in a list or an object."""
    inside = holder.values() if isinstance(holder, dict) else holder
    return (each for each in inside if isinstance(each, dict | list))
