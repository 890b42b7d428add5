"""Records that belong to one record of another resource, declared as `resource` declares that one.

    CONNTRACK_HELPERS = Children(
        name="conntrack_helper", record=ConntrackHelper, path="/routers/<router_id>/conntrack_helpers",
        parent_id="router_id", parent=routers.visible, belongs=ConntrackHelper.router_id, key=ConntrackHelper.id,
        attributes=(…), not_found=…, create=create, change=change, remove=remove)

    Resource(db, CONNTRACK_HELPERS)        # as in `rest.declared`

Callers who may change the parent record may change its children; the parent is locked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from attrs import Factory, evolve, field, frozen
from sqlalchemy import Column, select

from cloudctl.db import Connection
from cloudctl.db.records import Record
from cloudctl.errors import NotFound
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json, check_owner
from cloudctl.network.api.resource import VERBS
from cloudctl.network.tables import Standard
from cloudctl.rest import resource
from cloudctl.rest.body import given
from cloudctl.rest.call import Call
from cloudctl.rest.declared import Described, Path, Resource
from cloudctl.rest.listing import Listing
from cloudctl.rest.route import Operation

P = TypeVar("P", bound=Standard)
R = TypeVar("R", bound=Record)

# They are made one by one.
ONE_BY_ONE = [
    evolve(each, several=False, summary="Create {noun}.") if each.name == "create" else each for each in VERBS
]


@frozen(kw_only=True, eq=False)
class Children(Described[R], Generic[P, R]):
    """Records that each belong to one parent.

    `belongs` is the column that names the parent, `key` the one that identifies a record in paths. `parent(conn,
    caller, id, lock=…)` raises NotFound for the parent. `create(conn, call, parent, values)`, `change(conn, call,
    parent, record, changes)` and `remove(conn, call, parent, record)` get a locked parent.
    """

    parent_id: str  # in paths
    parent: Callable[..., P]
    belongs: Column[str]
    key: Column[str]
    not_found: Callable[[str], NotFound]
    create: Callable[[Connection, Call, P, dict[str, Any]], R] | None = None
    change: Callable[[Connection, Call, P, R, dict[str, Any]], R] | None = None
    remove: Callable[[Connection, Call, P, R], None] | None = None
    shows: bool = True  # whether one can be shown alone
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
    def operations(self) -> Sequence[Operation]:
        reading = {"pure": True}
        return self.offer(
            ONE_BY_ONE,
            lambda verb: f"network:{self.rules}:{'show' if verb in ('list', 'show') else 'change'}",
            {"show": self.shows, "create": self.create, "update": self.change, "delete": self.remove},
            list=reading,
            show=reading,
        )

    def get(self, conn: Connection, parent: P, key: str) -> R:
        """Raises NotFound."""
        found = conn.execute(select(self.record).where(self.belongs == parent.id, self.key == key)).first()
        if found is None:
            raise self.not_found(key)
        return found

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        resource.require_filters(call, self.attributes)
        return await mounted.db.scan(self._list, call, path)

    def _list(self, conn: Connection, call: Call, path: Path) -> Json:
        page = lists.fetch(conn, call, self.collection, self.belongs == self._parent(conn, call, path).id)
        return lists.answer(call, self.collection, page, self.views(conn, call, page.rows))

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        values = given(body)
        check_owner(call.caller, values)
        parent = self.changeable(conn, call, path)
        return self._one(conn, call, resource.offered(self.create)(conn, call, parent, values))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        record = self.get(conn, self._parent(conn, call, path), path[self.id])
        return {self.name: lists.narrowed(call, self.views(conn, call, [record])[0])}

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        parent, changes = self.changeable(conn, call, path), given(body)
        record = self.get(conn, parent, path[self.id])
        if changes:
            record = resource.offered(self.change)(conn, call, parent, record, changes)
        return self._one(conn, call, record)

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        parent = self.changeable(conn, call, path)
        resource.offered(self.remove)(conn, call, parent, self.get(conn, parent, path[self.id]))

    def changeable(self, conn: Connection, call: Call, path: Path) -> P:
        """The parent, locked, if the caller may change its children."""
        parent = self._parent(conn, call, path, lock=True)
        call.require(project_id=parent.project_id)
        return parent

    def _parent(self, conn: Connection, call: Call, path: Path, *, lock: bool = False) -> P:
        return self.parent(conn, call.caller, path[self.parent_id], lock=lock)

    def _one(self, conn: Connection, call: Call, record: R) -> Json:
        return {self.name: self.views(conn, call, [record])[0]}
