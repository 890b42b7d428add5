"""Which pages of other sites may access a container from a browser: by Swift's headers or by S3's rules.

Reference: object-store.md, A4, B2; Fetch standard, «CORS protocol».
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import orjson
from attrs import asdict, frozen

from cloudctl.object_store.likes import Likes
from cloudctl.object_store.metadata import CONTAINER, PRIVATE
from cloudctl.object_store.tables import Container

ALLOW = f"{CONTAINER}Access-Control-Allow-Origin"
EXPOSE = f"{CONTAINER}Access-Control-Expose-Headers"
AGE = f"{CONTAINER}Access-Control-Max-Age"
KEPT = f"{PRIVATE}Cors"
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD")
# The headers of answers of Swift's API that pages may read.
EXPOSED = (
    "cache-control", "content-language", "content-type", "expires", "last-modified", "pragma", "etag", "x-timestamp",
    "x-trans-id", "x-openstack-request-id",
)  # fmt: skip
# Headers that a page requests at once.
MOST_SENT = 100
# The lists of a rule.
LISTS = ("origins", "methods", "headers", "exposed")

Headers = tuple[tuple[str, str], ...]


@frozen
class Rule:
    origins: tuple[str, ...]  # may contain *
    methods: tuple[str, ...]
    headers: tuple[str, ...]  # that may be sent, in lower case; may contain *
    exposed: tuple[str, ...] = ()
    max_age: int | None = None
    id: str = ""

    def admits(self, origin: str, method: str, sent: Sequence[str] = ()) -> bool:
        """Whether a page of this origin may use the method, with these headers."""
        return (
            method in self.methods
            and len(sent) <= MOST_SENT
            and _likes(self.origins).holds(origin)
            and all(_likes(self.headers).holds(name) for name in sent)
        )

    def told(self, origin: str) -> Headers:
        """The headers of every answer to such a page."""
        anybody = "*" in self.origins
        told = [("Access-Control-Allow-Origin", "*" if anybody else origin)]
        if self.exposed:
            told.append(("Access-Control-Expose-Headers", ", ".join(self.exposed)))
        return (*told, *(() if anybody else (("Vary", "Origin"),)))

    def told_before(self, origin: str, sent: Sequence[str]) -> Headers:
        """The headers of the answer to a preflight request."""
        told = [*self.told(origin), ("Access-Control-Allow-Methods", ", ".join(self.methods))]
        if sent:
            told.append(("Access-Control-Allow-Headers", ", ".join(sent)))
        if self.max_age is not None:
            told.append(("Access-Control-Max-Age", str(self.max_age)))
        return tuple(told)


@lru_cache(maxsize=64)
def _likes(patterns: tuple[str, ...]) -> Likes:
    """`*` stands for anything; nothing else is special, and no name has a `?`."""
    return Likes.of([each for each in patterns if "?" not in each])


def rules(container: Container) -> Iterator[Rule]:
    """All rules of a container."""
    origins = container.headers.get(ALLOW, "").split()
    if origins:
        age, own = container.headers.get(AGE, ""), container.headers.get(EXPOSE, "").split()
        yield Rule(
            tuple(origins),
            (*METHODS, "COPY", "OPTIONS"),
            ("*",),
            (*EXPOSED, *own),
            int(age) if age.isascii() and age.isdecimal() and len(age) < 10 else None,
        )
    yield from kept(container)


def kept(container: Container) -> list[Rule]:
    """The rules that S3's clients have set."""
    found = orjson.loads(container.headers.get(KEPT, "[]"))
    return [_read(each) for each in found]


def _read(kept: dict[str, Any]) -> Rule:
    origins, methods, sent, exposed = (tuple(kept[name]) for name in LISTS)
    return Rule(origins, methods, sent, exposed, kept["max_age"], kept["id"])


def keep(given: Sequence[Rule]) -> str:
    return orjson.dumps([asdict(rule) for rule in given]).decode()


def rule_for(container: Container, origin: str, method: str, sent: Sequence[str] = ()) -> Rule | None:
    """The first rule that allows such a page to do this."""
    return next((rule for rule in rules(container) if rule.admits(origin, method, sent)), None)
