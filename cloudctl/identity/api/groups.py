"""/groups and their members. Reference: identity.md, section 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import groups, holdings, records, users
from cloudctl.identity.api.fields import Description, Id, domain_of, unknown_as_foreign
from cloudctl.identity.api.resource import Declared, linked
from cloudctl.identity.api.users import FILTERS
from cloudctl.identity.assignments import Actor
from cloudctl.identity.records import text_filters
from cloudctl.identity.tables import Group
from cloudctl.rest.body import MISSING, Name
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, equals
from cloudctl.rest.resource import REQUIRED, Attribute, Json
from cloudctl.rest.route import Routes


def create(conn: Connection, call: Call, values: Json) -> Group:
    values["domain_id"] = domain_of(call, values.get("domain_id"))
    call.require(domain_id=values["domain_id"])
    return groups.create(conn, values, call.now)


def change(conn: Connection, call: Call, group_id: str, changes: Json) -> Group:
    check_changeable(conn, call, group_id)
    return groups.change(conn, group_id, changes)


def remove(conn: Connection, call: Call, group_id: str) -> None:
    check_changeable(conn, call, group_id)
    groups.remove(conn, group_id)


def visible(call: Call) -> list[Condition]:
    return [Group.domain_id == call.identity.domain_id] if call.identity.domain_id else []


def check_allowed(call: Call, group: Group | None) -> None:
    """Raises Forbidden unless the Operation's rule allows it for the group's domain; None: there is no such group."""
    call.require(domain_id=group.domain_id if group is not None else "")


def check_required(conn: Connection, call: Call, group_id: str) -> None:
    """The same for an id. Raises NotFound, too."""
    with unknown_as_foreign(call):
        found = groups.get(conn, group_id)
    check_allowed(call, found)


def check_changeable(conn: Connection, call: Call, group_id: str) -> None:
    """The same, for what gives or takes away the group's roles. Raises Forbidden, NotFound."""
    check_required(conn, call, group_id)
    holdings.check_manageable(conn, call.caller, Actor("group", group_id))


GROUPS = Declared(
    name="group",
    record=Group,
    attributes=(
        Attribute("id", Group.id, sort=True),
        Attribute("name", Group.name, Name, post=REQUIRED, put=True, sort=True),
        Attribute("domain_id", Group.domain_id, Id | None, post=MISSING, put=True, filter=equals),
        Attribute("description", Group.description, Description | None, post=MISSING, put=True),
        Attribute("created_at", Group.created_at, sort=True, view=None),
        linked("groups"),
    ),
    filters=text_filters("name", Group.name),
    create=create,
    change=change,
    remove=remove,
    visible=visible,
    check_visible=check_allowed,
)


@frozen
class Members:
    """The members of a group."""

    db: Database
    users_page: Callable[..., Json]

    routes = Routes("Groups")

    @routes.get("/groups/<group_id>/users", policy="identity:list_users_in_group", query=FILTERS)
    async def members(self, call: Call, group_id: str) -> dict[str, Any]:
        """List the users in a group"""
        return await self.db.scan(self._members, call, group_id)

    def _members(self, conn: Connection, call: Call, group_id: str) -> Json:
        check_required(conn, call, group_id)
        return self.users_page(conn, call, users.in_group(group_id))

    @routes.get("/groups/<group_id>/users/<user_id>", policy="identity:check_user_in_group", status=204)
    async def check(self, call: Call, group_id: str, user_id: str) -> None:
        """Check whether a user is in a group"""
        await self.db.read(self._check, call, group_id, user_id)

    def _check(self, conn: Connection, call: Call, group_id: str, user_id: str) -> None:
        check_required(conn, call, group_id)
        if not groups.has(conn, group_id, user_id):
            raise records.not_found("user in group", user_id)

    @routes.put("/groups/<group_id>/users/<user_id>", policy="identity:add_user_to_group", status=204)
    async def add(self, call: Call, group_id: str, user_id: str) -> None:
        """Add a user to a group"""
        await self.db.run(self._change_members, call, groups.add, group_id, user_id)

    @routes.delete("/groups/<group_id>/users/<user_id>", policy="identity:remove_user_from_group")
    async def take_out(self, call: Call, group_id: str, user_id: str) -> None:
        """Remove a user from a group"""
        await self.db.run(self._change_members, call, groups.take_out, group_id, user_id)

    def _change_members(self, conn: Connection, call: Call, act: Any, group_id: str, user_id: str) -> None:
        """For a domain's manager both must be in the domain, and a group gives no more than the manager could."""
        check_changeable(conn, call, group_id)
        with unknown_as_foreign(call):
            domain_id = users.get(conn, user_id).domain_id
        call.require(domain_id=domain_id)
        act(conn, group_id, user_id)
