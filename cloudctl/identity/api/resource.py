"""The Operations of a plain record of identity, from its declaration. Reference: identity.md, section 1.

    POLICIES = Declared(
        name="policy", plural="policies", record=PolicyBlob,
        attributes=(Attribute("type", PolicyBlob.type, Name, post=REQUIRED, put=True, filter=equals), …),
        create=create, change=change, remove=remove)

    Resource(db, POLICIES)        # what `ApiApp` mounts

An Operation whose function is missing is not offered. Rules are those of the API: identity:list_policies, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import attrs
from attrs import Factory, evolve, field, frozen

from cloudctl.db import Connection, Database, Record
from cloudctl.identity import records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import changes
from cloudctl.identity.records import check_id
from cloudctl.rest import resource
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Filter, Listing
from cloudctl.rest.resource import Attribute, Attributes, Json, View
from cloudctl.rest.route import Operation, Routes

R = TypeVar("R", bound=Record)


def linked(*path: str) -> Attribute:
    """The attribute `links` of records below a path."""

    def view(conn: Connection, call: Call, found: Sequence[Any]) -> Iterable[Any]:
        return [link(call, *path, record.id) for record in found]

    return Attribute("links", view=view)


def _all(call: Call) -> Sequence[Condition]:
    return ()


def _anybody(call: Call, record: Any) -> None:
    pass


@frozen(kw_only=True, eq=False)
class Declared(Generic[R]):
    """A resource. Its functions raise what the domain raises.

    `named`: it is created by PUT, under the id that the client chose. `extra`: clients may store attributes of their
    own. `visible`: which records a list shows to the caller. `check_visible(call, record)` raises the answer for a
    caller who may not see a single record; it is called with None if there is no such record. `says`: the summaries in
    docs/api.md of the Operations that need more than their name.
    """

    name: str
    record: type[R]
    attributes: Attributes
    create: Callable[[Connection, Call, Json], R] | None = None
    change: Callable[[Connection, Call, str, Json], R] | None = None
    remove: Callable[[Connection, Call, str], None] | None = None
    filters: Mapping[str, Filter] = field(factory=dict)  # that belong to no attribute
    visible: Callable[[Call], Sequence[Condition]] = _all
    check_visible: Callable[[Call, R | None], None] = _anybody
    extra: bool = True
    named: bool = False
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    path: str = field(default=Factory(lambda self: f"/{self.plural}", takes_self=True))
    id: str = field(default=Factory(lambda self: f"{self.name}_id", takes_self=True))  # in paths
    noun: str = field(default=Factory(lambda self: self.name.replace("_", " "), takes_self=True))
    title: str = field(default=Factory(lambda self: self.plural.replace("_", " ").capitalize(), takes_self=True))
    says: Mapping[str, str] = field(factory=dict)

    @cached_property
    def listing(self) -> Listing:
        """Oldest first."""
        return Listing(
            self.record.table,
            sort_keys=resource.sort_keys(self.attributes),
            order=(("created_at", "asc"),),
            filters={**resource.filters(self.attributes), **self.filters},
        )

    def get(self, conn: Connection, id: str) -> R:
        """Raises NotFound."""
        return records.get(conn, self.record, id, self.noun)

    @cached_property
    def body(self) -> Body:
        """The body of a create."""
        return Body(self._body(f"Create {self.name}"), self.name)

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named for the methods of Resource that answer them."""
        one, noun = f"{self.path}/<{self.id}>", f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"
        routes = Routes(self.title)

        def add(method: str, path: str, handler: str, rule: str, summary: str, **options: Any) -> None:
            said = self.says.get(handler, summary)
            rule = f"identity:{rule}"
            routes.operations.append(Operation(self.title, method, path, handler, rule, summary=said, **options))

        query = tuple(self.listing.filters)
        add("GET", self.path, "list", f"list_{self.plural}", f"List {self.plural.replace('_', ' ')}", query=query)
        if self.create:
            method, path = ("PUT", one) if self.named else ("POST", self.path)
            add(method, path, "create", f"create_{self.name}", f"Create {noun}", status=201, body=self.body)
        add("GET", one, "show", f"get_{self.name}", f"Show {noun}")
        if self.change:
            body = Body(self._body(f"Update {self.name}", update=True), self.name)
            add("PATCH", one, "update", f"update_{self.name}", f"Change {noun}", body=body)
        if self.remove:
            add("DELETE", one, "delete", f"delete_{self.name}", f"Delete {noun}", status=204)
        return routes

    def _body(self, name: str, *, update: bool = False) -> type:
        made = resource.body(name, self.attributes, update=update)
        if not self.extra:
            return made
        own: Any = attrs.field(type=dict[str, Any], factory=dict, metadata={"extra": True})
        both: type = attrs.make_class(made.__name__, {"extra": own}, bases=(made,), frozen=True, kw_only=True)
        return both


