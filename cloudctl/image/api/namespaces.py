"""Namespaces of metadata definitions, and the resource types that they may be for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden
from cloudctl.image import definitions, namespaces
from cloudctl.image.api.definitions import (
    ASSOCIATIONS,
    LIMITS,
    NAMESPACES,
    OBJECTS,
    PAGING,
    PROPERTIES,
    TAGS,
    Declared,
    Name,
    Properties,
    Text,
    page_links,
    path_of,
    within,
)
from cloudctl.image.definitions import NewDefinitions
from cloudctl.image.namespaces import PRIVATE, NewNamespace
from cloudctl.image.tables import Association, Namespace
from cloudctl.rest import listing, resource
from cloudctl.rest.body import MISSING, Body, Length, given
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import Condition, Listing, words
from cloudctl.rest.resource import REQUIRED, Attribute, Json, View, of_each
from cloudctl.rest.route import Routes

# In the body that makes one: what it holds from the beginning.
HELD: Mapping[str, Declared[Any]] = {
    "resource_type_associations": ASSOCIATIONS,
    "properties": PROPERTIES,
    "objects": OBJECTS,
    "tags": TAGS,
}


def held(name: str) -> View:
    """What namespaces hold of one kind, as they show it; left out where there is none."""
    declared = HELD[name]

    def view(conn: Connection, call: Call, rows: Sequence[Namespace]) -> list[Any]:
        found = definitions.of(conn, declared.record, [row.id for row in rows])
        each = [[_within(view) for view in declared.views(conn, call, found[row.id])] for row in rows]
        return [declared.joined(shown) if shown else MISSING for shown in each]

    return view


def _within(view: Json) -> Json:
    return {name: value for name, value in view.items() if name not in ("self", "schema")}


def _many(name: str) -> Any:
    return GenericAlias(list, (HELD[name].whole.type,))


OWN = (
    Attribute("namespace", Namespace.namespace, Name, post=REQUIRED, sort=True),
    Attribute("display_name", Namespace.display_name, Annotated[str, Length(0, 80)] | None, post=None),
    Attribute("description", Namespace.description, Text | None, post=None),
    Attribute("visibility", Namespace.visibility, Literal["public", "private"], post=PRIVATE),
    Attribute("protected", Namespace.protected, bool, post=False),
    Attribute("owner", Namespace.owner, Annotated[str, Length(1, 255)] | None, post=MISSING),
    Attribute("created_at", Namespace.created_at, sort=True, view=of_each(lambda row: zulu(row.created_at))),
    Attribute("updated_at", Namespace.updated_at, sort=True, view=of_each(lambda row: zulu(row.updated_at))),
    Attribute("self", view=of_each(lambda row: path_of(row.namespace))),
    Attribute("schema", view=resource.always("/v2/schemas/metadefs/namespace")),
)
TYPES = Attribute(
    "resource_type_associations", None, _many("resource_type_associations"), post=MISSING,
    view=held("resource_type_associations"),
)  # fmt: skip
WHOLE = (
    *OWN,
    TYPES,
    Attribute("properties", None, Properties, post=MISSING, view=held("properties")),
    Attribute("objects", None, _many("objects"), post=MISSING, view=held("objects")),
    Attribute("tags", None, _many("tags"), post=MISSING, view=held("tags")),
)
NEW = Body(resource.body("New namespace", WHOLE))
# What a namespace holds stays as it is, and is ignored in the body: clients send what they were shown.
CHANGED = Body(resource.body("Namespace", (*OWN, *(Attribute(name, None, Any, post=MISSING) for name in HELD))))


def with_type(values: Sequence[str]) -> Condition:
    wanted = words("resource_types", values)
    return Namespace.id.in_(select(Association.namespace_id).where(Association.name.in_(wanted)))


LISTING = Listing(
    Namespace.table,
    sort_keys=resource.sort_keys(OWN),
    marker=Namespace.namespace,
    filters={
        "visibility": listing.equals(Namespace.visibility),
        "owner": listing.equals(Namespace.owner),
        "protected": listing.flag(Namespace.protected),
        "resource_types": with_type,
    },
)


def own_values(call: Call, body: Any) -> dict[str, Any]:
    """The columns that a body sets. Raises Forbidden if it names an owner other than the caller's project."""
    values = given(body, *(each.field for each in OWN))
    owner = values.get("owner", MISSING)
    if owner not in (MISSING, call.project_id) and not call.may("image:namespaces:all"):
        raise Forbidden("You are not permitted to name another owner of a namespace.")
    return values


