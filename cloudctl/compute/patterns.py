"""Regular expressions from strangers, matched in time proportional to pattern x text.

The list filters take regular expressions. Python's matcher backtracks: `(a+)+$` against a name of thirty letters keeps
the process busy for hours. RE2 never does, and rejects a pattern that is too large before building it. Of its syntax
only what PostgreSQL reads the same way is accepted: literals, `.`, classes, `^`, `$`, groups, `|`, `*`, `+`, `?`,
`{m,n}` and \\d \\w \\s with their opposites (ASCII); no back references and no look-around.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

import re2
from attrs import field, frozen
from sqlalchemy import ColumnElement, func

from cloudctl.db import Connection
from cloudctl.errors import Invalid

LONGEST_PATTERN = 255
MOST_REPEATED = 255  # PostgreSQL's limit
# Bytes that one pattern may take, including everything kept while it is matched. A meaningful pattern of the greatest
# length takes less than half of it.
MOST_MEMORY = 2**17
MOST_KEPT = 64

SPECIAL = frozenset(".[]()*+?{}|^$")
# A character of a class that may begin or end a range.
SINGLE = r"(?:\\(?:[ntr]|[^0-9A-Za-z])|\[(?![:.=])|[^\]\[\\-])"
# One part of a pattern. No two parts can begin with the same character, so nothing is looked at twice.
PART = re.compile(
    rf"""
    (?P<escape> \\(?:[dwsDWSntr]|[^0-9A-Za-z]) )
  | (?P<class>  \[\^?+[\]-]?+(?:\\[dws]|{SINGLE}(?:-{SINGLE})?)*-?\] )
  | (?P<group>  \((?:\?:|(?!\?)) )
  | (?P<bounds> \{{(?P<least>[0-9]{{1,3}})(?:,(?P<most>[0-9]{{0,3}}))?\}} )
  | (?P<sign>   [*+?] )
  | (?P<edge>   [\^$] )
  | (?P<other>  [^\\\[({{*+?^$] )
    """,
    re.VERBOSE | re.DOTALL,
)


class BadPattern(ValueError):
    """The text is not a regular expression of the kind supported here."""


@frozen
class Pattern:
    """A compiled pattern. Its memory is bounded, and so is that of `compile`'s cache."""

    _found: Any = field(repr=False)  # re2 has no types

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        return self._found.search(text.encode("utf-8", "replace")) is not None


def _options() -> Any:
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.dot_nl = True
    return options


OPTIONS = _options()


@lru_cache(maxsize=MOST_KEPT)
def compile(text: str) -> Pattern:
    """Raises BadPattern."""
    if len(text) > LONGEST_PATTERN:
        raise BadPattern(f"it is longer than {LONGEST_PATTERN} characters")
    check_syntax(text)
    try:
        return Pattern(re2.compile(text, OPTIONS))
    except re2.error as error:
        (why,) = error.args
        raise BadPattern(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None
    except UnicodeEncodeError:
        raise BadPattern("it is not text") from None


def check_syntax(text: str) -> None:
    """Raises BadPattern for what one of the databases does not know, or reads differently."""
    at, before = 0, ""
    while at < len(text):
        part = PART.match(text, at)
        if part is None:
            raise BadPattern(f"{text[at : at + 3]!r} is not supported")
        kind = cast(str, part.lastgroup if part["bounds"] is None else "bounds")
        if kind == "bounds":
            _check_bounds(part)
        if kind in ("sign", "bounds"):
            lazy = part[0] == "?" and before == "repeat"
            if before in ("", "edge", "group", "lazy") or (before == "repeat" and not lazy):
                raise BadPattern("nothing to repeat" if before in ("", "edge", "group") else "multiple repeat")
            before = "lazy" if lazy else "repeat"
        else:
            before = "" if part[0] == "|" else kind
        at = part.end()


def _check_bounds(part: re.Match[str]) -> None:
    least, most = int(part["least"]), int(part["most"] or part["least"])
    if most > MOST_REPEATED or most < least:
        raise BadPattern(f"a repetition count is at most {MOST_REPEATED}")


def checked(name: str, text: str) -> str:
    """The pattern itself, if it is valid. Raises Invalid."""
    try:
        compile(text)
    except BadPattern as error:
        raise Invalid(f"Invalid regular expression for the filter {name!r}: {error}") from None
    return text


@frozen
class Plain:
    """A pattern that is plain text, perhaps with anchors: the database finds it without a matcher."""

    text: str
    at_start: bool
    at_end: bool

    def found_in(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Not by LIKE: SQLite's ignores case."""
        if self.at_start and self.at_end:
            return column == self.text
        if self.at_start:
            return func.substr(column, 1, len(self.text)) == self.text
        if self.at_end:
            return func.substr(column, func.length(column) - len(self.text) + 1) == self.text
        # Removing the text changes a value only if the value contains it.
        return func.replace(column, self.text, "") != column


def plain(pattern: str) -> Plain | None:
    """None for a pattern that needs the matcher."""
    at_start, at_end = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    left, text = iter(pattern[at_start : -1 if at_end else None]), []
    for char in left:
        if char == "\\":
            char = next(left, "")
            if not char or char.isalnum():
                return None
        elif char in SPECIAL:
            return None
        text.append(char)
    return Plain("".join(text), at_start, at_end) if text else None


def install(conn: Connection) -> None:
    """Make the matcher above SQLite's REGEXP on this connection. PostgreSQL's own does not backtrack either.

    SQLite then has to prepare this connection's statements again, so do it only where it is needed.
    """
    if conn.dialect.name == "sqlite":
        cast(Any, conn.driver).create_function("regexp", 2, _regexp, deterministic=True)


def _regexp(pattern: str, value: str | None) -> bool:
    return value is not None and compile(pattern).search(value)
