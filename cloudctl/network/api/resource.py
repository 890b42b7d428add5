"""Declared resources of the networking API. Reference: network.md, section 1.

    SECURITY_GROUPS = Declared(
        name="security_group", record=SecurityGroup, path="/security-groups",
        attributes=(Attribute("name", SecurityGroup.name, Text, post="", put=True), …, *standard(SecurityGroup)),
        visible=security_groups.visible, create=create, change=change, remove=remove, …)

    Resource(db, SECURITY_GROUPS)        # as in `rest.declared`

All have in common many at once, tags, `fields`, If-Match, links of pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import orjson
from attrs import Factory, evolve, field, frozen
from sqlalchemy import Column, Select, bindparam, false, select
from zope.interface import Interface

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json, enveloped, listed, owner_named
from cloudctl.network.api.matching import check_match
from cloudctl.network.standard import batches
from cloudctl.network.tables import Standard
from cloudctl.rest import listing, resource
from cloudctl.rest.body import given
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.caller import Caller
from cloudctl.rest.declared import ONE, SEVERAL, Described, Path, Resource, Verb
from cloudctl.rest.listing import Condition, Filter, Listing, Page, Paging
from cloudctl.rest.pages import Pages
from cloudctl.rest.rendered import Rendered
from cloudctl.rest.route import Operation

R = TypeVar("R", bound=Standard)
Item = Json | orjson.Fragment

VERBS = (
    Verb("list", "GET", SEVERAL, "List {several}."),
    Verb("create", "POST", SEVERAL, "Create {noun}, or several at once.", status=201, several=True),
    Verb("show", "GET", ONE, "Show {noun}."),
    Verb("update", "PUT", ONE, "Change {noun}."),
    Verb("delete", "DELETE", ONE, "Delete {noun}.", status=204),
)


@frozen
class Wanted:
    """One body of a create: `owner` is the project that it names, if any; `values` are the other attributes."""

    owner: str | None
    values: dict[str, Any]
    tags: Sequence[str] = ()


def _require_owner(call: Call, record: Standard) -> None:
    call.require(project_id=record.project_id)


@frozen(kw_only=True, eq=False)
class Declared(Described[R]):
    """A resource. Its functions raise what the domain raises.

    `visible(conn, caller, id, lock=…)` raises NotFound. `create(conn, call, owner, values)` makes one record for the
    project that the body names, if any; `create_all` makes those of one request, where they depend on each other.
    `check` runs before the revision is compared: it refuses changes, or converts them to what the domain takes;
    `locks_first`: it takes the locks that must precede the record's. `change` and `remove` get a locked record.
    `to_change(conn, caller, id)`, `to_remove`: `visible` where other locks are taken before the record's.
    `may_remove` decides who may delete. `before_list` makes what a list creates.
    """

    visible: Callable[..., R]
    visible_to: Callable[[Connection, Caller], Condition]
    not_found: Callable[[str], NotFound]
    create: Callable[[Connection, Call, str | None, dict[str, Any]], R] | None = None
    create_all: Callable[[Connection, Call, Sequence[Wanted]], Sequence[R]] | None = None
    check: Callable[[Connection, Call, R, dict[str, Any]], dict[str, Any]] | None = None
    locks_first: bool = False
    to_change: Callable[[Connection, Caller, str], R] | None = None
    change: Callable[[Connection, Call, R, dict[str, Any]], R] | None = None
    to_remove: Callable[[Connection, Caller, str], R] | None = None
    may_remove: Callable[[Call, R], None] = _require_owner
    remove: Callable[[Connection, Call, R], None] | None = None
    before_list: Callable[[Database, Call], Awaitable[None]] | None = None
    filters: Mapping[str, Filter] = field(factory=dict)  # that belong to no attribute
    of_caller: Mapping[str, Callable[[Caller], Filter]] = field(factory=dict)  # that depend on the caller
    rules: str = field(default=Factory(lambda self: self.plural, takes_self=True))  # network:RULES:create
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
    def operations(self) -> Sequence[Operation]:
        reading, changing = {"pure": self.pure}, {"sight": self.sight}
        return self.offer(
            VERBS,
            lambda verb: f"network:{self.rules}:{verb}",
            {"create": self.create or self.create_all, "update": self.change, "delete": self.remove},
            list=reading,
            show=reading,
            update=changing,
            delete=changing,
        )

    # -- lists

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json | Reply:
        db, rendered = mounted.db, mounted.rendered
        if self.before_list is not None and self._sees(call):
            await self.before_list(db, call)
        wanted = lists.asked(call, self.collection)
        if wanted.limit is not None or wanted.reverse:
            return await db.scan(self._list, call, wanted, rendered)
        first, rest = await db.scan(self._piece, call, evolve(wanted, limit=lists.PAGE), rendered)
        if rest is None:
            return {self.plural: first}

        async def following() -> Sequence[Item]:
            nonlocal rest
            if rest is None:
                return ()
            views, rest = await db.scan(self._piece, call, rest, rendered)
            return views

        return Reply(Pages(self.plural, first, following))

    def _list(self, conn: Connection, call: Call, wanted: Paging, rendered: Rendered) -> Json:
        page = self._page(conn, call, wanted)
        return lists.answer(call, self.collection, page, self._items(conn, call, page.rows, rendered))

    def _piece(
        self, conn: Connection, call: Call, wanted: Paging, rendered: Rendered
    ) -> tuple[Sequence[Item], Paging | None]:
        """A piece of a whole list, and the paging for the next one, if there is one."""
        page = self._page(conn, call, wanted)
        views = [lists.narrowed(call, view) for view in self._items(conn, call, page.rows, rendered)]
        if not page.more:
            return views, None
        return views, listing.following(conn, self.collection.listing, wanted, page.rows[-1].id)

    def _page(self, conn: Connection, call: Call, wanted: Paging) -> Page:
        sees = self._sees(call) and resource.may_filter(call, self.attributes)
        visible = self.visible_to(conn, call.caller) if sees else false()
        return lists.fetch(conn, call, self.collection, visible, paging=wanted)

    def _sees(self, call: Call) -> bool:
        return self.sight is None or call.may(self.sight)

    def _items(self, conn: Connection, call: Call, rows: Sequence[Any], rendered: Rendered) -> Sequence[Item]:
        """What a page shows, given its records, or their ids and editions."""
        if self.edition is None:
            return self.views(conn, call, rows)

        def render(ids: Sequence[str]) -> dict[str, Json]:
            records = [record for some in batches(ids) for record in conn.execute(self.by_ids, {"wanted": list(some)})]
            shown = self.views(conn, call, records)
            return {record.id: view for record, view in zip(records, shown, strict=True)}

        editions = dict(rows)
        if lists.fields(call):
            views = render(list(editions))
            return [views[id] for id in editions if id in views]
        return rendered.shown(conn, resource.passed(call, self.attributes), editions, render)

    # -- single records, or several new ones

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        wanted = [_wanted(each) for each in listed(body)]
        unasked = self.unasked(wanted)  # before a maker takes something out of what is wanted
        if self.create_all is not None:
            records = self.create_all(conn, call, wanted)
        else:
            create, records = resource.offered(self.create), []
            for each in wanted:
                records.append(create(conn, call, each.owner, each.values))
                if each.tags:
                    tags.replace(conn, records[-1].id, each.tags)
        return enveloped(body, self.name, self.plural, self.views(conn, call, records, unasked))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        if not self._sees(call):
            raise self.not_found(path[self.id])
        record = self.visible(conn, call.caller, path[self.id])
        return {self.name: lists.narrowed(call, self.views(conn, call, [record])[0])}

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        record = self.alter(conn, call, path[self.id], given(body))
        return {self.name: self.views(conn, call, [record])[0]}

    def alter(self, conn: Connection, call: Call, id: str, changes: dict[str, Any]) -> R:
        """The record, changed. Raises NotFound, Forbidden, and that its revision is another one."""
        if self.to_change is not None:
            record = self.to_change(conn, call.caller, id)
        else:
            record = self.visible(conn, call.caller, id, lock=not self.locks_first)
        _require_owner(call, record)
        if self.check is not None:
            changes = self.check(conn, call, record, changes)
        if self.locks_first:
            record = self.visible(conn, call.caller, id, lock=True)
        check_match(call, record)
        return resource.offered(self.change)(conn, call, record, changes) if changes else record

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        if self.to_remove is not None:
            record = self.to_remove(conn, call.caller, path[self.id])
        else:
            record = self.visible(conn, call.caller, path[self.id], lock=True)
        self.may_remove(call, record)
        check_match(call, record)
        resource.offered(self.remove)(conn, call, record)


def _standard_filters(declared: Declared[Any]) -> dict[str, Filter]:
    """The filters that come with the standard attributes that a resource shows."""
    shown, c = {each.name for each in declared.attributes}, declared.record.table.c
    found = {"changed_since": lists.since(c.updated_at)} if "updated_at" in shown else {}
    return found | (tags.filters(c.id) if "tags" in shown else {})


def _wanted(body: Any) -> Wanted:
    values = given(body)
    named = owner_named(values)
    return Wanted(named, values, values.pop("tags", ()))
