"""What the queries of placement have in common: resources, traits, aggregates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from cloudctl.errors import Invalid, NotAcceptable
from cloudctl.placement.api import gates
from cloudctl.placement.candidates import Group
from cloudctl.rest.accept import takes
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.faults import JSON
from cloudctl.rest.standing import unexpected
from cloudctl.rest.versions import Version

AMOUNT = re.compile(r"([A-Z0-9_]{1,255}):([1-9]\d{0,9})", re.ASCII)
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"
DUPLICATE_KEY = "placement.query.duplicate_key"
READING = ("GET", "HEAD")


def only(call: Call, known: Iterable[str]) -> None:
    """Refuse parameters that do not exist at this version. Raises Invalid."""
    if unknown := sorted(name for name in call.query if name not in call.query or name not in set(known)):
        raise Invalid(f"Invalid query string parameters: {unexpected(unknown)}", type=BAD_VALUE)


def once(call: Call, name: str) -> str | None:
    """Raises Invalid for one that was given twice."""
    values = call.query.all(name)
    if len(values) > 1:
        raise Invalid(f"The query parameter {name!r} is given more than once.", type=DUPLICATE_KEY)
    return values[0] if values else None


def short(call: Call, name: str) -> None:
    """Refuse a value that nobody's id can be. Raises Invalid."""
    for value in call.query.all(name):
        if not 1 <= len(value) <= 255:
            message = f"Invalid query string parameters: {name!r} has {len(value)} characters; 1 to 255 are taken."
            raise Invalid(message, type=BAD_VALUE)


def uuid(value: str, name: str) -> str:
    """Raises Invalid."""
    try:
        return str(UUID(value))
    except ValueError:
        raise Invalid(f"Invalid uuid value: {value[:64]!r} of {name!r}.", type=BAD_VALUE) from None


def resources(text: str) -> dict[str, int]:
    """`VCPU:1,MEMORY_MB:512`. Raises Invalid."""
    found: dict[str, int] = {}
    for part in text.split(","):
        match = AMOUNT.fullmatch(part.strip())
        if match is None or match[1] in found or int(match[2]) >= 2**31:
            raise Invalid(f"Badly formed resources parameter: {text[:255]!r}.", type=BAD_VALUE)
        found[match[1]] = int(match[2])
    return found


def traits(
    values: Iterable[str], version: Version, name: str = "required"
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """(sets that must each be met, forbidden ones). Raises Invalid."""
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith("in:") and version in gates.ANY_TRAITS:
            required.append(frozenset(words(value.removeprefix("in:"), name)))
            continue
        for word in words(value, name):
            if word.startswith("!") and version in gates.FORBIDDEN_TRAITS:
                forbidden.add(word.removeprefix("!"))
            else:
                required.append(frozenset((word,)))
    wrong = [word for word in (*forbidden, *frozenset().union(*required)) if re.fullmatch(r"[A-Z0-9_]+", word) is None]
    both = forbidden & frozenset().union(*(each for each in required if len(each) == 1))
    if wrong:
        message = (
            f"Invalid query string parameters: {name!r} takes names of traits, not {', '.join(sorted(wrong))[:255]}."
        )
        raise Invalid(message, type=BAD_VALUE)
    if both:
        message = f"Conflicting required and forbidden traits found in {name}: {', '.join(sorted(both))[:255]}"
        raise Invalid(message, type=BAD_VALUE)
    return tuple(required), frozenset(forbidden)


def words(text: str, name: str) -> list[str]:
    """What commas separate; blanks around a word are not a part of it. Raises Invalid for an empty one."""
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise Invalid(f"Invalid query string parameters: {name!r} has an empty value.", type=BAD_VALUE)
    return found


def aggregates(
    values: Iterable[str], version: Version, name: str = "member_of"
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """(sets that must each be met, forbidden ones). Raises Invalid."""
    inside: list[frozenset[str]] = []
    outside: set[str] = set()
    given = list(values)
    if len(given) > 1 and version not in gates.MANY_MEMBER_OF:
        raise Invalid(f"The query parameter {name!r} is given more than once.", type=DUPLICATE_KEY)
    for value in given:
        forbids = value.startswith("!") and version in gates.FORBIDDEN_AGGREGATES
        text = value.removeprefix("!") if forbids else value
        ids = {_aggregate(each, name) for each in words(text.removeprefix("in:"), name)}
        if len(ids) > 1 and not text.startswith("in:"):
            message = f"Multiple values for {name!r} must be prefixed with 'in:'."
            raise Invalid(message, type=BAD_VALUE)
        if forbids:
            outside |= ids
        else:
            inside.append(frozenset(ids))
    return tuple(inside), frozenset(outside)


def _aggregate(text: str, name: str) -> str:
    """As it was written: that is how a provider stores and shows it. Raises Invalid."""
    uuid(text, name)
    return text


def group(call: Call, suffix: str = "") -> Group:
    """The parameters of one group. Raises Invalid."""
    text = once(call, f"resources{suffix}")
    named = f"required{suffix}"
    if call.version not in gates.ANY_TRAITS:
        once(call, named)
    required, forbidden = traits(call.query.all(named), call.version, named)
    inside, outside = aggregates(call.query.all(f"member_of{suffix}"), call.version, f"member_of{suffix}")
    tree = once(call, f"in_tree{suffix}")
    return Group(
        suffix,
        {} if text is None else resources(text),
        required,
        forbidden,
        inside,
        outside,
        None if tree is None else uuid(tree, f"in_tree{suffix}"),
    )


def fresh(call: Call, body: Any, status: int | None = None, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """An answer that is not to be cached, and that says so if the version has it.

    Raises NotAcceptable if the client reads, and does not take JSON.
    """
    if body is not None and call.method in READING and not takes(call.header("accept") or "", JSON.type):
        raise NotAcceptable(f"Only {JSON.type} is provided")
    return timed(call, body, status, headers)


def timed(call: Call, body: Any, status: int | None = None, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """As `fresh`, whatever the client takes."""
    if call.version not in gates.TIMES:
        return Reply(body, status, headers)
    modified = f"{call.now:%a, %d %b %Y %H:%M:%S} GMT"
    return Reply(body, status, (*headers, ("Last-Modified", modified), ("Cache-Control", "no-cache")))
