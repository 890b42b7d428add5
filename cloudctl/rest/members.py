"""The members of a list or an object of a body, a few at a time.

Each wrong member costs a traceback, so twenty thousand of them would keep the reactor busy for a second. A long list is
looked at no further once some are wrong; their places are then counted from the beginning of their part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PART = 64


def structured(inner: Callable[[Any, Any], Any], value: Any, target: Any) -> Any:
    """What `inner` makes of a list or a dict. Raises what it raises for the first part that is wrong."""
    if len(value) <= PART:
        return inner(value, target)
    if isinstance(value, dict):
        items = list(value.items())
        return {
            key: made
            for at in range(0, len(items), PART)
            for key, made in inner(dict(items[at : at + PART]), target).items()
        }
    return [made for at in range(0, len(value), PART) for made in inner(value[at : at + PART], target)]
