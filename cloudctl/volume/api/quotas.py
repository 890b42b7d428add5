"""Quota sets and limits on the wire. Reference: volume.md, section 9."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest import quota
from cloudctl.rest.body import Body, Loose, Range, extra, structure
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import quotas
from cloudctl.volume.options import VolumeOptions

# Clients send these back as they received them.
NO_COUNTERS = frozenset({"id", "tenant_id", "class_name"})

Limit = Annotated[int, Loose(), Range(-1)]


@frozen
class UpdateQuotas:
    """Counter → limit; the counters depend on the types."""

    sent: dict[str, Any] = extra()

    def limits(self, key: str = "quota_set") -> dict[str, int]:
        """Raises BodyError for a limit that is not an integer of at least -1."""
        wanted = {name: value for name, value in self.sent.items() if name not in NO_COUNTERS}
        found: dict[str, int] = structure(wanted, dict[str, Limit], f"$.{key}")
        return found


@frozen
class QuotaSets:
    routes = Routes("Quotas")

    db: Database
    options: VolumeOptions

    @routes.get("/os-quota-sets/<target_id>", policy="volume:quotas:show", query=("usage",))
    async def show(self, call: Call, target_id: str) -> Any:
        """Show the limits of a project, and with `usage` its usage."""
        _demand_visible(call, target_id)
        read = _usage if call.query.flag("usage") else _limits
        found = await self.db.scan(read, self.options, target_id)
        return {"quota_set": {"id": target_id, **found}}

    @routes.get("/os-quota-sets/<target_id>/defaults", policy="volume:quotas:show")
    async def defaults(self, call: Call, target_id: str) -> Any:
        """Show the limits of projects without limits of their own."""
        _demand_visible(call, target_id)
        found = await self.db.scan(_limits, self.options, quota.EVERYBODY)
        return {"quota_set": {"id": target_id, **found}}

    @routes.put("/os-quota-sets/<target_id>", policy="volume:quotas:write", body=Body(UpdateQuotas, key="quota_set"))
    async def update(self, call: Call, target_id: str, body: UpdateQuotas) -> Any:
        """Set the limits of a project."""
        _demand_storable(target_id)
        found = await self.db.run(quotas.set_limits, self.options, target_id, body.limits())
        return {"quota_set": found}

    @routes.delete("/os-quota-sets/<target_id>", policy="volume:quotas:write", status=200)
    async def delete(self, call: Call, target_id: str) -> None:
        """Reset the limits of a project to the defaults."""
        await self.db.run(_reset, self.options, target_id)

    # The only class: the limits of all projects without limits of their own.

    @routes.get("/os-quota-class-sets/<name>", policy="volume:quotas:classes")
    async def show_class(self, call: Call, name: str) -> Any:
        """Show the default limits."""
        _demand_class(name)
        found = await self.db.scan(_limits, self.options, quota.EVERYBODY)
        return {"quota_class_set": {"id": name, **found}}

    @routes.put(
        "/os-quota-class-sets/<name>", policy="volume:quotas:classes", body=Body(UpdateQuotas, key="quota_class_set")
    )
    async def update_class(self, call: Call, name: str, body: UpdateQuotas) -> Any:
        """Set the default limits."""
        _demand_class(name)
        wanted = body.limits("quota_class_set")
        return {"quota_class_set": await self.db.run(quotas.set_limits, self.options, quota.EVERYBODY, wanted)}


def _demand_visible(call: Call, project_id: str) -> None:
    if project_id != call.project_id and not call.may("volume:quotas:show_all"):
        raise NotFound("The resource could not be found.")


def _demand_class(name: str) -> None:
    if name != "default":
        raise NotFound(f"Quota class {name[:64]} could not be found.")


def _demand_storable(project_id: str) -> None:
    if len(project_id) > 64:
        raise Invalid("A project id has at most 64 characters.")


def _limits(conn: Connection, options: VolumeOptions, project_id: str) -> dict[str, Any]:
    return dict(quotas.limits(conn, quotas.of_all_types(conn, options), project_id))


def _usage(conn: Connection, options: VolumeOptions, project_id: str) -> dict[str, Any]:
    limits = quotas.limits(conn, quotas.of_all_types(conn, options), project_id)
    used = quotas.usage(conn, options, project_id)
    return {name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}


def _reset(conn: Connection, options: VolumeOptions, project_id: str) -> None:
    quota.reset_limits(conn, quotas.quotas(options), project_id)


# Counter → the names of its limit and of its usage.
ABSOLUTE = {
    "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
    "gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    "snapshots": ("maxTotalSnapshots", "totalSnapshotsUsed"),
    "backups": ("maxTotalBackups", "totalBackupsUsed"),
    "backup_gigabytes": ("maxTotalBackupGigabytes", "totalBackupGigabytesUsed"),
}


@frozen
class Limits:
    routes = Routes("Quotas")

    db: Database
    options: VolumeOptions

    @routes.get("/limits", policy="volume:limits:show", query={"project_id": since(3, 39)})
    async def show(self, call: Call) -> Any:
        """Show the limits and the usage of a project."""
        project_id = call.project_id
        asked = call.query.get("project_id")
        if asked and call.may("volume:quotas:show_all"):
            project_id = asked
        found = await self.db.scan(_absolute, self.options, project_id)
        return {"limits": {"rate": [], "absolute": found}}


def _absolute(conn: Connection, options: VolumeOptions, project_id: str) -> dict[str, int]:
    counters = quotas.quotas(options)
    limits = quotas.limits(conn, counters, project_id)
    used = quota.usage(conn, counters, project_id)
    found: dict[str, int] = {}
    for name, (most, now) in ABSOLUTE.items():
        found |= {most: limits[name], now: used[name]}
    return found
