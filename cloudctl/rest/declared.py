"""The five Operations of a declared resource: list, create, show, update, delete.

    RACKS = Declared(
        service="housing", name="rack", record=Rack, get=…, scope=…,
        attributes=(Attribute("id", Rack.id), Attribute("name", Rack.name, Name, post=REQUIRED, put=True), …),
        create=create, change=change, remove=remove)

    Resource(db, RACKS)        # what `ApiApp` mounts

`Named` is what a resource is called, `Described` also what it has. `Verb`s are how an API writes its Operations.
`Declared` is a plain resource of an API without habits of its own; an API that has some declares its resources as
`Described`, too, and answers in its own way: a `Declaration`. An Operation without its function is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from attrs import Factory, field, frozen

from cloudctl.db import Connection, Database
from cloudctl.db.records import Record
from cloudctl.errors import Invalid
from cloudctl.rest import listing, resource
from cloudctl.rest.body import Body, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Filter, Limits, Listing
from cloudctl.rest.rendered import Rendered
from cloudctl.rest.resource import Attributes, Json
from cloudctl.rest.route import Operation, Routes
from cloudctl.rest.versions import ALWAYS, Span

Path = Mapping[str, str]
"""The variables of a request's path."""


@frozen
class Verb:
    """An Operation that the resources of an API have. `path` and `summary` are filled in with what one is called."""

    name: str
    method: str
    path: str
    summary: str
    status: int = 200
    handler: str = field(default=Factory(lambda self: self.name, takes_self=True))  # the method of Resource
    several: bool = False  # a create body may have several at once


SEVERAL, ONE = "{path}", "{path}/<{id}>"

PLAIN = (
    Verb("list", "GET", SEVERAL, "List {several}."),
    Verb("create", "POST", SEVERAL, "Make {noun}.", status=201),
    Verb("show", "GET", ONE, "Show {noun}."),
    Verb("update", "PUT", ONE, "Change {noun}."),
    Verb("delete", "DELETE", ONE, "Delete {noun}.", status=204),
)

R = TypeVar("R", bound=Record)


@frozen(kw_only=True, eq=False)
class Named:
    """What a resource is called, and the Operations that follow from it.

    `says`: the summaries in docs/api.md of the Operations whose name does not suffice.
    """

    name: str  # in bodies
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    path: str = field(default=Factory(lambda self: f"/{self.plural}", takes_self=True))
    id: str = field(default=Factory(lambda self: f"{self.name}_id", takes_self=True))  # in paths
    title: str = field(default=Factory(lambda self: _words(self.plural).capitalize(), takes_self=True))
    noun: str = field(default=Factory(lambda self: _with_article(_words(self.name)), takes_self=True))
    says: Mapping[str, str] = field(factory=dict)
    span: Span = ALWAYS

    @property
    def kind(self) -> str:
        """As messages call it."""
        return _words(self.name)

    def offer(
        self,
        verbs: Sequence[Verb],
        rule: Callable[[str], str],
        functions: Mapping[str, object],
        **options: Mapping[str, Any],
    ) -> Sequence[Operation]:
        """The Operations.

        `rule` gives the rule of a verb; `functions`: what is behind a verb that is not offered without; `options`: the
        options of Operation, by verb.
        """
        offered = [verb for verb in verbs if functions.get(verb.name, True)]
        return [self._operation(verb, rule(verb.name), options.get(verb.name, {})) for verb in offered]

    def _operation(self, verb: Verb, rule: str, options: Mapping[str, Any]) -> Operation:
        names = {
            "name": self.name,
            "path": self.path,
            "id": self.id,
            "kind": self.kind,
            "noun": self.noun,
            "several": _words(self.plural),
        }
        path, summary = verb.path.format(**names), self.says.get(verb.name, verb.summary.format(**names))
        usual: dict[str, Any] = {"status": verb.status, "since": self.span.since, "until": self.span.until}
        if "body" not in options:
            usual["body"] = self.body(verb)
        return Operation(self.title, verb.method, path, verb.handler, rule, summary=summary, **(usual | {**options}))

    def body(self, verb: Verb) -> Body | None:
        """The body that a verb takes, unless its options say another one."""
        return None


