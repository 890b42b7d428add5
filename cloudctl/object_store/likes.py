"""Patterns with wildcards, * for any number of characters and ? for one, many of which are matched at once.

Matching is fast, whoever wrote them: those without a wildcard are looked up, those with one at the end are compared,
and of all others there are few (`wildcards`), whose time grows with the text alone.
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
    """The number of wildcards, except one at the end."""
    begun = pattern.removesuffix("*")
    return begun.count("*") + begun.count("?")


def wildcards(patterns: Iterable[str]) -> int:
    """The number of wildcards in patterns that have to be matched one by one."""
    return sum(map(_inner, patterns))


@frozen
class Likes:
    """Some patterns."""

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
        """Whether the text matches one of them."""
        return (
            text in self.exact
            or text.startswith(self.beginnings)
            or any(each.fullmatch(text) is not None for each in self.others)
        )


def _compiled(pattern: str) -> Any:
    return re2.compile("".join(EXPRESSIONS.get(each) or re2.escape(each) for each in pattern), OPTIONS)
