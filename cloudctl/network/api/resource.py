"""The Operations of a declared resource, as the networking API has them. Reference: network.md, section 1.

    SECURITY_GROUPS = Declared(
        "security_group", SecurityGroup, path="/security-groups",
        attributes=(Attribute("name", SecurityGroup.name, Text, post="", put=True), …, *standard(SecurityGroup)),
        visible=security_groups.visible, create=create, change=change, remove=remove, …)

    Resource(db, SECURITY_GROUPS)        # what `ApiApp` mounts

`Declared` holds what is specific to one resource; `Resource` what all have in common: many at once, tags, `fields`,
If-Match, links of pages. An Operation whose function is missing is not offered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import orjson
from attrs import Factory, evolve, field, frozen
from sqlalchemy import Column, Select, bindparam, false, select
from zope.interface import Interface

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json, Project, Tags, Text, enveloped, listed, owner_named
from cloudctl.network.api.matching import check_match
from cloudctl.network.standard import batches
from cloudctl.network.tables import Standard
from cloudctl.rest import listing, resource
from cloudctl.rest.body import MISSING, Body, given
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.caller import Caller
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import Condition, Filter, Listing, Page, Paging, any_of, number
from cloudctl.rest.pages import Pages
from cloudctl.rest.rendered import Rendered
from cloudctl.rest.resource import Attribute, of_each
from cloudctl.rest.route import Operation, Routes

R = TypeVar("R", bound=Standard)
Item = Json | orjson.Fragment


@frozen
class Wanted:
    """One body of a create: `owner` is the project that it names, if any; `values` are the other attributes."""

    owner: str | None
    values: dict[str, Any]
    tags: Sequence[str] = ()


def _require_owner(call: Call, record: Standard) -> None:
    call.require(project_id=record.project_id)


@frozen(kw_only=True, eq=False)
class Declared(Generic[R]):
    """A resource. Its functions raise what the domain raises.

    `visible(conn, caller, id, lock=…)` raises NotFound. `create(conn, call, owner, values)` makes one record for the
    project that the body names, if any; `create_all` makes those of one request, where they depend on each other.
    `check` runs before the revision is compared: it refuses changes, or converts them to what the domain takes;
    `locks_first`: it takes the locks that must precede the record's. `change` and `remove` get a locked record.
    `to_remove(conn, caller, id)`: `visible` for a deletion that takes other locks before the record's.
    `may_remove` decides who may delete. `before_list` makes what a list creates. `says`: summaries in docs/api.md for
    the Operations whose name does not suffice.
    """

    name: str
    record: type[R]
    attributes: Sequence[Attribute]
    visible: Callable[..., R]
    visible_to: Callable[[Connection, Caller], Condition]
    not_found: Callable[[str], NotFound]
    create: Callable[[Connection, Call, str | None, dict[str, Any]], R] | None = None
    create_all: Callable[[Connection, Call, Sequence[Wanted]], Sequence[R]] | None = None
    check: Callable[[Connection, Call, R, dict[str, Any]], dict[str, Any]] | None = None
    locks_first: bool = False
    change: Callable[[Connection, Call, R, dict[str, Any]], R] | None = None
    to_remove: Callable[[Connection, Caller, str], R] | None = None
    may_remove: Callable[[Call, R], None] = _require_owner
    remove: Callable[[Connection, Call, R], None] | None = None
    before_list: Callable[[Database, Call], Awaitable[None]] | None = None
    filters: Mapping[str, Filter] = field(factory=dict)  # that belong to no attribute
    of_caller: Mapping[str, Callable[[Caller], Filter]] = field(factory=dict)  # that depend on the caller
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))
    path: str = field(default=Factory(lambda self: f"/{self.plural}", takes_self=True))
    id: str = field(default=Factory(lambda self: f"{self.name}_id", takes_self=True))  # in paths
    rules: str = field(default=Factory(lambda self: self.plural, takes_self=True))  # network:RULES:create
    title: str = field(default=Factory(lambda self: self.plural.replace("_", " ").capitalize(), takes_self=True))
    noun: str = field(default=Factory(lambda self: f"a {self.name.replace('_', ' ')}", takes_self=True))
    says: Mapping[str, str] = field(factory=dict)
    pure: bool = True
    needs: type[Interface] | None = None  # what the driver must be capable of
    # A rule for operators: callers who do not pass it get empty lists, and every id is not found.
    sight: str | None = None
    # A column that changes whenever what is shown of the record changes: then pages are cached as JSON.
    edition: Column[int] | None = None

    def of(self, driver: Any) -> Declared[R]:
        """The same with the attributes that this driver supports."""
        left = [each for each in self.attributes if each.needs is None or each.needs.providedBy(driver)]
        return self if len(left) == len(self.attributes) else evolve(self, attributes=left)

    @cached_property
    def collection(self) -> lists.Collection:
        """How the records are listed. No order is promised; that of the id, the first attribute, is the cheapest."""
        table = self.record.table
        described = Listing(
            table,
            columns=() if self.edition is None else (table.c.id, self.edition),
            sort_keys=resource.sort_keys(self.attributes),
            order=((self.attributes[0].name, "asc"),),
            filters={**resource.filters(self.attributes), **_standard_filters(self), **self.filters},
            in_ways=True,
        )
        return lists.Collection(self.plural, described, self.not_found, self.of_caller)

    @cached_property
    def _known(self) -> Sequence[tuple[str, str]]:
        """Names and fields of the attributes of which it is known what a new record shows."""
        return [(each.name, each.field) for each in self.attributes if each.at_first is not resource.READ]

    def unasked(self, wanted: Sequence[Wanted]) -> Collection[str]:
        """The names of those that these bodies ask nothing of."""
        return [
            name
            for name, field in self._known
            if not any(each.tags if name == "tags" else each.values.get(field) for each in wanted)
        ]

    @cached_property
    def by_ids(self) -> Select[R]:
        # Built once: building a statement costs more than running it.
        return select(self.record).where(self.record.id.in_(bindparam("wanted", expanding=True)))

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named after the methods of Resource that answer them."""
        name, attributes, one = self.name, self.attributes, f"{self.path}/<{self.id}>"
        routes = Routes(self.title)

        def add(method: str, path: str, handler: str, summary: str, **options: Any) -> None:
            rule, said = f"network:{self.rules}:{handler}", self.says.get(handler, summary)
            routes.operations.append(Operation(self.title, method, path, handler, rule, summary=said, **options))

        add("GET", self.path, "list", f"List {self.plural.replace('_', ' ')}.", pure=self.pure)
        if self.create or self.create_all:
            body = Body(resource.body(f"Create {name}", attributes), name, self.plural)
            add("POST", self.path, "create", f"Create {self.noun}, or several at once.", status=201, body=body)
        add("GET", one, "show", f"Show {self.noun}.", pure=self.pure)
        if self.change:
            body = Body(resource.body(f"Update {name}", attributes, update=True), name)
            add("PUT", one, "update", f"Change {self.noun}.", body=body, sight=self.sight)
        if self.remove:
            add("DELETE", one, "delete", f"Delete {self.noun}.", status=204, sight=self.sight)
        return routes


