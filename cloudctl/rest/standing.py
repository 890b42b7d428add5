"""The values in a parsed body, as error messages show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import attrs

# A step of a path: .name, [0], ['name']
PLACE = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


def shown(value: Any) -> str:
    """A value as an error message shows it."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def unexpected(names: Iterable[str]) -> str:
    quoted = [shown(name) for name in names]
    return f"Additional properties are not allowed ({', '.join(quoted)} {'were' if quoted[1:] else 'was'} unexpected)"


def as_sent(type_: Any, path: str) -> str:
    """A path below a body of this type, with the keys of the JSON in place of the names of fields."""
    found, classes = "", list(_classes(type_))
    for step in PLACE.finditer(path):
        fields = [each for class_ in classes for each in attrs.fields(class_)]
        attribute = next((each for each in fields if each.name == step[1]), None)
        found += step[0] if attribute is None else f".{attribute.metadata.get('wire', attribute.name)}"
        classes = classes if attribute is None else list(_classes(attribute.type))
    return found


def _classes(type_: Any) -> Iterator[Any]:
    """The attrs classes that a value, or the members of a list or an object, may be of."""
    if isinstance(type_, type) and attrs.has(type_):
        yield attrs.resolve_types(type_)
        return
    for argument in get_args(type_):
        yield from _classes(argument)


def standing(value: Any, path: str) -> str | None:
    """The value at a path below a parsed body; None if there is none, or if it is a list or an object."""
    for key, index, quoted in PLACE.findall(path):
        try:
            value = value[int(index)] if index else value[key or quoted]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(value, dict | list):
        return None
    return shown(value).strip("'\"") if isinstance(value, str) else shown(value)
