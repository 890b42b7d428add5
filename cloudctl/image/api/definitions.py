"""What namespaces of metadata definitions hold, and their Operations: one shape for all four kinds.

They are in a namespace that the caller sees, a PUT replaces one as a whole, and nothing in a protected namespace is
deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import attrs
from attrs import Factory, field, frozen

from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import definitions as domain
from cloudctl.image import namespaces
from cloudctl.image.tables import (
    Association,
    Definition,
    Namespace,
    ObjectDefinition,
    PropertyDefinition,
    TagDefinition,
)
from cloudctl.rest import listing, resource
from cloudctl.rest.body import MISSING, Body, Check, Items, Length, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.declared import ONE, SEVERAL, Described, Path, Resource, Verb
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import Limits, Listing
from cloudctl.rest.resource import REQUIRED, Attribute, Json, of_each
from cloudctl.rest.route import Operation

D = TypeVar("D", bound=Definition)

NAMESPACES = "/metadefs/namespaces"
LIMITS = Limits(most=1000, default=25)
PAGING = ("limit", "marker", "sort_key", "sort_dir")


def _segment(value: str) -> str:
    """What is named in paths. Raises ValueError."""
    if "/" in value:
        raise ValueError(f"{value[:80]!r} has a slash, so that no path could name it")
    return value


Word = Annotated[str, Length(1, 80, blank=False)]
Name = Annotated[Word, Check(_segment)]
Affix = Annotated[str, Length(0, 80)]
Text = Annotated[str, Length(0, 500)]
# What people read about objects and properties: whole paragraphs in the definitions that are published.
Prose = Annotated[str, Length(0, 65535)]
Words = Annotated[list[Word], Items(0, 1000)]
Type = Literal["array", "boolean", "integer", "number", "object", "string"]
Count = Annotated[int, Range(0)]


@frozen
class ListItems:
    """The items of a property that is a list."""

    type: Type | Missing | None = MISSING
    enum: Annotated[list[Any], Items(0, 1000)] | Missing = MISSING


def plain(value: Any) -> Any:
    """A part of a body as JSON again, with what was sent and nothing else."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if attrs.has(type(value)):
        return {name: plain(each) for name, each in given(value).items()}
    return value


def _keyword(name: str, type_: Any, post: Any = MISSING) -> Attribute:
    """A keyword of the JSON schema that defines a property."""
    return Attribute(name, None, type_, post=post, view=of_each(lambda row: row.definition.get(name, MISSING)))


KEYWORDS = (
    _keyword("title", Prose, REQUIRED),
    _keyword("type", Type, REQUIRED),
    _keyword("description", Prose),
    _keyword("operators", Words),
    _keyword("readonly", bool),
    _keyword("confidential", bool),
    _keyword("default", Any),
    _keyword("enum", Annotated[list[Any], Items(0, 1000)]),
    _keyword("minimum", int | float),
    _keyword("maximum", int | float),
    _keyword("minLength", Count),
    _keyword("maxLength", Count),
    _keyword("pattern", Prose),
    _keyword("items", ListItems),
    _keyword("additionalItems", bool),
    _keyword("uniqueItems", bool),
    _keyword("minItems", Count),
    _keyword("maxItems", Count),
)
PropertyBody: Any = resource.body("Property", KEYWORDS)
Properties = Annotated[dict[Name, PropertyBody], Items(0, 1000)]
# Of objects.
Parts = Annotated[dict[Word, PropertyBody], Items(0, 1000)]


def _times(record: type[Definition]) -> tuple[Attribute, ...]:
    return (
        Attribute("created_at", record.created_at, sort=True, view=of_each(lambda row: zulu(row.created_at))),
        Attribute("updated_at", record.updated_at, sort=True, view=of_each(lambda row: zulu(row.updated_at))),
    )


