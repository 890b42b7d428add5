"""Declared resources of the block storage API. Reference: volume.md, section 1.

    MESSAGES = Declared(
        name="message", record=Message, span=since(3, 3),
        attributes=(Attribute("event_id", Message.event_id, filter=lists.exact, sort=True), …),
        visible=…, not_found=messages.not_found, remove=…)

    Resource(db, MESSAGES)        # as in `rest.declared`

All have in common envelopes, `detail`, pages, filters, microversions. Further Operations are in a separate class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from attrs import Factory, field, frozen
from sqlalchemy import func

from cloudctl.db import Connection
from cloudctl.db.records import Record
from cloudctl.errors import NotFound
from cloudctl.rest import resource
from cloudctl.rest.body import given
from cloudctl.rest.call import Call
from cloudctl.rest.declared import ONE, SEVERAL, Described, Path, Resource, Verb
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Listing, Page
from cloudctl.rest.resource import Attribute, Json, of_each
from cloudctl.rest.route import Operation
from cloudctl.volume.api import links, lists
from cloudctl.volume.api.lists import By

R = TypeVar("R", bound=Record)

DETAIL = "/detail"
VERBS = (
    Verb("list", "GET", SEVERAL, "List {several}."),
    Verb("details", "GET", SEVERAL + DETAIL, "List {several} with all their fields.", handler="list"),
    Verb("create", "POST", SEVERAL, "Make {noun}.", status=202),
    Verb("show", "GET", ONE, "Show {noun}."),
    Verb("update", "PUT", ONE, "Change {noun}."),
    Verb("delete", "DELETE", ONE, "Delete {noun}.", status=202),
)


@frozen
class Made(Generic[R]):
    """A new record, and what only its creator is told."""

    record: R
    told: Json


@frozen(kw_only=True, eq=False)
class Declared(Described[R]):
    """A resource. Its functions raise what the domain raises.

    `create(conn, call, values)`, `change(conn, call, record, changes)` and `remove(conn, call, record)` get the record
    that `visible` finds. `scope` limits a caller's list; without it the project decides. `shows`: Operation → the
    attributes in its answer, unless it shows all; an empty one has no body. A list that does not show all also has
    `/detail`. `rules`: Operation → its rule, if that is not its own name; `status` and `query` likewise.
    """

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
    ruled: str = field(default=Factory(lambda self: self.plural, takes_self=True))  # volume:RULED:create
    links: str = field(default=Factory(lambda self: f"{self.plural}_links", takes_self=True))

    @cached_property
    def collection(self) -> lists.Collection:
        described = Listing(self.record.table, sort_keys=resource.sort_keys(self.attributes))
        found = None if self.filters is None else {**resource.filters(self.attributes), **self.filters}
        return lists.Collection(self.plural, described, found, self.not_found, self.scope, self.links)

    @cached_property
    def operations(self) -> Sequence[Operation]:
        filters = lists.names(self.collection.filters or {})
        query = {"list": filters, "details": filters, **self.query}
        options = {
            verb.name: {"query": query.get(verb.name, ()), "status": self.status.get(verb.name, verb.status)}
            for verb in VERBS
        }
        functions = {"create": self.create, "update": self.change, "delete": self.remove}
        return self.offer(VERBS, self._rule, {"details": "list" in self.shows, **functions}, **options)

    def _rule(self, verb: str) -> str:
        asked = "list" if verb == "details" else verb
        return f"volume:{self.ruled}:{self.rules.get(asked, asked)}"

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        return await mounted.db.scan(self._page, call)

    def _page(self, conn: Connection, call: Call) -> Json:
        resource.require_filters(call, self.attributes)
        page: Page
        page, total = self.collection.found(conn, call)
        views = self.seen_in("details" if call.path.endswith(DETAIL) else "list", conn, call, page.rows)
        return lists.answer(call, self.plural, views, page, total, self.links)

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json | None:
        made = resource.offered(self.create)(conn, call, given(body))
        if not isinstance(made, Made):
            return self.answer("create", conn, call, made)
        return {self.name: self.seen_in("create", conn, call, [made.record])[0] | made.told}

    def shown(self, conn: Connection, call: Call, path: Path) -> Json | None:
        return self.answer("show", conn, call, self.visible(conn, call, path[self.id]))

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json | None:
        record = self.visible(conn, call, path[self.id])
        return self.answer("update", conn, call, resource.offered(self.change)(conn, call, record, given(body)))

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        resource.offered(self.remove)(conn, call, self.visible(conn, call, path[self.id]))

    def answer(self, verb: str, conn: Connection, call: Call, record: Any) -> Json | None:
        """The answer of an Operation with one record."""
        if self.shows.get(verb) == ():
            return None
        beside = {"links": links.of(call, f"{self.path}/{record.id}")} if self.linked else {}
        return {self.name: self.seen_in(verb, conn, call, [record])[0], **beside}

    def seen_in(self, verb: str, conn: Connection, call: Call, records: Sequence[R]) -> list[Json]:
        """Records as an Operation shows them."""
        names = self.shows.get(verb)
        shown = self.attributes if names is None else [each for each in self.attributes if each.name in names]
        return resource.views(conn, call, shown, records)


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
