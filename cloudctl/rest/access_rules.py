"""Which calls the access rules of an application credential allow. Reference: identity.md, section 7.

A user writes the patterns and each request with the credential is matched against them, in the reactor's thread: the
work grows with pattern × path, and a path that was routed has few segments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cloudctl.rest.identity import AccessRule, Identity

# Matches no more than a single one of them.
MANY = re.compile(r"(?:/\*\*){2,}(?=/|$)")


def let(identity: Identity, service: str, types: Sequence[str], method: str, path: str) -> bool:
    """Whether an identity may make this call of a service, as far as its access rules go. `path`: below the service."""
    if identity.access_rules is None:
        return True
    return allow(identity.access_rules, (service, *types), method, (path, f"/{service}{path}"))


def allow(rules: Iterable[AccessRule], services: Sequence[str], method: str, paths: Sequence[str]) -> bool:
    """Whether one of `rules` covers a call of this method. `services` and `paths`: all names that the call has."""
    split = [segments(path) for path in paths]
    return any(rule.service in services and rule.method == method and covers(rule.path, split) for rule in rules)


def segments(path: str) -> list[str]:
    return path.strip("/").split("/")


def covers(pattern: str, paths: Iterable[Sequence[str]]) -> bool:
    wanted = segments(MANY.sub("/**", pattern))
    least = len(wanted) - wanted.count("**")
    return any(least <= len(path) and matches(wanted, path) for path in paths)


def matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """`*` and `{name}` stand for one segment, `**` for any number.

    What stands between two `**` is matched where it first occurs; a later occurrence would match nothing more, so only
    the last choice is ever taken back.
    """
    at, reached = 0, 0
    # Where the last `**` is in the pattern, and how far it reaches in the path.
    wild, covered = -1, 0
    while reached < len(path):
        wanted = pattern[at] if at < len(pattern) else None
        if wanted == "**":
            wild, covered = at, reached
            at += 1
        elif wanted is not None and _stands_for(wanted, path[reached]):
            at += 1
            reached += 1
        elif wild >= 0:
            covered += 1
            at, reached = wild + 1, covered
        else:
            return False
    return all(left == "**" for left in pattern[at:])


def _stands_for(wanted: str, segment: str) -> bool:
    return wanted in ("*", segment) or (wanted.startswith("{") and wanted.endswith("}"))
