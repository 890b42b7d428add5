"""Regular expressions from strangers, matched in time proportional to pattern x text.

The list filters take regular expressions. Python's matcher backtracks: `(a+)+$` against a name of thirty letters keeps
the process busy for hours. This one follows all alternatives at once. It knows literals, `.`, classes, `^`, `$`,
groups, `|`, `*`, `+`, `?`, `{m,n}` and \\d \\w \\s with their opposites; no back references and no look-around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

from attrs import define, field, frozen
from sqlalchemy import ColumnElement, func

from cloudctl.db import Connection
from cloudctl.errors import Invalid

LONGEST_PATTERN = 255
MOST_STATES = 2000

Test = Callable[[str], bool]

CLASSES: dict[str, Test] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
    "D": lambda c: not c.isdigit(),
    "W": lambda c: not (c.isalnum() or c == "_"),
    "S": lambda c: not c.isspace(),
}
SPECIAL = frozenset(".[]()*+?{}|^$")
CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


class BadPattern(ValueError):
    """The text is no regular expression that is known here."""


# -- what a pattern is made of


@frozen
class One:
    """One character that passes `test`."""

    test: Test


@frozen
class Edge:
    """The beginning (`^`) or the end (`$`) of the text."""

    end: bool


@frozen
class Sequence:
    parts: tuple[Any, ...]


@frozen
class Choice:
    branches: tuple[Any, ...]


@frozen
class Repeat:
    part: Any
    least: int
    most: int | None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parse(self) -> Any:
        found = self._choice()
        if self.at < len(self.text):
            raise BadPattern("unbalanced parenthesis")
        return found

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise BadPattern("unexpected end of pattern")
        self.at += 1
        return self.text[self.at - 1]

    def _choice(self) -> Any:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._next()
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Sequence:
        parts = []
        while self._peek() and self._peek() not in "|)":
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, part: Any) -> Any:
        bounds = self._bounds()
        if bounds is None:
            return part
        if isinstance(part, Edge):
            raise BadPattern("nothing to repeat")
        if self._peek() == "?":
            self._next()  # lazy: whether there is a match is the same
        if self._peek() and self._peek() in "*+?":
            raise BadPattern("multiple repeat")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        sign = self._peek()
        if sign and sign in "*+?":
            self._next()
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if sign != "{":
            return None
        inside, closed, _ = self.text[self.at + 1 :].partition("}")
        least, comma, most = inside.partition(",")
        if not closed or not least.isdecimal() or not (most == "" or most.isdecimal()):
            raise BadPattern("a literal { must be written as \\{")
        self.at += len(inside) + 2
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > LONGEST_PATTERN or (high is not None and (high > LONGEST_PATTERN or high < low)):
            raise BadPattern(f"a repetition count is at most {LONGEST_PATTERN}")
        return low, high

    def _atom(self) -> Any:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return One(self._class())
        if char == ".":
            return One(lambda c: c != "\n")
        if char in "^$":
            return Edge(char == "$")
        if char == "\\":
            return One(self._escaped(self._next()))
        if char in "*+?{":
            raise BadPattern("nothing to repeat")
        return One(lambda c: c == char)

    def _group(self) -> Any:
        if self._peek() == "?":
            self._next()
            if self._next() != ":":
                raise BadPattern("only the groups ( ) and (?: ) are supported")
        inside = self._choice()
        if self._next() != ")":
            raise BadPattern("missing )")
        return inside

    def _escaped(self, char: str) -> Test:
        if char in CLASSES:
            return CLASSES[char]
        if char in CONTROLS:
            return CONTROLS[char].__eq__
        if char.isalnum():
            raise BadPattern(f"\\{char} is not supported")
        return char.__eq__

    def _class(self) -> Test:
        negated = self._peek() == "^"
        if negated:
            self._next()
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            tests.append(self._member())
            first = False
        self._next()
        return lambda c: any(test(c) for test in tests) is not negated

    def _member(self) -> Test:
        char = self._next()
        if char == "[" and self._peek() and self._peek() in ":.=":
            raise BadPattern("POSIX character classes are not supported")
        if char == "\\":
            char = self._next()
            test = self._escaped(char)
            if char in CLASSES:
                return test
            char = CONTROLS.get(char, char)
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return char.__eq__
        self._next()
        last = self._next()
        if last == "\\":
            last = self._next()
        if last < char:
            raise BadPattern("a range is reversed")
        return lambda c: char <= c <= last


# -- the machine: states, each with where it leads


@define
class State:
    test: Test | None = None  # None: it is left without reading
    edge: Edge | None = None
    to: list[int] = field(factory=list)


@define
class Machine:
    """Non-deterministic: many states at once. The last one, 1, is the end."""

    states: list[State] = field(factory=lambda: [State(), State()])

    def add(self, state: State) -> int:
        if len(self.states) >= MOST_STATES:
            raise BadPattern("it is too large")
        self.states.append(state)
        return len(self.states) - 1

    def build(self, part: Any, after: int) -> int:
        """The state that begins `part` and goes on to `after`."""
        if isinstance(part, One):
            return self.add(State(part.test, to=[after]))
        if isinstance(part, Edge):
            return self.add(State(edge=part, to=[after]))
        if isinstance(part, Choice):
            return self.add(State(to=[self.build(branch, after) for branch in part.branches]))
        if isinstance(part, Repeat):
            return self._repeat(part, after)
        for each in reversed(part.parts):
            after = self.build(each, after)
        return after

    def _repeat(self, part: Repeat, after: int) -> int:
        if part.most is None:
            loop = self.add(State(to=[after]))
            self.states[loop].to.append(self.build(part.part, loop))
            after = loop
        else:
            for _ in range(part.most - part.least):
                after = self.add(State(to=[self.build(part.part, after), after]))
        for _ in range(part.least):
            after = self.build(part.part, after)
        return after

    def reach(self, starts: Iterator[int] | list[int], at_start: bool, at_end: bool) -> set[int]:
        """All states that can be entered from `starts` without reading."""
        found: set[int] = set()
        waiting = list(starts)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            state = self.states[number]
            if state.test is None and (state.edge is None or (at_end if state.edge.end else at_start)):
                waiting += state.to
        return found


END = 1


@define
class Pattern:
    machine: Machine
    start: int

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        states = self.machine.states
        now: list[int] = []
        for position in range(len(text) + 1):
            at_end = position == len(text)
            reached = self.machine.reach([*now, self.start], position == 0, at_end)
            if END in reached:
                return True
            if at_end:
                return False
            char = text[position]
            now = [to for number in reached if (test := states[number].test) and test(char) for to in states[number].to]
        return False


@lru_cache(maxsize=256)
def compile(text: str) -> Pattern:
    """Raises BadPattern."""
    if len(text) > LONGEST_PATTERN:
        raise BadPattern(f"it is longer than {LONGEST_PATTERN} characters")
    machine = Machine()
    return Pattern(machine, machine.build(_Parser(text).parse(), END))


def checked(name: str, text: str) -> str:
    """The pattern itself, if it is one. Raises Invalid."""
    try:
        compile(text)
    except (BadPattern, RecursionError) as error:
        raise Invalid(
            f"Invalid regular expression for the filter {name!r}: {error or 'it is nested too deeply'}"
        ) from None
    return text


@frozen
class Plain:
    """A pattern that is a text, perhaps with anchors: the database finds it by itself."""

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
        # A text differs from itself without what is in it.
        return func.replace(column, self.text, "") != column


def plain(pattern: str) -> Plain | None:
    """None for one that the machine has to match."""
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
    """Let SQLite's REGEXP on this connection be the matcher above. PostgreSQL's own is safe."""
    if conn.dialect.name == "sqlite":
        cast(Any, conn.driver).create_function("regexp", 2, _regexp, deterministic=True)


def _regexp(pattern: str, value: str | None) -> bool:
    return value is not None and compile(pattern).search(value)
