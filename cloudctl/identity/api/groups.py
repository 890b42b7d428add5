"""/groups and their members. Reference: identity.md, section 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import groups, records, users
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id, changes, domain_of
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Group
from cloudctl.rest.body import MISSING, Body, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes


@frozen
class CreateGroup:
    name: Name
    domain_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateGroup:
    name: Name | Missing = MISSING
    domain_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Groups:
    db: Database
    user_view: Callable[[Call, Any], dict[str, Any]]

    routes = Routes("Groups")

    @routes.get("/groups", policy="identity:list_groups", query=tuple(groups.LISTING.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List groups"""
        return paged(call, "groups", await self.db.scan(self._list, call), view)

    def _list(self, conn: Connection, call: Call) -> Page:
        own = [Group.domain_id == call.identity.domain_id] if call.identity.domain_id else []
        return page(conn, call, groups.LISTING, *own)

    @routes.post("/groups", policy="identity:create_group", status=201, body=Body(CreateGroup, key="group"))
    async def create(self, call: Call, body: CreateGroup) -> dict[str, Any]:
        """Create a group"""
        values = {**changes(body), "domain_id": domain_of(call, body.domain_id)}
        call.require(domain_id=values["domain_id"])
        return {"group": view(call, await self.db.run(groups.create, values, call.now))}

    @routes.get("/groups/<group_id>", policy="identity:get_group")
    async def show(self, call: Call, group_id: str) -> dict[str, Any]:
        """Show a group"""
        return {"group": view(call, await self.db.read(self._required, call, group_id))}

    @routes.patch("/groups/<group_id>", policy="identity:update_group", body=Body(UpdateGroup, key="group"))
    async def update(self, call: Call, group_id: str, body: UpdateGroup) -> dict[str, Any]:
        """Change a group"""
        check_id(body.extra, group_id)
        return {"group": view(call, await self.db.run(self._update, call, group_id, changes(body)))}

    def _update(self, conn: Connection, call: Call, group_id: str, values: dict[str, Any]) -> Group:
        self._required(conn, call, group_id)
        return groups.change(conn, group_id, values)

    @routes.delete("/groups/<group_id>", policy="identity:delete_group")
    async def delete(self, call: Call, group_id: str) -> None:
        """Delete a group"""
        await self.db.run(self._delete, call, group_id)

    def _delete(self, conn: Connection, call: Call, group_id: str) -> None:
        self._required(conn, call, group_id)
        groups.remove(conn, group_id)

    # -- members

    @routes.get("/groups/<group_id>/users", policy="identity:list_users_in_group", query=tuple(users.FILTERS))
    async def members(self, call: Call, group_id: str) -> dict[str, Any]:
        """List the users in a group"""
        return paged(call, "users", await self.db.scan(self._members, call, group_id), self.user_view)

    def _members(self, conn: Connection, call: Call, group_id: str) -> Page:
        self._required(conn, call, group_id)
        return page(conn, call, users.LISTING, users.in_group(group_id))

    @routes.get("/groups/<group_id>/users/<user_id>", policy="identity:check_user_in_group", status=204)
    async def check(self, call: Call, group_id: str, user_id: str) -> None:
        """Check whether a user is in a group"""
        await self.db.read(self._check, call, group_id, user_id)

    def _check(self, conn: Connection, call: Call, group_id: str, user_id: str) -> None:
        self._required(conn, call, group_id)
        if not groups.has(conn, group_id, user_id):
            raise records.not_found("user in group", user_id)

    @routes.put("/groups/<group_id>/users/<user_id>", policy="identity:add_user_to_group", status=204)
    async def add(self, call: Call, group_id: str, user_id: str) -> None:
        """Put a user into a group"""
        await self.db.run(self._change_members, call, groups.add, group_id, user_id)

    @routes.delete("/groups/<group_id>/users/<user_id>", policy="identity:remove_user_from_group")
    async def take_out(self, call: Call, group_id: str, user_id: str) -> None:
        """Take a user out of a group"""
        await self.db.run(self._change_members, call, groups.take_out, group_id, user_id)

    def _change_members(self, conn: Connection, call: Call, act: Any, group_id: str, user_id: str) -> None:
        """A domain's manager needs both to be in the domain."""
        self._required(conn, call, group_id)
        call.require(domain_id=users.get(conn, user_id).domain_id)
        act(conn, group_id, user_id)

    def _required(self, conn: Connection, call: Call, group_id: str) -> Group:
        """The group, if the Operation's rule allows it for the group's domain."""
        row = groups.get(conn, group_id)
        call.require(domain_id=row.domain_id)
        return row


def view(call: Call, row: Group) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "links": link(call, "groups", row.id),
    }
