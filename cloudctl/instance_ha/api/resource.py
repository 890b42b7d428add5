"""The Operations of a declared resource, as the instance-HA API has them. Reference: instance-ha.md.

    SEGMENTS = Declared(name="segment", record=Segment, attributes=(…), get=…, create=…, change=…, remove=…)

    Resource(db, SEGMENTS)        # what `ApiApp` mounts

A resource below another, as hosts below segments, has a `parent`. An Operation without its function is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from attrs import Factory, field, frozen
from sqlalchemy import Column, func

from cloudctl.db import Connection, Database
from cloudctl.db.records import Record
from cloudctl.errors import Invalid
from cloudctl.rest import listing, resource
from cloudctl.rest.body import Body, given
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Filter, Limits, Listing
from cloudctl.rest.resource import Attribute, Attributes, Json, always, of_each
from cloudctl.rest.route import Operation, Routes
from cloudctl.rest.versions import ALWAYS, Span

R = TypeVar("R", bound=Record)

Path = Mapping[str, str]

LONG_AGO = datetime(1970, 1, 1)


def _everything(conn: Connection, path: Path) -> list[Condition]:
    return []


@frozen(kw_only=True, eq=False)
class Declared(Generic[R]):
    """A resource. Its functions raise what the domain raises; `path` holds the variables of the request's path.

    `scope`: what a list holds. `later`: attributes that only the view of one record has.
    """

    name: str
    record: type[R]
    attributes: Attributes
    get: Callable[[Connection, Path], R]
    create: Callable[[Connection, Call, Path, Json], R] | None = None
    change: Callable[[Connection, Call, R, Json], R] | None = None
    remove: Callable[[Connection, R], None] | None = None
    scope: Callable[[Connection, Path], list[Condition]] = _everything
    parent: str = ""
    later: Attributes = ()
    filters: Mapping[str, Filter] = field(factory=dict)  # those that belong to no attribute
    span: Span = ALWAYS
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    noun: str = field(default=Factory(lambda self: f"a {self.name}", takes_self=True))

    @cached_property
    def listing(self) -> Listing:
        found = {**resource.filters(self.attributes), **self.filters}
        return Listing(self.record.table, sort_keys=resource.sort_keys(self.attributes), filters=found)

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named for the methods of Resource that answer them."""
        title = self.plural.capitalize()
        routes = Routes(title)
        several = f"{self.parent}/{self.plural}"
        one = f"{several}/<{self.name}_id>"

        def add(method: str, path: str, handler: str, summary: str, **options: Any) -> None:
            rule = f"instance_ha:{self.plural}:{handler}"
            options |= {"since": self.span.since, "until": self.span.until, "summary": summary}
            routes.operations.append(Operation(title, method, path, handler, rule, **options))

        add("GET", several, "list", f"List {self.plural}.", query=tuple(self.listing.filters))
        if self.create:
            body = Body(resource.body(f"Create {self.name}", self.attributes), self.name)
            add("POST", several, "create", f"Make {self.noun}.", body=body, status=201)
        add("GET", one, "show", f"Show {self.noun}.")
        if self.change:
            body = Body(resource.body(f"Update {self.name}", self.attributes, update=True), self.name)
            add("PUT", one, "update", f"Change {self.noun}.", body=body)
        if self.remove:
            add("DELETE", one, "delete", f"Delete {self.noun}.", status=204)
        return routes


@frozen
class Resource(Generic[R]):
    """The Operations of one declared resource; `routes` says which."""

    db: Database
    declared: Declared[R]

    @property
    def routes(self) -> Routes:
        return self.declared.routes

    async def list(self, call: Call, **path: str) -> Json:
        return await self.db.scan(self._page, call, path)

    def _page(self, conn: Connection, call: Call, path: Path) -> Json:
        known, scope = self.declared.listing, self.declared.scope(conn, path)
        asked = listing.paging(call, Limits())
        page = listing.page(conn, known, asked, *scope, *listing.conditions(known, call))
        return {self.declared.plural: resource.views(conn, call, self.declared.attributes, page.rows)}

    async def create(self, call: Call, body: Any, **path: str) -> Json:
        return await self.db.run(self._create, call, path, given(body))

    def _create(self, conn: Connection, call: Call, path: Path, values: Json) -> Json:
        return self._answer(conn, call, resource.offered(self.declared.create)(conn, call, path, values))

    async def show(self, call: Call, **path: str) -> Json:
        return await self.db.read(self._show, call, path)

    def _show(self, conn: Connection, call: Call, path: Path) -> Json:
        return self._answer(conn, call, self.declared.get(conn, path))

    async def update(self, call: Call, body: Any, **path: str) -> Json:
        return await self.db.run(self._update, call, path, given(body))

    def _update(self, conn: Connection, call: Call, path: Path, changes: Json) -> Json:
        record = self.declared.get(conn, path)
        if not changes:
            raise Invalid(f"A change of {self.declared.noun} needs at least one attribute.")
        return self._answer(conn, call, resource.offered(self.declared.change)(conn, call, record, changes))

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(self._delete, path)

    def _delete(self, conn: Connection, path: Path) -> None:
        resource.offered(self.declared.remove)(conn, self.declared.get(conn, path))

    def _answer(self, conn: Connection, call: Call, record: R) -> Json:
        shown = (*self.declared.attributes, *self.declared.later)
        return {self.declared.name: resource.views(conn, call, shown, [record])[0]}


# -- what all resources have


def times(record: Any) -> tuple[Attribute, ...]:
    """Deleted records are never shown, but clients look for the fields that say so."""
    return (
        moment("created_at", record.created_at, sort=True),
        moment("updated_at", record.updated_at, sort=func.coalesce(record.updated_at, LONG_AGO)),
        Attribute("deleted_at", view=always(None)),
        Attribute("deleted", view=always(False)),
    )


def moment(name: str, column: Column[Any], **options: Any) -> Attribute:
    return Attribute(name, column, view=of_each(lambda each: micros(getattr(each, column.key))), **options)


def one_of(*words: str) -> Callable[[Column[Any]], Filter]:
    """Equal to one of these words; any other is refused."""

    def make(column: Column[Any]) -> Filter:
        def test(values: Sequence[str]) -> Condition:
            if values[-1] not in words:
                raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter: it is one of {', '.join(words)}.")
            return column == values[-1]

        return test

    return make
