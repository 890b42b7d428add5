"""Texts with wildcards, * for any number of characters and ? for one, of which many are asked for at once.

Whoever wrote them, a question takes little time: what has no wildcard is looked up, what has one at its end is
compared, and of all others there are few (`wildcards`), whose time grows with the text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import re2
from attrs import frozen

OPTIONS = re2.Options()
OPTIONS.dot_nl = True
OPTIONS.never_capture = True
OPTIONS.log_errors = False
EXPRESSIONS = {"*": ".*", "?": "."}


def _inner(pattern: str) -> int:
    """Wildcards beside one at the end."""
    begun = pattern.removesuffix("*")
    return begun.count("*") + begun.count("?")


def wildcards(patterns: Iterable[str]) -> int:
    """How many there are that a question has to go through one by one."""
    return sum(map(_inner, patterns))


@frozen
class Likes:
    """Some of them."""

    exact: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()
    others: tuple[Any, ...] = ()  # compiled; re2 has no types

    @classmethod
    def of(cls, patterns: Sequence[str]) -> Likes:
        plain = [each for each in patterns if not _inner(each)]
        return cls(
            frozenset(each for each in plain if not each.endswith("*")),
            tuple(each.removesuffix("*") for each in plain if each.endswith("*")),
            tuple(_compiled(each) for each in patterns if _inner(each)),
        )

    @classmethod
    def all_of(cls, likes: Iterable[Likes]) -> Likes:
        found = list(likes)
        return cls(
            frozenset().union(*(each.exact for each in found)),
            tuple(each for one in found for each in one.beginnings),
            tuple(each for one in found for each in one.others),
        )

    def holds(self, text: str) -> bool:
        """Whether the text is like one of them."""
        return (
            text in self.exact
            or text.startswith(self.beginnings)
            or any(each.fullmatch(text) is not None for each in self.others)
        )


def _compiled(pattern: str) -> Any:
    return re2.compile("".join(EXPRESSIONS.get(each) or re2.escape(each) for each in pattern), OPTIONS)
