"""Group types on the wire, and their specs."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.body import Body, Items, LooseBool, Name, Text, truth
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import group_types
from cloudctl.volume.api.fields import Specs
from cloudctl.volume.api.resource import Declared, created, updated
from cloudctl.volume.group_types import NewGroupType
from cloudctl.volume.tables import GroupType

SPAN = since(3, 11)
ALL = "/group_types/<group_type_id>/group_specs"
ONE = f"{ALL}/<key>"


def seen(call: Call) -> list[Condition]:
    found = group_types.seen_by(call.caller)
    # Whoever sees all has to ask for all.
    public = "true" if (sent := call.query.get("is_public")) is None else sent
    if public.lower() not in ("none", "") and call.may("volume:group_types:all"):
        if (wanted := truth(public)) is None:
            raise Invalid(f"Invalid is_public filter {public[:64]!r}")
        found.append(GroupType.is_public.is_(wanted))
    return found


def visible(conn: Connection, call: Call, type_id: str) -> GroupType:
    if type_id == "default":
        raise NotFound("Default group type can not be found.")
    return group_types.visible(conn, call.caller, type_id)


def create(conn: Connection, call: Call, values: dict[str, Any]) -> GroupType:
    wanted = {**values, "name": values["name"].strip(), "group_specs": values["group_specs"] or {}}
    return group_types.create(conn, NewGroupType(**wanted), call.now)


def change(conn: Connection, call: Call, type_: GroupType, changes: dict[str, Any]) -> GroupType:
    # What a client does not change, it sends as null.
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        raise Invalid("Specify group type name, description, is_public or a combination thereof.")
    return group_types.change(conn, type_, changes, call.now)


def remove(conn: Connection, call: Call, type_: GroupType) -> None:
    group_types.remove(conn, type_)


GROUP_TYPES = Declared(
    name="group_type",
    record=GroupType,
    attributes=(
        Attribute("id", GroupType.id, sort=True),
        Attribute("name", GroupType.name, Name, post=REQUIRED, put=Name | None, sort=True),
        Attribute("description", GroupType.description, Text | None, post=None, put=True),
        Attribute("is_public", GroupType.is_public, LooseBool, post=True, put=True, sort=True),
        Attribute("group_specs", GroupType.group_specs, Specs | None, post=None, rule="volume:group_types:all"),
        created(GroupType, shown=False),
        updated(GroupType, shown=False),
    ),
    scope=seen,
    filters=None,
    visible=visible,
    not_found=group_types.not_found,
    create=create,
    change=change,
    remove=remove,
    span=SPAN,
    rules=dict.fromkeys(("create", "update", "delete"), "write"),
)


@frozen
class GroupSpecs:
    group_specs: Specs


@frozen
class GroupTypeSpecs:
    routes = Routes("Group types")

    db: Database

    @routes.get(ALL, policy="volume:group_types:all", since=SPAN.since)
    async def list(self, call: Call, group_type_id: str) -> Any:
        """Show the specs of a group type."""
        return {"group_specs": (await self.db.read(group_types.get, group_type_id)).group_specs}

    @routes.post(ALL, policy="volume:group_types:write", status=202, since=SPAN.since, body=Body(GroupSpecs))
    async def merge(self, call: Call, group_type_id: str, body: GroupSpecs) -> Any:
        """Add to the specs of a group type."""
        await self.db.run(group_types.change_specs, group_type_id, call.now, body.group_specs)
        return {"group_specs": body.group_specs}

    @routes.get(ONE, policy="volume:group_types:all", since=SPAN.since)
    async def show(self, call: Call, group_type_id: str, key: str) -> Any:
        """Show one spec."""
        specs = (await self.db.read(group_types.get, group_type_id)).group_specs
        if key not in specs:
            raise group_types.no_spec(group_type_id, key)
        return {key: specs[key]}

    @routes.put(ONE, policy="volume:group_types:write", since=SPAN.since, body=Body(Annotated[Specs, Items(1, 1)]))
    async def set(self, call: Call, group_type_id: str, key: str, body: dict[str, str | None]) -> Any:
        """Set one spec."""
        if key not in body:
            raise Invalid("Request body and URI mismatch")
        await self.db.run(group_types.change_specs, group_type_id, call.now, body)
        return body

    @routes.delete(ONE, policy="volume:group_types:write", status=202, since=SPAN.since)
    async def delete(self, call: Call, group_type_id: str, key: str) -> None:
        """Delete one spec."""
        await self.db.run(group_types.change_specs, group_type_id, call.now, {}, (key,))
