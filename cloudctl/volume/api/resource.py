"""The Operations of a declared resource, as in the block storage API. Reference: volume.md, section 1.

    MESSAGES = Declared(
        "message", Message, path="/messages", span=since(3, 3),
        attributes=(Attribute("event_id", Message.event_id, filter=lists.exact, sort=True), …),
        visible=…, not_found=messages.not_found, remove=…)

    Resource(db, MESSAGES)        # what `ApiApp` mounts

`Declared` describes one resource; `Resource` does what all have in common: envelopes, `detail`, pages, filters,
microversions. An Operation whose function is missing is not offered; further ones are in a separate class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from attrs import Factory, field, frozen
from sqlalchemy import func

from cloudctl.db import Connection, Database
from cloudctl.db.records import Record
from cloudctl.errors import NotFound
from cloudctl.rest import resource
from cloudctl.rest.body import Body, given
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Listing, Page
from cloudctl.rest.resource import Attribute, Json, of_each
from cloudctl.rest.route import Operation, Routes
from cloudctl.rest.versions import ALWAYS, Span
from cloudctl.volume.api import links, lists
from cloudctl.volume.api.lists import By

R = TypeVar("R", bound=Record)

STATUS = {"create": 202, "delete": 202}


@frozen
class Made(Generic[R]):
    """A new record, and what only its creator is told."""

    record: R
    told: Json


@frozen(kw_only=True, eq=False)
class Declared(Generic[R]):
    """A resource. Its functions raise what the domain raises.

    `create(conn, call, values)`, `change(conn, call, record, changes)` and `remove(conn, call, record)` get the record
    that `visible` finds. `scope` limits a caller's list; without it the project decides. `shows`: Operation → the
    attributes in its answer, unless it shows all; an empty one has no body. A list that does not show all also has
    `/detail`. `rules`: Operation → its rule, if that is not its own name; `status` and `query` likewise.
    """

    name: str
    record: type[R]
    attributes: Sequence[Attribute]
    visible: Callable[[Connection, Call, str], R]
    not_found: Callable[[str], NotFound]
    create: Callable[[Connection, Call, dict[str, Any]], R | Made[R]] | None = None
    change: Callable[[Connection, Call, R, dict[str, Any]], R] | None = None
    remove: Callable[[Connection, Call, R], None] | None = None
    scope: Callable[[Call], list[Condition]] | None = None
    filters: Mapping[str, By] | None = field(factory=dict)  # not of an attribute; None: `scope` reads them
    shows: Mapping[str, Sequence[str]] = field(factory=dict)
    rules: Mapping[str, str] = field(factory=dict)
    status: Mapping[str, int] = field(factory=dict)
    query: Mapping[str, Sequence[str]] = field(factory=dict)
    linked: bool = False  # answers with one record have its links beside it
    span: Span = ALWAYS
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    path: str = field(default=Factory(lambda self: f"/{self.plural}", takes_self=True))
    id: str = field(default=Factory(lambda self: f"{self.name}_id", takes_self=True))  # in paths
    ruled: str = field(default=Factory(lambda self: self.plural, takes_self=True))  # volume:RULED:create
    links: str = field(default=Factory(lambda self: f"{self.plural}_links", takes_self=True))
    title: str = field(default=Factory(lambda self: self.plural.replace("_", " ").capitalize(), takes_self=True))
    noun: str = field(default=Factory(lambda self: f"a {self.name.replace('_', ' ')}", takes_self=True))
    says: Mapping[str, str] = field(factory=dict)

    @cached_property
    def collection(self) -> lists.Collection:
        described = Listing(self.record.table, sort_keys=resource.sort_keys(self.attributes))
        found = None if self.filters is None else {**resource.filters(self.attributes), **self.filters}
        return lists.Collection(self.plural, described, found, self.not_found, self.scope, self.links)

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named after the methods of Resource that answer them."""
        one, several = f"{self.path}/<{self.id}>", self.plural.replace("_", " ")
        routes = Routes(self.title)

        def add(method: str, path: str, handler: str, summary: str, **options: Any) -> None:
            asked = "list" if handler == "details" else handler
            rule = f"volume:{self.ruled}:{self.rules.get(asked, asked)}"
            status = self.status.get(handler, STATUS.get(handler, 200))
            options |= {"status": status, "since": self.span.since, "until": self.span.until}
            options.setdefault("query", self.query.get(handler, ()))
            summary = self.says.get(handler, summary)
            routes.operations.append(Operation(self.title, method, path, handler, rule, summary=summary, **options))

        query = lists.names(self.collection.filters or {})
        add("GET", self.path, "list", f"List {several}.", query=query)
        if "list" in self.shows:
            add("GET", f"{self.path}/detail", "details", f"List {several} with all their fields.", query=query)
        if self.create:
            body = Body(resource.body(f"Create {self.name}", self.attributes), self.name)
            add("POST", self.path, "create", f"Make {self.noun}.", body=body)
        add("GET", one, "show", f"Show {self.noun}.")
        if self.change:
            body = Body(resource.body(f"Update {self.name}", self.attributes, update=True), self.name)
            add("PUT", one, "update", f"Change {self.noun}.", body=body)
        if self.remove:
            add("DELETE", one, "delete", f"Delete {self.noun}.")
        return routes

    def views(self, conn: Connection, call: Call, records: Sequence[R], shown_by: str) -> list[Json]:
        """Records as the Operation `shown_by` shows them."""
        names = self.shows.get(shown_by)
        shown = self.attributes if names is None else [each for each in self.attributes if each.name in names]
        return resource.views(conn, call, shown, records)

    def beside(self, call: Call, record: Any) -> Json:
        """What is beside a record in its envelope."""
        return {"links": links.of(call, f"{self.path}/{record.id}")} if self.linked else {}


