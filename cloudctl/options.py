"""A table of the configuration → a frozen attrs class, strictly, with every problem at once.

A wrong value is shown, unless its field has `repr=False`: it is a secret then, and what is told here goes to a log.

Options may be str, int, float, bool, Path, Literal[…], list[T], tuple[T, ...], dict[str, T], T | None, and attrs
classes of these. Nothing is converted: "1" is not an integer and 1 is not a boolean; only an integer may stand for a
float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

import attrs

from cloudctl.errors import ConfigError

T = TypeVar("T", bound=attrs.AttrsInstance)

MOST = 1e9  # of a number that need not be whole, such as seconds: 31 years

# Metadata of a field that is not an option: its value follows from another section.
DERIVED = {"derived": True}
# Of an option that is a Twisted endpoint string, or empty: `twist cloudctl` parses it before anything is started.
ENDPOINT = {"endpoint": True}

SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    bool: ((bool,), "a boolean (true or false)"),
    Path: ((str,), "a string"),
}


class Wrong(Exception):
    """Lines of «path: what is wrong»."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines


def structure(cls: type[T], table: Mapping[str, Any], path: str) -> T:
    """Raises ConfigError with a line «path.option: what is wrong» for each unknown, missing or wrong option."""
    if not isinstance(table, Mapping):
        raise ConfigError([f"{path}: must be a table: [{path}]"])
    try:
        return _table(table, cls, path)
    except Wrong as wrong:
        raise ConfigError(list(wrong.lines)) from None


def _hidden(_value: Any) -> str:
    return "what is there"


def _value(value: Any, kind: Any, path: str, shown: Callable[[Any], str] = repr) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in SCALARS:
        accepted, name = SCALARS[kind]
        if type(value) not in accepted:
            raise Wrong(f"{path}: {shown(value)} is not {name}")
        if isinstance(value, str) and "\0" in value:
            # No file has such a name, and PostgreSQL stores no such text.
            raise Wrong(f"{path}: {shown(value)} holds a NUL character")
        if kind is float and not math.isfinite(value):
            # TOML has nan and inf. No bound refuses the former, and nothing can wait for as long.
            raise Wrong(f"{path}: {shown(value)} is not a finite number")
        if kind is float and abs(value) > MOST:
            # No date is so many seconds away; nothing else needs as many.
            raise Wrong(f"{path}: {shown(value)} is too large: {MOST:.0f} is the most")
        if kind is int and value.bit_length() > 63:
            # No column holds it, and no answer in JSON; TOML promises no more.
            raise Wrong(f"{path}: {shown(value)} does not fit into 64 bits")
        return kind(value)
    if origin in (Union, UnionType):
        kinds = [each for each in arguments if each is not type(None)]
        shape = dict if isinstance(value, Mapping) else list if isinstance(value, list) else None
        shaped = [each for each in kinds if get_origin(each) is shape]
        return None if value is None else _value(value, (shaped or kinds)[0], path, shown)
    if origin is Literal:
        if value not in arguments:
            raise Wrong(f"{path}: {shown(value)} is not one of {', '.join(map(repr, arguments))}")
        return value
    if origin in (list, tuple):
        if type(value) is not list:
            raise Wrong(f"{path}: {shown(value)} is not a list")
        return origin(_all(((f"{path}[{index}]", each, arguments[0]) for index, each in enumerate(value)), shown))
    if not isinstance(value, Mapping):
        # Of `[[tables]]` any field may be a secret.
        holds_tables = isinstance(value, list) and any(isinstance(each, Mapping) for each in value)
        raise Wrong(f"{path}: {'a list of tables' if holds_tables else shown(value)} is not a table")
    if attrs.has(kind):
        return _table(value, kind, path)
    if origin is dict:
        values = _all(((f"{path}.{key}", each, arguments[1]) for key, each in value.items()), shown)
        return dict(zip(value, values, strict=True))
    raise TypeError(f"{path}: an option cannot be of type {kind}")


def _all(parts: Any, shown: Callable[[Any], str]) -> list[Any]:
    """Values of (path, value, type) triples; the problems of all of them."""
    values: list[Any] = []
    problems: list[str] = []
    for path, value, kind in parts:
        try:
            values.append(_value(value, kind, path, shown))
        except Wrong as wrong:
            problems += wrong.lines
    if problems:
        raise Wrong(*problems)
    return values


def _table(table: Mapping[str, Any], cls: type[T], path: str) -> T:
    options = {
        each.alias or each.name: each
        for each in attrs.fields(attrs.resolve_types(cls))
        if each.init and not each.metadata.get("derived")
    }
    problems = [
        f"{path}.{name}: unknown option; valid options: {', '.join(options) or 'none'}"
        for name in sorted(table.keys() - options.keys())
    ]
    values = {}
    for name, option in options.items():
        if name not in table:
            if option.default is attrs.NOTHING:
                problems.append(f"{path}.{name}: is required")
            continue
        try:
            shown = repr if option.repr else _hidden
            values[name] = _value(table[name], option.type, f"{path}.{name}", shown)
            if option.validator is not None:
                # A validator sees only its own option: there is no instance until all options are right.
                option.validator(None, option, values[name])
        except Wrong as wrong:
            problems += wrong.lines
        except ValueError as error:
            # Some validators of attrs add the whole attribute after their words.
            problems.append(f"{path}.{name}: {error.args[0] if error.args else error}")
    if problems:
        raise Wrong(*problems)
    try:
        return cls(**values)
    except ValueError as error:  # options that are right one by one but do not go together
        raise Wrong(f"{path}: {error}") from None


# -- validators of several sections


def positive(_instance: object, _attribute: Any, value: float) -> None:
    if value <= 0:
        raise ValueError("must be greater than 0")


def limit(_instance: object, _attribute: Any, value: int) -> None:
    if value < -1:
        raise ValueError("must be -1 (no limit) or more")


def share(_instance: object, _attribute: Any, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError("must be 0 to 1")


def named(_instance: object, _attribute: Any, value: str | Sequence[str]) -> None:
    if not all([value] if isinstance(value, str) else value):
        raise ValueError("must not be empty")


def not_negative(_instance: object, _attribute: Any, value: float) -> None:
    if value < 0:
        raise ValueError("must not be negative")


def parts_of(url: str) -> SplitResult:
    """Raises ValueError for a host or a port that only its first use would find to be none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is not an address: {error}") from None
    if not parts.hostname or port == 0:
        raise ValueError(f"is not an address: {url!r} names no {'port' if parts.hostname else 'host'}")
    return parts