def _standard_filters(declared: Declared[Any]) -> dict[str, Filter]:
    """The filters that come with the standard attributes that a resource shows."""
    shown, c = {each.name for each in declared.attributes}, declared.record.table.c
    found = {"changed_since": lists.since(c.updated_at)} if "updated_at" in shown else {}
    return found | (tags.filters(c.id) if "tags" in shown else {})


def owners(record: type[Standard]) -> tuple[Attribute, ...]:
    """The project that owns a record, under both names."""
    c = record
    return (
        Attribute("project_id", c.project_id, Project, post=MISSING, filter=any_of, sort=True),
        Attribute("tenant_id", c.project_id, Project, post=MISSING, filter=any_of, sort=True, named="tenant_id"),
    )


def standard(
    record: type[Standard], *, description: Any = Text, changeable: bool = True, tagged: bool = True
) -> tuple[Attribute, ...]:
    """The attributes of every record. `create` gets the `description` together with the resource's own attributes.

    `description`: its type in bodies. `changeable`: there is a PUT. `tagged`: a create body may have tags.
    """
    c = record
    return (
        *owners(record),
        Attribute("description", c.description, description, post="", put=changeable, filter=any_of, sort=True),
        Attribute(
            "created_at", c.created_at, filter=lists.times, sort=True, view=of_each(lambda r: zulu(r.created_at))
        ),
        Attribute(
            "updated_at", c.updated_at, filter=lists.times, sort=True, view=of_each(lambda r: zulu(r.updated_at))
        ),
        Attribute("revision_number", c.revision, filter=number, sort=True),
        Attribute("tags", None, Tags, post=MISSING if tagged else resource.REFUSED, view=_tags, at_first=()),
    )


def _tags(conn: Connection, call: Call, records: Sequence[Any]) -> list[list[str]]:
    found = tags.of(conn, [record.id for record in records])
    return [found.get(record.id, []) for record in records]