# -- attributes that many have


def created(record: Any, *, shown: bool = True) -> Attribute:
    view = of_each(lambda each: micros(each.created_at)) if shown else None
    return Attribute("created_at", record.created_at, sort=True, view=view)


def updated(record: Any, *, shown: bool = True) -> Attribute:
    view = of_each(lambda each: micros(each.updated_at)) if shown else None
    sort = func.coalesce(record.updated_at, record.created_at)
    return Attribute("updated_at", record.updated_at, sort=sort, view=view)


def linked(path: str) -> Attribute:
    """`links` of the records below `path`."""
    return Attribute(
        "links", view=lambda conn, call, records: [links.of(call, f"{path}/{record.id}") for record in records]
    )


@frozen
class Resource(Generic[R]):
    """The Operations of one declared resource; `routes` lists them."""

    db: Database
    declared: Declared[R]

    @property
    def routes(self) -> Routes:
        return self.declared.routes

    async def list(self, call: Call) -> Json:
        return await self.db.scan(self._page, call, "list")

    async def details(self, call: Call) -> Json:
        return await self.db.scan(self._page, call, "details")

    def _page(self, conn: Connection, call: Call, shown_by: str) -> Json:
        resource.require_filters(call, self.declared.attributes)
        page: Page
        page, total = self.declared.collection.found(conn, call)
        views = self.declared.views(conn, call, page.rows, shown_by)
        return lists.answer(call, self.declared.plural, views, page, total, self.declared.links)

    async def create(self, call: Call, body: Any) -> Json | None:
        return await self.db.run(self._create, call, given(body))

    def _create(self, conn: Connection, call: Call, values: dict[str, Any]) -> Json | None:
        made = resource.offered(self.declared.create)(conn, call, values)
        if not isinstance(made, Made):
            return self._answer(conn, call, made, "create")
        return {self.declared.name: self.declared.views(conn, call, [made.record], "create")[0] | made.told}

    async def show(self, call: Call, **path: str) -> Json | None:
        return await self.db.read(self._show, call, path[self.declared.id])

    def _show(self, conn: Connection, call: Call, id: str) -> Json | None:
        return self._answer(conn, call, self.declared.visible(conn, call, id), "show")

    async def update(self, call: Call, body: Any, **path: str) -> Json | None:
        return await self.db.run(self._update, call, path[self.declared.id], given(body))

    def _update(self, conn: Connection, call: Call, id: str, changes: dict[str, Any]) -> Json | None:
        record = self.declared.visible(conn, call, id)
        return self._answer(conn, call, resource.offered(self.declared.change)(conn, call, record, changes), "update")

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(self._delete, call, path[self.declared.id])

    def _delete(self, conn: Connection, call: Call, id: str) -> None:
        resource.offered(self.declared.remove)(conn, call, self.declared.visible(conn, call, id))

    def _answer(self, conn: Connection, call: Call, record: R, shown_by: str) -> Json | None:
        if self.declared.shows.get(shown_by) == ():
            return None
        body: Json = {self.declared.name: self.declared.views(conn, call, [record], shown_by)[0]}
        return body | self.declared.beside(call, record)
