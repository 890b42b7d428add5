"""Which changes somebody wants to hear of, by the types of their events: events that nobody wants are not written.

db.wishes.add("instance.*")
if conn.wants("instance.create.end"): …
"""

from __future__ import annotations

from fnmatch import fnmatchcase


class Wishes:
    """The patterns of one cloud, as in the shell. They are added before the first transaction."""

    def __init__(self) -> None:
        self._patterns: tuple[str, ...] = ()
        self._known: dict[str, bool] = {}

    def add(self, *patterns: str) -> None:
        self._patterns += patterns
        self._known = {}

    def __contains__(self, type: str) -> bool:
        found = self._known.get(type)
        if found is None:
            found = self._known[type] = matches(type, self._patterns)
        return found


def matches(type: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(type, pattern) for pattern in patterns)