def without_id(values: Json, id: str) -> Json:
    """A body may repeat the id of the path, but not have another one. Raises Invalid."""
    check_id(values, id)
    return {name: value for name, value in values.items() if name != "id"}


class Resource(Generic[R]):
    """The Operations of one declared resource; `routes` says which.

    `views`: those of attributes that depend on the cloud, by name.
    """

    def __init__(self, db: Database, declared: Declared[R], **views: View) -> None:
        self.db = db
        self.declared = declared
        self.routes = declared.routes
        self.attributes = [evolve(a, view=views[a.name]) if a.name in views else a for a in declared.attributes]

    async def list(self, call: Call) -> Json:
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        return self.page(conn, call, *self.declared.visible(call))

    def page(self, conn: Connection, call: Call, *where: Condition) -> Json:
        """The records that meet `where`, as a list shows them."""
        found = page(conn, call, self.declared.listing, *where)
        views = iter(self.views(conn, call, found.rows))
        return paged(call, self.declared.plural, found, lambda call, record: next(views))

    async def create(self, call: Call, body: Any, **path: str) -> Json:
        values = changes(body)
        if path:
            values = {**without_id(values, path[self.declared.id]), "id": path[self.declared.id]}
        return await self.db.run(self._create, call, values)

    def _create(self, conn: Connection, call: Call, values: Json) -> Json:
        # A copy, of which a maker may take things out: the transaction may be run again.
        return self._shown(conn, call, resource.offered(self.declared.create)(conn, call, dict(values)))

    async def show(self, call: Call, **path: str) -> Json:
        return await self.db.read(self._show, call, path[self.declared.id])

    def _show(self, conn: Connection, call: Call, id: str) -> Json:
        found = records.find(conn, self.declared.record, id)
        self.declared.check_visible(call, found)
        record = found if found is not None else self.declared.get(conn, id)
        return self._shown(conn, call, record)

    async def update(self, call: Call, body: Any, **path: str) -> Json:
        id = path[self.declared.id]
        if self.declared.extra:
            check_id(body.extra, id)
        return await self.db.run(self._update, call, id, without_id(changes(body), id))

    def _update(self, conn: Connection, call: Call, id: str, values: Json) -> Json:
        return self._shown(conn, call, resource.offered(self.declared.change)(conn, call, id, dict(values)))

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(resource.offered(self.declared.remove), call, path[self.declared.id])

    def _shown(self, conn: Connection, call: Call, record: R) -> Json:
        return {self.declared.name: self.views(conn, call, [record])[0]}

    def views(self, conn: Connection, call: Call, found: Sequence[R]) -> Sequence[Json]:
        """The client's own attributes never hide those that the API has."""
        views = resource.views(conn, call, self.attributes, found)
        if not self.declared.extra:
            return views
        own: Sequence[Any] = found
        return [{**record.extra, **view} for record, view in zip(own, views, strict=True)]
