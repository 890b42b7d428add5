"""What bodies and answers of all resources share: fields with their limits, and the standard attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from attrs import evolve

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.network import tags as domain
from cloudctl.network.api import lists
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import LONG, Standard
from cloudctl.network.tags import LENGTH, MOST
from cloudctl.rest.body import MISSING, Check, Items, Length, Loose, Range, ValueProblem, uuid
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import REFUSED, Attribute, of_each
from cloudctl.rest.standing import shown

T = TypeVar("T")
Json = dict[str, Any]

Text = Annotated[str, Length(0, 255)]
LongText = Annotated[str, Length(0, LONG)]
Flag = Annotated[bool, Loose()]


def _check_family(version: int) -> int:
    if version not in (4, 6):
        raise ValueProblem(f"{version} is not in [4, 6]")
    return version


# Stock clients also send it as text.
Family = Annotated[int, Loose(), Check(_check_family)]


def _uuid(value: str) -> str:
    try:
        return uuid(value)
    except ValueProblem:
        raise ValueProblem(f"{shown(value)} is not a valid UUID.") from None


Id = Annotated[str, Length(0, 64), Check(_uuid)]
Project = Annotated[str, Length(1, 64, blank=False)]
# Parsed by the domain, which knows the error that each service's clients expect.
IpText = Annotated[str, Length(0, 64)]
MacText = Annotated[str, Length(0, 32)]
Mtu = Annotated[int, Loose(), Range(0)]
Version = Annotated[int, Loose()]
Tag = Annotated[str, Length(1, LENGTH)]
Tags = Annotated[list[Tag], Items(0, MOST)]


def each_once(texts: list[str]) -> list[str]:
    twice = sorted({text for text in texts if texts.count(text) > 1})
    if twice:
        raise ValueProblem(f"Duplicate items in the list: '{', '.join(twice)}'")
    return texts


Hints = Annotated[list[Text], Items(0, 10), Check(each_once)]


def owner_named(values: dict[str, Any]) -> str | None:
    """The project that a body names, which is taken out of it. Raises Invalid if its two names for it differ."""
    named = {values.pop(name) for name in ("tenant_id", "project_id") if name in values}
    if len(named) > 1:
        raise Invalid("'project_id' and 'tenant_id' do not match", type="HTTPBadRequest")
    return next(iter(named), None)


def check_owner(caller: Caller, values: dict[str, Any]) -> None:
    """Take the project out of a body that need not name one. Raises Invalid for one that the caller may not name."""
    named = owner_named(values)
    if named is not None:
        owner_of_new(caller, named)


def listed(body: T | list[T]) -> list[T]:
    """What a create body requests, one or many. Raises Invalid for an empty list."""
    wanted = body if isinstance(body, list) else [body]
    if not wanted:
        raise Invalid("Resources required", type="HTTPBadRequest")
    return wanted


def enveloped(body: Any, key: str, plural: str, views: Sequence[Json]) -> Json:
    """The answer to a create, in the same form as the body."""
    return {plural: list(views)} if isinstance(body, list) else {key: views[0]}


# What a body may name where something else decides whose the record is, if anybody's.
NAMED_OWNER = tuple(Attribute(name, None, Project, post=MISSING, view=None) for name in ("project_id", "tenant_id"))

# -- the standard attributes


def owners(record: type[Standard]) -> tuple[Attribute, ...]:
    """The project that owns a record, under both names."""
    c = record
    return (
        Attribute("project_id", c.project_id, Project, post=MISSING, filter=any_of, sort=True),
        Attribute("tenant_id", c.project_id, Project, post=MISSING, filter=any_of, sort=True, named="tenant_id"),
    )


def _tags(conn: Connection, call: Call, records: Sequence[Any]) -> list[list[str]]:
    found = domain.of(conn, [record.id for record in records])
    return [found.get(record.id, []) for record in records]


TAGS = Attribute("tags", None, Tags, post=MISSING, view=_tags, at_first=())
# Those of which no create body has any.
LATER_TAGS = evolve(TAGS, post=REFUSED)


def standard(
    record: type[Standard],
    *,
    description: Any = Text,
    changeable: bool = True,
    owned: bool = True,
    tags: Attribute | None = TAGS,
) -> tuple[Attribute, ...]:
    """The attributes of every record. `create` gets the `description` together with the resource's own attributes.

    `description`: its type in bodies. `changeable`: there is a PUT. `owned`: it belongs to a project. `tags`: None if
    it has none.
    """
    c = record
    return (
        *(owners(record) if owned else ()),
        Attribute("description", c.description, description, post="", put=changeable, filter=any_of, sort=True),
        Attribute(
            "created_at", c.created_at, filter=lists.times, sort=True, view=of_each(lambda r: zulu(r.created_at))
        ),
        Attribute(
            "updated_at", c.updated_at, filter=lists.times, sort=True, view=of_each(lambda r: zulu(r.updated_at))
        ),
        Attribute("revision_number", c.revision, filter=number, sort=True),
        *(() if tags is None else (tags,)),
    )
