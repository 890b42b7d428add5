"""/OS-TRUST/trusts. Reference: identity.md, section 11."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden
from cloudctl.identity import records, trusts
from cloudctl.identity.api.application_credentials import Moment
from cloudctl.identity.api.collection import link, listed, page, paged
from cloudctl.identity.api.fields import Id, RoleReference, may_as_anybody, role_name
from cloudctl.identity.api.roles import view as role_view
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.tables import Trust
from cloudctl.rest import formats
from cloudctl.rest.body import MISSING, Body, Items, Missing, Range, extra
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class CreateTrust:
    trustor_user_id: Id
    trustee_user_id: Id
    impersonation: bool
    project_id: Id | Missing | None = MISSING
    roles: Annotated[list[RoleReference], Items(0, 100)] | Missing = MISSING
    expires_at: Moment | Missing | None = MISSING
    remaining_uses: Annotated[int, Range(1)] | Missing | None = MISSING
    allow_redelegation: bool | Missing = MISSING
    redelegation_count: Annotated[int, Range(0)] | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Trusts:
    db: Database
    options: IdentityOptions

    routes = Routes("Trusts")

    @routes.post("/OS-TRUST/trusts", policy="identity:create_trust", status=201, body=Body(CreateTrust, key="trust"))
    async def create(self, call: Call, body: CreateTrust) -> dict[str, Any]:
        """Let another user act with some of the caller's roles"""
        check_makes_trusts(call)
        if body.trustor_user_id != call.user_id:
            raise Forbidden("Only the trustor can create a trust.")
        if not body.project_id:
            raise Forbidden("A trust is for a project.")
        if call.identity.delegated and body.project_id != call.project_id:
            raise Forbidden("A trust or a token for one project can be delegated for that project only.")
        return {"trust": await self.db.run(self._create, call, body)}

    def _create(self, conn: Connection, call: Call, body: CreateTrust) -> dict[str, Any]:
        count = body.redelegation_count or 0
        if body.allow_redelegation:
            count = count or self.options.trust_redelegations
        elif body.allow_redelegation is False:
            count = 0
        new = trusts.NewTrust(
            trustee_user_id=body.trustee_user_id,
            project_id=body.project_id or "",
            impersonation=body.impersonation,
            roles=[role_name(role) for role in body.roles or ()],
            expires_at=formats.parse_time(body.expires_at) if body.expires_at else None,
            remaining_uses=body.remaining_uses or None,
            redelegation_count=count,
            extra=body.extra,
        )
        limits = trusts.Limits(self.options.trust_redelegations, self.options.trust_limit)
        row = trusts.create(conn, call.caller, new, limits)
        return self._shown(conn, call, row)

    @routes.get("/OS-TRUST/trusts", policy="identity:list_trusts", query=tuple(trusts.LISTING.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the trusts that the caller has made or received, or all"""
        mine = {call.query.get("trustor_user_id"), call.query.get("trustee_user_id")}
        if call.user_id not in mine:
            call.require("identity:list_all_trusts")
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        own = [] if may_as_anybody(call, "identity:list_all_trusts") else [trusts.are_partys(call.identity)]
        return paged(call, "trusts", page(conn, call, trusts.LISTING, trusts.are_usable(call.now), *own), view)

    @routes.get("/OS-TRUST/trusts/<trust_id>", policy="identity:get_trust")
    async def show(self, call: Call, trust_id: str) -> dict[str, Any]:
        """Show a trust"""
        return {"trust": await self.db.read(self._show, call, trust_id)}

    def _show(self, conn: Connection, call: Call, trust_id: str) -> dict[str, Any]:
        return self._shown(conn, call, self._visible(conn, call, trust_id))

    def _shown(self, conn: Connection, call: Call, row: Trust) -> dict[str, Any]:
        return {**view(call, row), "roles": [role_view(call, role) for role in trusts.roles_of(conn, row.id)]}

    def _visible(self, conn: Connection, call: Call, trust_id: str) -> Trust:
        row = trusts.get(conn, trust_id, call.now)
        if not trusts.is_party(call.identity, row):
            call.require("identity:get_all_trusts")
        return row

    @routes.delete("/OS-TRUST/trusts/<trust_id>", policy="identity:delete_trust")
    async def delete(self, call: Call, trust_id: str) -> None:
        """End a trust and the tokens made from it"""
        await self.db.run(self._delete, call, trust_id)

    def _delete(self, conn: Connection, call: Call, trust_id: str) -> None:
        check_makes_trusts(call)
        row = records.get(conn, Trust, trust_id, "trust")
        if not trusts.made(call.identity, row):
            call.require("identity:delete_all_trusts")
        trusts.remove(conn, trust_id)

    # -- roles

    @routes.get("/OS-TRUST/trusts/<trust_id>/roles", policy="identity:list_roles_for_trust")
    async def list_roles(self, call: Call, trust_id: str) -> dict[str, Any]:
        """List the roles of a trust"""
        return listed(call, "roles", await self.db.read(self._roles, call, trust_id))

    def _roles(self, conn: Connection, call: Call, trust_id: str) -> Any:
        self._visible(conn, call, trust_id)
        return [role_view(call, role) for role in trusts.roles_of(conn, trust_id)]

    @routes.get("/OS-TRUST/trusts/<trust_id>/roles/<role_id>", policy="identity:list_roles_for_trust")
    async def show_role(self, call: Call, trust_id: str, role_id: str) -> dict[str, Any]:
        """Show a role of a trust"""
        for role in await self.db.read(self._roles, call, trust_id):
            if role["id"] == role_id:
                return {"role": role}
        raise records.not_found("role in trust", role_id)


def check_makes_trusts(call: Call) -> None:
    """Only a user's own login may deal with trusts, or the token of a trust, to pass it on. Raises Forbidden."""
    if call.identity.delegated and (call.identity.signed or not call.identity.trust_id):
        raise Forbidden(
            "A token of an application credential, an OAuth access token or an EC2 credential cannot deal with trusts."
        )


def view(call: Call, row: Trust) -> dict[str, Any]:
    """Without its roles."""
    return {
        **row.extra,
        "id": row.id,
        "trustor_user_id": row.trustor_user_id,
        "trustee_user_id": row.trustee_user_id,
        "project_id": row.project_id,
        "impersonation": row.impersonation,
        "expires_at": None if row.expires_at is None else formats.zulu_micros(row.expires_at),
        "deleted_at": None,
        "remaining_uses": row.remaining_uses,
        "redelegation_count": row.redelegation_count,
        "redelegated_trust_id": row.redelegated_trust_id,
        "roles_links": {**link(call, "OS-TRUST", "trusts", row.id, "roles"), "next": None, "previous": None},
        "links": link(call, "OS-TRUST", "trusts", row.id),
    }