@frozen
class Resource(Generic[R]):
    """The Operations of one declared resource; `routes` lists them."""

    db: Database
    declared: Declared[R]
    rendered: Rendered = field(factory=Rendered, init=False)

    @property
    def routes(self) -> Routes:
        return self.declared.routes

    async def list(self, call: Call) -> Json | Reply:
        if self.declared.before_list is not None and self._sees(call):
            await self.declared.before_list(self.db, call)
        wanted = lists.asked(call, self.declared.collection)
        if wanted.limit is not None or wanted.reverse:
            return await self.db.scan(self._list, call, wanted)
        first, rest = await self.db.scan(self._piece, call, evolve(wanted, limit=lists.PAGE))
        if rest is None:
            return {self.declared.plural: first}

        async def following() -> Sequence[Item]:
            nonlocal rest
            if rest is None:
                return ()
            views, rest = await self.db.scan(self._piece, call, rest)
            return views

        return Reply(Pages(self.declared.plural, first, following))

    def _list(self, conn: Connection, call: Call, wanted: Paging) -> Json:
        page = self._page(conn, call, wanted)
        return lists.answer(call, self.declared.collection, page, self._shown(conn, call, page.rows))

    def _piece(self, conn: Connection, call: Call, wanted: Paging) -> tuple[Sequence[Item], Paging | None]:
        """A piece of a whole list, and the paging for the next one, if there is one."""
        page = self._page(conn, call, wanted)
        views = [lists.narrowed(call, view) for view in self._shown(conn, call, page.rows)]
        if not page.more:
            return views, None
        return views, listing.following(conn, self.declared.collection.listing, wanted, page.rows[-1].id)

    def _page(self, conn: Connection, call: Call, wanted: Paging) -> Page:
        declared = self.declared
        sees = self._sees(call) and resource.may_filter(call, declared.attributes)
        visible = declared.visible_to(conn, call.caller) if sees else false()
        return lists.fetch(conn, call, declared.collection, visible, paging=wanted)

    def _sees(self, call: Call) -> bool:
        return self.declared.sight is None or call.may(self.declared.sight)

    def _shown(self, conn: Connection, call: Call, rows: Sequence[Any]) -> Sequence[Item]:
        """What a page shows, given its records, or their ids and editions."""
        declared = self.declared
        if declared.edition is None:
            return self.views(conn, call, rows)

        def render(ids: Sequence[str]) -> dict[str, Json]:
            records = [
                record for some in batches(ids) for record in conn.execute(declared.by_ids, {"wanted": list(some)})
            ]
            shown = self.views(conn, call, records)
            return {record.id: view for record, view in zip(records, shown, strict=True)}

        editions = dict(rows)
        if "fields" in call.query:
            views = render(list(editions))
            return [views[id] for id in editions]
        return self.rendered.shown(conn, resource.passed(call, declared.attributes), editions, render)

    async def create(self, call: Call, body: Any) -> Json:
        views = await self.db.run(self._create, call, [_wanted(each) for each in listed(body)])
        return enveloped(body, self.declared.name, self.declared.plural, views)

    def _create(self, conn: Connection, call: Call, wanted: Sequence[Wanted]) -> Sequence[Json]:
        unasked = self.declared.unasked(wanted)
        if self.declared.create_all is not None:
            return self.views(conn, call, self.declared.create_all(conn, call, wanted), unasked)
        create = resource.offered(self.declared.create)
        records = []
        for each in wanted:
            # A copy, of which a maker may take things out: the transaction may be run again.
            record = create(conn, call, each.owner, dict(each.values))
            if each.tags:
                tags.replace(conn, record.id, each.tags)
            records.append(record)
        return self.views(conn, call, records, unasked)

    async def show(self, call: Call, **path: str) -> Json:
        found = await self.db.read(self._show, call, path[self.declared.id])
        return {self.declared.name: lists.narrowed(call, found)}

    def _show(self, conn: Connection, call: Call, id: str) -> Json:
        if not self._sees(call):
            raise self.declared.not_found(id)
        return self.views(conn, call, [self.declared.visible(conn, call.caller, id)])[0]

    async def update(self, call: Call, body: Any, **path: str) -> Json:
        return {self.declared.name: await self.db.run(self._update, call, path[self.declared.id], given(body))}

    def _update(self, conn: Connection, call: Call, id: str, changes: dict[str, Any]) -> Json:
        declared = self.declared
        changes = dict(changes)  # as above
        record = declared.visible(conn, call.caller, id, lock=not declared.locks_first)
        _require_owner(call, record)
        if declared.check is not None:
            changes = declared.check(conn, call, record, changes)
        if declared.locks_first:
            record = declared.visible(conn, call.caller, id, lock=True)
        check_match(call, record)
        if changes:
            record = resource.offered(declared.change)(conn, call, record, changes)
        return self.views(conn, call, [record])[0]

    async def delete(self, call: Call, **path: str) -> None:
        await self.db.run(self._delete, call, path[self.declared.id])

    def _delete(self, conn: Connection, call: Call, id: str) -> None:
        declared = self.declared
        if declared.to_remove is not None:
            record = declared.to_remove(conn, call.caller, id)
        else:
            record = declared.visible(conn, call.caller, id, lock=True)
        declared.may_remove(call, record)
        check_match(call, record)
        resource.offered(declared.remove)(conn, call, record)

    def views(
        self, conn: Connection, call: Call, records: Sequence[R], unasked: Collection[str] = ()
    ) -> Sequence[Json]:
        return resource.views(conn, call, self.declared.attributes, records, unasked)


def _wanted(body: Any) -> Wanted:
    values = given(body)
    named = owner_named(values.pop("tenant_id", MISSING), values.pop("project_id", MISSING))
    return Wanted(named, values, values.pop("tags", ()))
