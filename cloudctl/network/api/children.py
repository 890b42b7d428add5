"""The Operations of records that belong to one record of another resource, declared as `resource` declares that one.

    CONNTRACK_HELPERS = Children(
        "conntrack_helper", ConntrackHelper, of=routers, belongs=ConntrackHelper.router_id, key=ConntrackHelper.id,
        attributes=(…), not_found=…, create=create, change=change, remove=remove)

    ChildResource(db, CONNTRACK_HELPERS)        # what `ApiApp` mounts

Callers who may change the parent record may change its children; the parent is locked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from attrs import Factory, field, frozen
from sqlalchemy import Column, select

from cloudctl.db import Connection, Database
from cloudctl.db.records import Record
from cloudctl.errors import NotFound
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.tables import Standard
from cloudctl.rest import resource
from cloudctl.rest.body import Body, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Listing
from cloudctl.rest.resource import Attribute
from cloudctl.rest.route import Operation, Routes

P = TypeVar("P", bound=Standard)
R = TypeVar("R", bound=Record)


@frozen(kw_only=True, eq=False)
class Children(Generic[P, R]):
    """Records that each belong to one parent.

    `belongs` is the column that names the parent, `key` the one that identifies a record in paths. `parent(conn,
    caller, id, lock=…)` raises NotFound for the parent. `create(conn, call, parent, values)`, `change(conn, call,
    parent, record, changes)` and `remove(conn, call, parent, record)` get a locked parent. An Operation whose function
    is missing is not offered.
    """

    name: str
    record: type[R]
    under: str  # the path of parents
    parent_id: str  # in paths
    parent: Callable[..., P]
    belongs: Column[str]
    key: Column[str]
    attributes: Sequence[Attribute]
    not_found: Callable[[str], NotFound]
    create: Callable[[Connection, Call, P, dict[str, Any]], R] | None = None
    change: Callable[[Connection, Call, P, R, dict[str, Any]], R] | None = None
    remove: Callable[[Connection, Call, P, R], None] | None = None
    shows: bool = True  # whether one can be shown alone
    title: str = ""
    noun: str = field(default=Factory(lambda self: f"a {self.name.replace('_', ' ')}", takes_self=True))
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    path: str = field(default=Factory(lambda self: self.plural, takes_self=True))
    id: str = field(default=Factory(lambda self: f"{self.name}_id", takes_self=True))  # in paths
    rules: str = field(default=Factory(lambda self: self.plural, takes_self=True))  # network:RULES:show and :change

    @cached_property
    def collection(self) -> lists.Collection:
        described = Listing(
            self.record.table,
            sort_keys=resource.sort_keys(self.attributes),
            order=(),
            filters=resource.filters(self.attributes),
            marker=self.key,
        )
        return lists.Collection(self.plural, described, self.not_found)

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named after the methods of ChildResource that answer them."""
        title = self.title or self.plural.replace("_", " ").capitalize()
        routes = Routes(title)
        several = f"{self.under}/<{self.parent_id}>/{self.path}"
        one = f"{several}/<{self.id}>"

        def add(method: str, path: str, handler: str, rule: str, summary: str, **options: Any) -> None:
            rule = f"network:{self.rules}:{rule}"
            routes.operations.append(Operation(title, method, path, handler, rule, summary=summary, **options))

        add("GET", several, "list", "show", f"List {self.plural.replace('_', ' ')}.", pure=True)
        if self.create:
            body = Body(resource.body(f"Create {self.name}", self.attributes), self.name)
            add("POST", several, "create", "change", f"Create {self.noun}.", status=201, body=body)
        if self.shows:
            add("GET", one, "show", "show", f"Show {self.noun}.", pure=True)
        if self.change:
            body = Body(resource.body(f"Update {self.name}", self.attributes, update=True), self.name)
            add("PUT", one, "update", "change", f"Change {self.noun}.", body=body)
        if self.remove:
            add("DELETE", one, "delete", "change", f"Delete {self.noun}.", status=204)
        return routes

    def get(self, conn: Connection, parent: P, key: str) -> R:
        """Raises NotFound."""
        found = conn.execute(select(self.record).where(self.belongs == parent.id, self.key == key)).first()
        if found is None:
            raise self.not_found(key)
        return found


@frozen
class ChildResource(Generic[P, R]):
    """The Operations of declared children; `routes` lists them."""

    db: Database
    declared: Children[P, R]

    @property
    def routes(self) -> Routes:
        return self.declared.routes

    async def list(self, call: Call, **path: str) -> Json:
        resource.require_filters(call, self.declared.attributes)
        return await self.db.scan(self._list, call, path)

    def _list(self, conn: Connection, call: Call, path: dict[str, str]) -> Json:
        declared = self.declared
        parent = declared.parent(conn, call.caller, path[declared.parent_id])
        page = lists.fetch(conn, call, declared.collection, declared.belongs == parent.id)
        return lists.answer(call, declared.collection, page, self._views(conn, call, page.rows))

    async def create(self, call: Call, body: Any, **path: str) -> Json:
        return {self.declared.name: await self.db.run(self._create, call, path, given(body))}

    def _create(self, conn: Connection, call: Call, path: dict[str, str], values: dict[str, Any]) -> Json:
        parent = self.changeable(conn, call, path)
        return self._views(conn, call, [resource.offered(self.declared.create)(conn, call, parent, values)])[0]

    async def show(self, call: Call, **path: str) -> Json:
        return {self.declared.name: lists.narrowed(call, await self.db.read(self._show, call, path))}

    def _show(self, conn: Connection, call: Call, path: dict[str, str]) -> Json:
        declared = self.declared
        parent = declared.parent(conn, call.caller, path[declared.parent_id])
        return self._views(conn, call, [declared.get(conn, parent, path[declared.id])])[0]

    async def update(self, call: Call, body: Any, **path: str) -> Json:
        return {self.declared.name: await self.db.run(self._update, call, path, given(body))}

    def _update(self, conn: Connection, call: Call, path: dict[str, str], changes: dict[str, Any]) -> Json:
        declared = self.declared
        parent = self.changeable(conn, call, path)
        record = declared.get(conn, parent, path[declared.id])
        if changes:
            record = resource.offered(declared.change)(conn, call, parent, record, changes)
        return self._views(conn, call, [record])[0]

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(self._delete, call, path)

    def _delete(self, conn: Connection, call: Call, path: dict[str, str]) -> None:
        declared = self.declared
        parent = self.changeable(conn, call, path)
        resource.offered(declared.remove)(conn, call, parent, declared.get(conn, parent, path[declared.id]))

    def changeable(self, conn: Connection, call: Call, path: dict[str, str]) -> P:
        """The parent, locked, if the caller may change its children."""
        declared = self.declared
        parent = declared.parent(conn, call.caller, path[declared.parent_id], lock=True)
        call.require(project_id=parent.project_id)
        return parent

    def _views(self, conn: Connection, call: Call, rows: Sequence[R]) -> Sequence[Json]:
        return resource.views(conn, call, self.declared.attributes, rows)
