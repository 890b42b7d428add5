"""What stands in a parsed body, as error messages show it."""

from __future__ import annotations

import re
from typing import Any

# A step of a path: .name, [0], ['name']
PLACE = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


def shown(value: Any) -> str:
    """A value as an error message shows it."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def standing(value: Any, path: str) -> str | None:
    """What stands at a path below a parsed body; None for nothing, and for what has parts."""
    for key, index, quoted in PLACE.findall(path):
        try:
            value = value[int(index)] if index else value[key or quoted]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(value, dict | list):
        return None
    return shown(value).strip("'\"") if isinstance(value, str) else shown(value)
