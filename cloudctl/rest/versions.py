"""Microversions: their range, how a request asks for one, which headers the answer carries, and spans of them.

A span is the only way to say what a microversion changes. Operations, fields of bodies, parameters of the query and
fields of views carry theirs; where the handler itself acts differently, it checks a span that has a name:

    MULTIATTACH = since(2, 60, "a volume can be attached to several servers")
    ...
    if call.version in MULTIATTACH:

Nothing else compares versions. `cloudctl.history` lists all spans of an API, for docs/api.md.

Reference: discovery.md, «Request headers every service understands».
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from attrs import field, frozen
from twisted.web.http_headers import Headers

from cloudctl.errors import Invalid, NotAcceptable

T = TypeVar("T")

Version = tuple[int, int]

UNSUPPORTED = "UnsupportedVersion"
FORM = re.compile(r"^([1-9]\d{0,3})\.(0|[1-9]\d{0,3})$", re.ASCII)


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


@frozen
class Span:
    """Microversions from `since` to `until`, both included; None: no end on that side.

    `what`: what holds at these versions, where that is neither a call, a field nor a parameter.
    """

    since: Version | None = None
    until: Version | None = None
    what: str = ""

    def __contains__(self, version: Version) -> bool:
        return (self.since is None or version >= self.since) and (self.until is None or version <= self.until)

    def __str__(self) -> str:
        if self.since is None:
            return "all" if self.until is None else f"to {text(self.until)}"
        if self.until is None:
            return f"from {text(self.since)}"
        return f"{text(self.since)} to {text(self.until)}"


ALWAYS = Span()


def since(major: int, minor: int, what: str = "") -> Span:
    return Span((major, minor), None, what)


def until(major: int, minor: int, what: str = "") -> Span:
    return Span(None, (major, minor), what)


def at(choices: Mapping[Version, T], version: Version) -> T:
    """The entry with the greatest key not above `version`. Raises KeyError if all keys are above it."""
    found = [key for key in choices if key <= version]
    if not found:
        raise KeyError(version)
    return choices[max(found)]


@frozen
class Microversions:
    """The range of one API. `first` and `after` are legacy headers that hold a bare `X.Y`, in order of precedence.

    `first` are those that win over `OpenStack-API-Version`, `after` those that it wins over. `aliases` are other names
    of the service type that a request may use; the answer has `service_type`.
    """

    service_type: str
    minimum: Version
    maximum: Version
    first: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    _answers: dict[Version, Sequence[tuple[bytes, bytes]]] = field(factory=dict, init=False, eq=False, repr=False)

    def asked(self, headers: Headers) -> Version:
        """The version of this request. Raises Invalid (malformed) or NotAcceptable (out of range)."""
        wanted = self._wanted(headers)
        if wanted is None:
            return self.minimum
        if wanted == "latest":
            return self.maximum
        match = FORM.match(wanted)
        if match is None:
            raise Invalid(
                f"API Version String {wanted[:64]!r} is of invalid format. "
                "Must be of format MajorNum.MinorNum, or 'latest'."
            )
        version = (int(match[1]), int(match[2]))
        if not self.minimum <= version <= self.maximum:
            raise NotAcceptable(
                f"Version {text(version)} is not supported by the API. "
                f"Minimum is {text(self.minimum)} and maximum is {text(self.maximum)}.",
                type=UNSUPPORTED,
            )
        return version

    def _wanted(self, headers: Headers) -> str | None:
        for name in self.first:
            if value := headers.getRawHeaders(name):
                return value[-1].strip()
        for line in headers.getRawHeaders("OpenStack-API-Version") or ():
            for part in line.split(","):
                service, _, value = part.strip().partition(" ")
                if service.lower() in (self.service_type, *self.aliases):
                    return value.strip()
        for name in self.after:
            if value := headers.getRawHeaders(name):
                return value[-1].strip()
        return None

    def answer(self, version: Version) -> Sequence[tuple[bytes, bytes]]:
        """Headers that tell the client which version was used: the same for each answer, so they are made once."""
        if (made := self._answers.get(version)) is None:
            names = ("OpenStack-API-Version", *self.first, *self.after)
            told = [
                ("OpenStack-API-Version", f"{self.service_type} {text(version)}"),
                *((name, text(version)) for name in names[1:]),
                ("Vary", ", ".join(names)),
            ]
            made = self._answers[version] = [(name.encode(), value.encode()) for name, value in told]
        return made
