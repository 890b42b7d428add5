"""/policies. Reference: identity.md, section 9."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import policies
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import changes
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import PolicyBlob
from cloudctl.rest.body import MISSING, Body, Length, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes

Blob = Annotated[str, Length(0, 65_535)]


@frozen
class CreatePolicy:
    type: Name
    blob: Blob
    extra: dict[str, Any] = extra()


@frozen
class UpdatePolicy:
    type: Name | Missing = MISSING
    blob: Blob | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Policies:
    db: Database

    routes = Routes("Policies")

    @routes.get("/policies", policy="identity:list_policies", query=tuple(policies.LISTING.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List stored policies"""
        return paged(call, "policies", await self.db.scan(self._list, call), view)

    def _list(self, conn: Connection, call: Call) -> Page:
        return page(conn, call, policies.LISTING)

    @routes.post("/policies", policy="identity:create_policy", status=201, body=Body(CreatePolicy, key="policy"))
    async def create(self, call: Call, body: CreatePolicy) -> dict[str, Any]:
        """Store a policy; it has no effect"""
        return {"policy": view(call, await self.db.run(policies.create, changes(body), call.now))}

    @routes.get("/policies/<policy_id>", policy="identity:get_policy")
    async def show(self, call: Call, policy_id: str) -> dict[str, Any]:
        """Show a stored policy"""
        return {"policy": view(call, await self.db.read(policies.get, policy_id))}

    @routes.patch("/policies/<policy_id>", policy="identity:update_policy", body=Body(UpdatePolicy, key="policy"))
    async def update(self, call: Call, policy_id: str, body: UpdatePolicy) -> dict[str, Any]:
        """Change a stored policy"""
        check_id(body.extra, policy_id)
        return {"policy": view(call, await self.db.run(policies.change, policy_id, changes(body)))}

    @routes.delete("/policies/<policy_id>", policy="identity:delete_policy")
    async def delete(self, call: Call, policy_id: str) -> None:
        """Delete a stored policy"""
        await self.db.run(policies.remove, policy_id)


def view(call: Call, row: PolicyBlob) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "type": row.type,
        "blob": row.blob,
        "links": link(call, "policies", row.id),
    }