def wanted_of(body: Any) -> NewDefinitions:
    """What the namespace is to hold, according to a body."""
    said = given(body, *HELD)
    properties = [{"name": name, **given(each)} for name, each in said.pop("properties", {}).items()]
    wanted = {name: [given(each) for each in bodies] for name, bodies in said.items()} | {"properties": properties}
    return NewDefinitions(
        *([declared.values(each) for each in wanted.get(name, ())] for name, declared in HELD.items())
    )


def prefixed(view: Json, before: str) -> Json:
    """A namespace with the names of its properties as they are for one resource type."""

    def renamed(properties: Json) -> Json:
        return {f"{before}{name}": {**each, "name": f"{before}{name}"} for name, each in properties.items()}

    made = dict(view)
    if "properties" in view:
        made["properties"] = renamed(view["properties"])
    if "objects" in view:
        made["objects"] = [
            {
                **each,
                "required": [f"{before}{name}" for name in each["required"]],
                "properties": {f"{before}{name}": definition for name, definition in each["properties"].items()},
            }
            for each in view["objects"]
        ]
    return made


@frozen
class Namespaces:
    routes = Routes("Metadata definitions: namespaces")

    db: Database

    @routes.get(NAMESPACES, policy="image:namespaces:list", query=(*LISTING.filters, *PAGING))
    async def list(self, call: Call) -> Json:
        """List the namespaces, with the resource types that they are for."""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        wanted = listing.conditions(LISTING, call)
        page = listing.page(conn, LISTING, listing.paging(call, LIMITS), namespaces.seen_by(call.caller), *wanted)
        shown = resource.views(conn, call, (*OWN, TYPES), page.rows)
        links = page_links(call, f"/v2{NAMESPACES}", page.rows[-1].namespace if page.more and page.rows else None)
        return {"namespaces": shown, "schema": "/v2/schemas/metadefs/namespaces", **links}

    @routes.post(NAMESPACES, policy="image:namespaces:create", body=NEW, status=201)
    async def create(self, call: Call, body: Any) -> Reply:
        """Create a namespace and everything that it is to hold."""
        view = await self.db.run(self._create, call, body)
        return Reply(view, headers=(("Location", f"{call.root_url}{view['self']}"),))

    def _create(self, conn: Connection, call: Call, body: Any) -> Json:
        values = own_values(call, body)
        values.setdefault("owner", call.project_id or None)
        row = namespaces.create(conn, NewNamespace(**values, holds=wanted_of(body)), call.now)
        return resource.views(conn, call, WHOLE, [row])[0]

    @routes.get(f"{NAMESPACES}/<namespace>", policy="image:namespaces:show", query=("resource_type",))
    async def show(self, call: Call, namespace: str) -> Json:
        """Show a namespace with all that it holds, for one `resource_type` with that type's names of properties."""
        return await self.db.scan(self._show, call, namespace)

    def _show(self, conn: Connection, call: Call, name: str) -> Json:
        row = within(conn, call, name)
        view = resource.views(conn, call, WHOLE, [row])[0]
        resource_type = call.query.get("resource_type")
        before = definitions.prefix(conn, row, resource_type) if resource_type else ""
        return prefixed(view, before) if before else view

    @routes.put(f"{NAMESPACES}/<namespace>", policy="image:namespaces:update", body=CHANGED)
    async def update(self, call: Call, namespace: str, body: Any) -> Json:
        """Replace a namespace; what it holds stays."""
        return await self.db.run(self._update, call, namespace, body)

    def _update(self, conn: Connection, call: Call, name: str, body: Any) -> Json:
        row = within(conn, call, name, lock=True)
        changed = namespaces.change(conn, row, own_values(call, body), call.now)
        return resource.views(conn, call, OWN, [changed])[0]

    @routes.delete(f"{NAMESPACES}/<namespace>", policy="image:namespaces:delete")
    async def delete(self, call: Call, namespace: str) -> None:
        """Delete a namespace and everything that it holds."""
        await self.db.run(self._delete, call, namespace)

    def _delete(self, conn: Connection, call: Call, name: str) -> None:
        namespaces.remove(conn, within(conn, call, name, lock=True))

    @routes.get("/metadefs/resource_types", policy="image:resource_types:known")
    async def resource_types(self, call: Call) -> Json:
        """List the resource types that namespaces may be for."""
        rows = await self.db.scan(definitions.resource_types)
        return {
            "resource_types": [
                {"name": row.name, "created_at": zulu(row.created_at), "updated_at": zulu(row.updated_at)}
                for row in rows
            ]
        }
