"""Declared resources of the identity API. Reference: identity.md, section 1.

    POLICIES = Declared(
        name="policy", plural="policies", record=PolicyBlob,
        attributes=(Attribute("type", PolicyBlob.type, Name, post=REQUIRED, put=True, filter=equals), …),
        create=create, change=change, remove=remove)

    Resource(db, POLICIES)        # as in `rest.declared`

Rules are those of the API: identity:list_policies, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from cloudctl.db import Connection, Record
from cloudctl.identity import records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import changes
from cloudctl.identity.records import check_id
from cloudctl.rest import resource
from cloudctl.rest.call import Call
from cloudctl.rest.declared import ONE, SEVERAL, Described, Path, Resource, Verb
from cloudctl.rest.listing import Condition, Filter, Listing
from cloudctl.rest.resource import Attribute, Json
from cloudctl.rest.route import Operation

R = TypeVar("R", bound=Record)

CREATE = Verb("create", "POST", SEVERAL, "Create {noun}", status=201)
OTHERS = (
    Verb("show", "GET", ONE, "Show {noun}"),
    Verb("update", "PATCH", ONE, "Change {noun}"),
    Verb("delete", "DELETE", ONE, "Delete {noun}", status=204),
)
LIST = Verb("list", "GET", SEVERAL, "List {several}")
VERBS = (LIST, CREATE, *OTHERS)
NAMED = (LIST, evolve(CREATE, method="PUT", path=ONE), *OTHERS)


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
class Declared(Described[R]):
    """A resource. Its functions raise what the domain raises.

    `named`: it is created by PUT, under the id that the client chose. `visible`: which records a list shows to the
    caller. `check_visible(call, record)` raises the answer for a caller who may not see a single record; it is called
    with None if there is no such record.
    """

    create: Callable[[Connection, Call, Json], R] | None = None
    change: Callable[[Connection, Call, str, Json], R] | None = None
    remove: Callable[[Connection, Call, str], None] | None = None
    filters: Mapping[str, Filter] = field(factory=dict)  # that belong to no attribute
    visible: Callable[[Call], Sequence[Condition]] = _all
    check_visible: Callable[[Call, R | None], None] = _anybody
    extra: bool = True
    named: bool = False

    @cached_property
    def listing(self) -> Listing:
        """Oldest first."""
        return Listing(
            self.record.table,
            sort_keys=resource.sort_keys(self.attributes),
            order=(("created_at", "asc"),),
            filters={**resource.filters(self.attributes), **self.filters},
        )

    @cached_property
    def operations(self) -> Sequence[Operation]:
        rules = {"list": f"list_{self.plural}", "show": f"get_{self.name}"}
        return self.offer(
            NAMED if self.named else VERBS,
            lambda verb: f"identity:{rules.get(verb, f'{verb}_{self.name}')}",
            {"create": self.create, "update": self.change, "delete": self.remove},
            list={"query": tuple(self.listing.filters)},
        )

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        return await mounted.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        return self.page(conn, call, *self.visible(call))

    def page(self, conn: Connection, call: Call, *where: Condition) -> Json:
        """The records that meet `where`, as a list shows them."""
        found = page(conn, call, self.listing, *where)
        views = iter(self.views(conn, call, found.rows))
        return paged(call, self.plural, found, lambda call, record: next(views))

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        values = changes(body)
        if path:
            values = {**without_id(values, path[self.id]), "id": path[self.id]}
        return self._one(conn, call, resource.offered(self.create)(conn, call, values))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        found = records.find(conn, self.record, path[self.id])
        self.check_visible(call, found)
        if found is None:
            raise records.not_found(self.kind, path[self.id])
        return self._one(conn, call, found)

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        id = path[self.id]
        if self.extra:
            check_id(body.extra, id)
        return self._one(conn, call, resource.offered(self.change)(conn, call, id, without_id(changes(body), id)))

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        resource.offered(self.remove)(conn, call, path[self.id])

    def _one(self, conn: Connection, call: Call, record: R) -> Json:
        return {self.name: self.views(conn, call, [record])[0]}


def without_id(values: Json, id: str) -> Json:
    """A body may repeat the id of the path, but not have another one. Raises Invalid."""
    check_id(values, id)
    return {name: value for name, value in values.items() if name != "id"}