def _self(kind: str) -> tuple[Attribute, ...]:
    def paths(conn: Connection, call: Call, rows: Sequence[Definition]) -> list[Any]:
        names = namespaces.names(conn, list({row.namespace_id for row in rows}))

        def path(row: Definition) -> Any:
            # Of a namespace that is deleted meanwhile there is none.
            name = names.get(row.namespace_id)
            return MISSING if name is None else f"{path_of(name)}/{kind}s/{quote(row.name, safe=':')}"

        return [path(row) for row in rows]

    return (
        Attribute("self", view=paths),
        Attribute("schema", view=resource.always(f"/v2/schemas/metadefs/{kind}")),
    )


def path_of(namespace: str) -> str:
    return f"/v2{NAMESPACES}/{quote(namespace, safe=':')}"


ALL = f"{NAMESPACES}/<namespace>"
VERBS = (
    Verb("list", "GET", SEVERAL, "List the {several} of a namespace."),
    Verb("create", "POST", SEVERAL, "Define one {kind}.", status=201),
    Verb("show", "GET", ONE, "Show one {kind}."),
    Verb("update", "PUT", ONE, "Replace one {kind}."),
    Verb("delete", "DELETE", ONE, "Remove one {kind}.", status=204),
    Verb("clear", "DELETE", SEVERAL, "Remove every {kind} of a namespace.", status=204, handler="delete"),
)


@frozen(kw_only=True, eq=False)
class Declared(Described[D]):
    """A kind of definitions.

    `values`: the columns for a body. `create`, `replace`, `empty`: whether one can be made by a POST to the collection
    and changed by a PUT, and whether all can be removed at once. `joined`: several as they are shown.
    """

    values: Callable[[dict[str, Any]], dict[str, Any]] = dict
    path: str = field(default=Factory(lambda self: f"{ALL}/{self.plural}", takes_self=True))
    id: str = "definition"
    title: str = field(
        default=Factory(lambda self: f"Metadata definitions: {self.plural.replace('_', ' ')}", takes_self=True)
    )
    rules: str = field(default=Factory(lambda self: f"{self.name}_definitions", takes_self=True))  # image:RULES:create
    envelope: str = field(default=Factory(lambda self: self.plural, takes_self=True))
    joined: Callable[[Sequence[Json]], Any] = list
    paged: bool = False
    one: bool = True  # whether one can be shown
    create: bool = True
    replace: bool = True
    empty: bool = True

    @cached_property
    def listing(self) -> Listing:
        table = self.record.table
        return Listing(table, sort_keys=resource.sort_keys(self.attributes), marker=table.c.name)

    @cached_property
    def whole(self) -> Body:
        """The body that makes one, or replaces it."""
        return Body(resource.body(self.name, tuple(self.attributes)))

    @cached_property
    def operations(self) -> Sequence[Operation]:
        return self.offer(
            VERBS,
            lambda verb: f"image:{self.rules}:{verb}",
            {"create": self.create, "show": self.one, "update": self.replace, "clear": self.empty},
            list={"query": PAGING if self.paged else ()},
            create={"body": self.whole},
            show={"query": ("resource_type",)},
            update={"body": self.whole},
        )

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        return await mounted.db.scan(self._list, call, path["namespace"])

    def _list(self, conn: Connection, call: Call, name: str) -> Json:
        namespace = within(conn, call, name)
        if not self.paged:
            rows = domain.of(conn, self.record, [namespace.id])[namespace.id]
            return {self.envelope: self.joined(self.views(conn, call, rows))}
        mine = self.record.namespace_id == namespace.id
        page = listing.page(conn, self.listing, listing.paging(call, LIMITS), mine)
        shown = self.views(conn, call, page.rows)
        path = f"{path_of(namespace.namespace)}/{self.plural}"
        links = page_links(call, path, page.rows[-1].name if page.more and page.rows else None)
        return {self.envelope: shown, "schema": f"/v2/schemas/metadefs/{self.plural}", **links}

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        namespace = within(conn, call, path["namespace"], lock=True)
        return self._one(conn, call, domain.create(conn, self.record, namespace, self.values(given(body)), call.now))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        namespace, wanted = within(conn, call, path["namespace"]), path[self.id]
        if (resource_type := call.query.get("resource_type")) is not None:
            before = domain.prefix(conn, namespace, resource_type)
            if not wanted.startswith(before):
                raise NotFound(
                    f"{wanted[:80]!r} does not begin with {before!r}, as those of {resource_type[:80]!r} do."
                )
            wanted = wanted.removeprefix(before)
        return self._one(conn, call, domain.get(conn, self.record, namespace, wanted))

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        namespace = within(conn, call, path["namespace"], lock=True)
        row = domain.get(conn, self.record, namespace, path[self.id])
        return self._one(conn, call, domain.change(conn, row, self.values(given(body)), call.now))

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        """One, or all if the path names none."""
        namespace = within(conn, call, path["namespace"], lock=True)
        namespaces.check_open(namespace)
        if self.id in path:
            domain.remove(conn, domain.get(conn, self.record, namespace, path[self.id]))
        else:
            domain.remove_all(conn, self.record, namespace)

    def _one(self, conn: Connection, call: Call, row: D) -> Json:
        return self.views(conn, call, [row])[0]