@frozen(kw_only=True, eq=False)
class Described(Named, Generic[R]):
    """What a resource is called, and what it has. `extra`: clients may store attributes of their own."""

    record: type[R]
    attributes: Attributes
    extra: bool = False

    def body(self, verb: Verb) -> Body | None:
        if verb.handler not in ("create", "update"):
            return None
        name, update = f"{verb.handler.capitalize()} {self.name}", verb.handler == "update"
        made = resource.body(name, tuple(self.attributes), update=update, extra=self.extra)
        return Body(made, self.name, self.plural if verb.several else None)

    def views(
        self, conn: Connection, call: Call, records: Sequence[R], unasked: Collection[str] = ()
    ) -> Sequence[Json]:
        """Records as the caller may see them. The client's own attributes never hide those that the API has."""
        views = resource.views(conn, call, self.attributes, records, unasked)
        if not self.extra:
            return views
        own: Sequence[Any] = records
        return [{**record.extra, **view} for record, view in zip(own, views, strict=True)]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class Declaration(Protocol):
    """How an API answers the Operations of a resource: each in one transaction, except for its lists.

    A body is read in the transaction: what is made of it may be taken apart, and the transaction may be run again.
    """

    @property
    def title(self) -> str: ...
    @property
    def operations(self) -> Sequence[Operation]: ...
    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Any: ...
    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Any: ...
    def shown(self, conn: Connection, call: Call, path: Path) -> Any: ...
    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Any: ...
    def deleted(self, conn: Connection, call: Call, path: Path) -> None: ...


D = TypeVar("D", bound=Declaration)


@frozen
class Resource(Generic[D]):
    """The Operations of one declared resource; `routes` says which."""

    db: Database
    declared: D
    rendered: Rendered = field(factory=Rendered, init=False)

    @property
    def routes(self) -> Routes:
        return Routes(self.declared.title, self.declared.operations)

    async def list(self, call: Call, **path: str) -> Any:
        return await self.declared.listed(self, call, path)

    async def create(self, call: Call, body: Any, **path: str) -> Any:
        return await self.db.run(self.declared.created, call, path, body)

    async def show(self, call: Call, **path: str) -> Any:
        return await self.db.read(self.declared.shown, call, path)

    async def update(self, call: Call, body: Any, **path: str) -> Any:
        return await self.db.run(self.declared.updated, call, path, body)

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(self.declared.deleted, call, path)


# -- a plain resource


def _everything(conn: Connection, call: Call, path: Path) -> list[Condition]:
    return []


@frozen(kw_only=True, eq=False)
class Declared(Described[R]):
    """A plain resource. Its functions raise what the domain raises.

    `service`: the first word of its rules. `scope`: what a list holds. `later`: attributes that only the view of one
    record has.
    """

    service: str
    get: Callable[[Connection, Call, Path], R]
    create: Callable[[Connection, Call, Path, Json], R] | None = None
    change: Callable[[Connection, Call, R, Json], R] | None = None
    remove: Callable[[Connection, Call, R], None] | None = None
    scope: Callable[[Connection, Call, Path], list[Condition]] = _everything
    later: Attributes = ()
    filters: Mapping[str, Filter] = field(factory=dict)  # those that belong to no attribute

    @cached_property
    def listing(self) -> Listing:
        found = {**resource.filters(self.attributes), **self.filters}
        return Listing(self.record.table, sort_keys=resource.sort_keys(self.attributes), filters=found)

    @cached_property
    def operations(self) -> Sequence[Operation]:
        return self.offer(
            PLAIN,
            lambda verb: f"{self.service}:{self.plural}:{verb}",
            {"create": self.create, "update": self.change, "delete": self.remove},
            list={"query": tuple(self.listing.filters)},
        )

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        return await mounted.db.scan(self._page, call, path)

    def _page(self, conn: Connection, call: Call, path: Path) -> Json:
        scope, asked = self.scope(conn, call, path), listing.paging(call, Limits())
        page = listing.page(conn, self.listing, asked, *scope, *listing.conditions(self.listing, call))
        return {self.plural: self.views(conn, call, page.rows)}

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        return self._one(conn, call, resource.offered(self.create)(conn, call, path, given(body)))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        return self._one(conn, call, self.get(conn, call, path))

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        record, changes = self.get(conn, call, path), given(body)
        if not changes:
            raise Invalid(f"A change of {self.noun} needs at least one attribute.")
        return self._one(conn, call, resource.offered(self.change)(conn, call, record, changes))

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        resource.offered(self.remove)(conn, call, self.get(conn, call, path))

    def _one(self, conn: Connection, call: Call, record: R) -> Json:
        return {self.name: resource.views(conn, call, (*self.attributes, *self.later), [record])[0]}
