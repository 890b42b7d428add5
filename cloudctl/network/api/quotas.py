"""`/quotas`. Reference: network.md, section 12."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import field, frozen, make_class
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import standard
from cloudctl.network.api.attributes import Flag, Json
from cloudctl.network.quotas import QUOTAS
from cloudctl.rest import quota
from cloudctl.rest.body import MISSING, Body, Loose, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.quota import QuotaLimit
from cloudctl.rest.route import Routes

Value = Annotated[int, Loose(), Range(-1)]
OPTIONS = {"force": False, "check_limit": True}


def _limit(default: Any = MISSING, type: Any = Value | Missing) -> Any:
    return field(type=type, default=default)


# `check_limit`: by default a limit is checked against the use, unless `force` is set.
UpdateQuota: Any = make_class(
    "UpdateQuota",
    {each.name: _limit() for each in QUOTAS.resources} | {name: _limit(d, Flag) for name, d in OPTIONS.items()},
    frozen=True,
    kw_only=True,
)


@frozen
class ProjectQuotas:
    routes = Routes("Quotas")

    db: Database

    @routes.get("/quotas", policy="network:quotas:list")
    async def list(self, call: Call) -> Json:
        """List the projects that have limits of their own."""
        return {"quotas": await self.db.scan(self._list)}

    def _list(self, conn: Connection) -> Any:
        own = (QuotaLimit.service == QUOTAS.service, QuotaLimit.project_id != quota.EVERYBODY)
        query = select(QuotaLimit.project_id).where(*own).distinct()
        owners = list(conn.scalars(query.order_by(QuotaLimit.project_id)))
        return [{**quota.limits(conn, QUOTAS, owner), "project_id": owner, "tenant_id": owner} for owner in owners]

    @routes.get("/quotas/tenant", policy="network:quotas:show")
    async def tenant(self, call: Call) -> Json:
        """Show which project the token is for, as a tenant."""
        return {"tenant": {"tenant_id": call.project_id}}

    @routes.get("/quotas/project", policy="network:quotas:show")
    async def project(self, call: Call) -> Json:
        """Show which project the token is for."""
        return {"project": {"project_id": call.project_id}}

    @routes.get("/quotas/<project_id>", policy="network:quotas:show")
    async def show(self, call: Call, project_id: str) -> Json:
        """Show the limits of a project."""
        _check_visible(call, project_id)
        return {"quota": await self.db.read(quota.limits, QUOTAS, project_id)}

    @routes.get("/quotas/<project_id>/default", policy="network:quotas:show")
    async def default(self, call: Call, project_id: str) -> Json:
        """Show the limits of a project that has none of its own."""
        _check_visible(call, project_id)
        return {"quota": await self.db.read(quota.defaults, QUOTAS)}

    @routes.get("/quotas/<project_id>/details", policy="network:quotas:show")
    async def details(self, call: Call, project_id: str) -> Json:
        """Show the limits of a project and what it uses."""
        _check_visible(call, project_id)
        return {"quota": await self.db.scan(_details, project_id)}

    @routes.get("/quotas/<project_id>/details.json", policy="network:quotas:show")
    async def details_json(self, call: Call, project_id: str) -> Json:
        """Show the same, by the name that stock clients use."""
        return await self.details(call, project_id)

    @routes.put("/quotas/<project_id>", policy="network:quotas:update", body=Body(UpdateQuota, "quota"))
    async def update(self, call: Call, project_id: str, body: Any) -> Json:
        """Set limits of a project."""
        _check_length(project_id)
        return {"quota": await self.db.run(_update, project_id, body)}

    @routes.delete("/quotas/<project_id>", policy="network:quotas:delete")
    async def delete(self, call: Call, project_id: str) -> None:
        """Reset the limits of a project to the defaults."""
        await self.db.run(quota.reset_limits, QUOTAS, project_id)


def _check_visible(call: Call, project_id: str) -> None:
    if project_id != call.project_id and not standard.sees_all(call.caller):
        raise NotFound("The resource could not be found.")


def _check_length(project_id: str) -> None:
    if len(project_id) > 64:
        raise Invalid("Invalid input for project_id. Reason: it has more than 64 characters.")


def _details(conn: Connection, project_id: str) -> Json:
    used = quota.usage(conn, QUOTAS, project_id)
    limits = quota.limits(conn, QUOTAS, project_id)
    return {name: {"limit": limit, "used": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}


def _update(conn: Connection, project_id: str, body: Any) -> Json:
    wanted = given(body, *(resource.name for resource in QUOTAS.resources))
    if not body.force and body.check_limit:
        # Nobody counts what is below the old limit meanwhile.
        quota.turn(conn, QUOTAS, project_id)
        used = quota.usage(conn, QUOTAS, project_id)
        below = [name for name, limit in wanted.items() if limit != quota.UNLIMITED and limit < used[name]]
        if below:
            raise Invalid(
                f"Quota limit is below the present use for resources: {sorted(below)}.", type="InvalidQuotaValue"
            )
    quota.set_limits(conn, QUOTAS, project_id, wanted)
    return dict(quota.limits(conn, QUOTAS, project_id))