def within(conn: Connection, call: Call, name: str, *, lock: bool = False) -> Namespace:
    """The namespace of a path, if the Operation's rule allows the call in it. Raises NotFound, Forbidden."""
    namespace = namespaces.visible(conn, call.caller, name, lock=lock)
    call.require(project_id=namespace.owner or "")
    return namespace


def page_links(call: Call, path: str, last: str | None) -> Json:
    """`first`, and `next` if others follow `last`."""
    first = call.query.having(marker=None)
    links = {"first": f"{path}?{first}" if first else path}
    if last is not None:
        links["next"] = f"{path}?{call.query.having(marker=last)}"
    return links


# -- the kinds


def property_values(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of one property."""
    definition = {name: plain(value) for name, value in wanted.items() if name != "name"}
    for least, most in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if least in definition and most in definition and definition[least] > definition[most]:
            raise Invalid(f"{least} is more than {most}.")
    return {"name": wanted["name"], "definition": definition}


def object_values(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of one object; a PUT without one of them empties it."""
    return {
        "name": wanted["name"],
        "description": wanted.get("description"),
        "required": wanted.get("required", []),
        "properties": {
            name: property_values({"name": name, **given(each)})["definition"]
            for name, each in wanted.get("properties", {}).items()
        },
    }


PROPERTIES = Declared(
    name="property",
    plural="properties",
    record=PropertyDefinition,
    attributes=(Attribute("name", PropertyDefinition.name, Name, post=REQUIRED), *KEYWORDS),
    values=property_values,
    joined=lambda views: {view["name"]: view for view in views},
)

OBJECTS = Declared(
    name="object",
    record=ObjectDefinition,
    attributes=(
        Attribute("name", ObjectDefinition.name, Name, post=REQUIRED, sort=True),
        Attribute("description", ObjectDefinition.description, Prose | None, post=MISSING),
        Attribute("required", ObjectDefinition.required, Words, post=MISSING),
        Attribute("properties", ObjectDefinition.properties, Parts, post=MISSING),
        *_times(ObjectDefinition),
        *_self("object"),
    ),
    values=object_values,
    paged=True,
)

TAGS = Declared(
    name="tag",
    record=TagDefinition,
    attributes=(
        Attribute("name", TagDefinition.name, Name, post=REQUIRED, sort=True),
        *_times(TagDefinition),
    ),
    paged=True,
    create=False,  # see `tag_definitions`: a POST makes many
)

ASSOCIATIONS = Declared(
    name="resource_type",
    rules="resource_types",
    record=Association,
    attributes=(
        Attribute("name", Association.name, Name, post=REQUIRED),
        Attribute("prefix", Association.prefix, Affix | None, post=MISSING),
        Attribute("properties_target", Association.properties_target, Affix | None, post=MISSING),
        *_times(Association),
    ),
    envelope="resource_type_associations",
    one=False,
    replace=False,
    empty=False,
)
