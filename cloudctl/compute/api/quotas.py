"""Quota sets, quota classes and limits. Reference: compute.md, section 16."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute import quotas
from cloudctl.compute.api import gates, query
from cloudctl.compute.quotas import QUOTAS
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.identity import projects
from cloudctl.rest import quota
from cloudctl.rest.body import (
    MISSING,
    Body,
    LooseBool,
    LooseInt,
    Missing,
    Range,
    gated,
    given,
    spans,
)
from cloudctl.rest.call import Call
from cloudctl.rest.caller import forbidden
from cloudctl.rest.quota import UNLIMITED
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, Span, until
from cloudctl.rest.views import Fields

OTHERS = "compute:quotas:others"

# The longest project id that limits can be stored for, and so the longest key that takes its place.
CLASS_KEY = 64
USER_ID = 64

Limit = Annotated[LooseInt, Range(UNLIMITED)]


@frozen
class Everywhere:
    """What may be limited everywhere."""

    instances: Limit | Missing = MISSING
    cores: Limit | Missing = MISSING
    ram: Limit | Missing = MISSING
    metadata_items: Limit | Missing = MISSING
    key_pairs: Limit | Missing = MISSING
    server_groups: Limit | Missing = MISSING
    server_group_members: Limit | Missing = MISSING
    injected_files: Limit | Missing = gated(until(2, 56))
    injected_file_content_bytes: Limit | Missing = gated(until(2, 56))
    injected_file_path_bytes: Limit | Missing = gated(until(2, 56))


@frozen
class QuotaClassSet(Everywhere):
    """The limits of networks left classes later than they left projects."""

    fixed_ips: Limit | Missing = gated(until(2, 49))
    floating_ips: Limit | Missing = gated(until(2, 49))
    security_groups: Limit | Missing = gated(until(2, 49))
    security_group_rules: Limit | Missing = gated(until(2, 49))


@frozen
class QuotaSet(Everywhere):
    fixed_ips: Limit | Missing = gated(until(2, 35))
    floating_ips: Limit | Missing = gated(until(2, 35))
    security_groups: Limit | Missing = gated(until(2, 35))
    security_group_rules: Limit | Missing = gated(until(2, 35))
    force: LooseBool | Missing = MISSING


def _spans(body: type) -> dict[str, Span]:
    return {path.removeprefix("."): span for path, (span,) in spans(body).items()}


# Limits are shown as long as they are accepted.
SPANS, SPANS_OF_CLASSES = _spans(QuotaSet), _spans(QuotaClassSet)


def shown(call: Call, values: dict[str, Any], spans: dict[str, Span] = SPANS) -> dict[str, Any]:
    return {name: value for name, value in values.items() if call.version in spans.get(name, ALWAYS)}


@frozen
class Quotas:
    routes = Routes("Quotas")

    db: Database

    @routes.get("/os-quota-sets/<project_id>", policy="compute:quotas:show", query=("user_id",))
    async def show(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show the quota of a project, or of one user in it."""
        query.only(call, ("user_id",))
        values = await self.db.read(_limits, call, project_id)
        return {"quota_set": {"id": project_id, **shown(call, values)}}

    @routes.get("/os-quota-sets/<project_id>/detail", policy="compute:quotas:show", query=("user_id",))
    async def detail(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show the quota and usage of a project, or of one user in it."""
        query.only(call, ("user_id",))
        values = await self.db.scan(_detail, call, project_id)
        return {"quota_set": {"id": project_id, **shown(call, values)}}

    @routes.get("/os-quota-sets/<project_id>/defaults", policy="compute:quotas:defaults")
    async def defaults(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show the default quota of a project."""
        found = await self.db.read(quota.defaults, QUOTAS)
        return {"quota_set": {"id": project_id, **shown(call, found)}}

    @routes.put(
        "/os-quota-sets/<project_id>",
        policy="compute:quotas:update",
        body=Body(QuotaSet, key="quota_set"),
        query=("user_id",),
    )
    async def update(self, call: Call, project_id: str, body: QuotaSet) -> dict[str, Any]:
        """Set the quota of a project, or of one user in it."""
        query.only(call, ("user_id",))
        values = given(body)
        force = bool(values.pop("force", False))
        found = await self.db.run(_update, project_id, call.query.get("user_id"), values, force)
        return {"quota_set": shown(call, found)}

    @routes.delete("/os-quota-sets/<project_id>", policy="compute:quotas:update", status=202, query=("user_id",))
    async def delete(self, call: Call, project_id: str) -> None:
        """Reset a project and its users to the default quota, or one user in it to the project's quota."""
        query.only(call, ("user_id",))
        user_id = call.query.get("user_id")
        if user_id:
            await self.db.run(quotas.reset_user_limits, project_id, user_id)
        else:
            await self.db.run(quotas.reset_limits, project_id)

    @routes.get("/os-quota-class-sets/<name>", policy="compute:quotas:classes")
    async def classes(self, call: Call, name: str) -> dict[str, Any]:
        """Show the limits of a quota class; `default` applies to projects without limits of their own."""
        found = await self.db.read(_of_class, name)
        return {"quota_class_set": {"id": name, **_shown_of_class(call, found)}}

    @routes.put(
        "/os-quota-class-sets/<name>",
        policy="compute:quotas:update_classes",
        body=Body(QuotaClassSet, key="quota_class_set"),
    )
    async def update_class(self, call: Call, name: str, body: QuotaClassSet) -> dict[str, Any]:
        """Set the limits of a quota class; only `default` applies to projects."""
        found = await self.db.run(_update_class, name, given(body))
        return {"quota_class_set": _shown_of_class(call, found)}

    @routes.get("/limits", policy="compute:limits:show", query=("reserved", "tenant_id"))
    async def limits(self, call: Call) -> dict[str, Any]:
        """Show the limits and usage of a project."""
        query.only(call, ("reserved", "tenant_id"))
        project_id = call.query.get("tenant_id") or call.project_id
        if project_id != call.project_id and not call.may(OTHERS):
            raise forbidden(OTHERS)
        allowed, used = await self.db.scan(_both, project_id)
        return {"limits": {"rate": [], "absolute": absolute(call, allowed, used)}}


GONE = Fields[[dict[str, int]]](
    "the limits of a project",
    {
        "maxImageMeta": (until(2, 38), lambda allowed: allowed["metadata_items"]),
        "maxPersonality": (until(2, 56), lambda allowed: allowed["injected_files"]),
        "maxPersonalitySize": (until(2, 56), lambda allowed: allowed["injected_file_content_bytes"]),
        "maxSecurityGroups": (until(2, 35), lambda allowed: allowed["security_groups"]),
        "maxSecurityGroupRules": (until(2, 35), lambda allowed: allowed["security_group_rules"]),
        "maxTotalFloatingIps": (until(2, 35), lambda allowed: allowed["floating_ips"]),
        "totalFloatingIpsUsed": (until(2, 35), lambda allowed: 0),
        "totalSecurityGroupsUsed": (until(2, 35), lambda allowed: 0),
    },
)


def absolute(call: Call, allowed: dict[str, int], used: dict[str, int]) -> dict[str, int]:
    found = {
        "maxTotalInstances": allowed["instances"],
        "maxTotalCores": allowed["cores"],
        "maxTotalRAMSize": allowed["ram"],
        "maxServerMeta": allowed["metadata_items"],
        "maxTotalKeypairs": allowed["key_pairs"],
        "maxServerGroups": allowed["server_groups"],
        "maxServerGroupMembers": allowed["server_group_members"],
        "totalInstancesUsed": used["instances"],
        "totalCoresUsed": used["cores"],
        "totalRAMUsed": used["ram"],
        "totalServerGroupsUsed": used["server_groups"],
    }
    return found | GONE.of(call.version, allowed)


def _shown_of_class(call: Call, values: dict[str, Any]) -> dict[str, Any]:
    found = shown(call, values, SPANS_OF_CLASSES)
    if call.version not in gates.CLASS_SERVER_GROUPS:
        return {name: value for name, value in found.items() if not name.startswith("server_group")}
    return found


def _key(name: str) -> str:
    """The key under which the limits of a class are stored, in place of a project. Raises Invalid."""
    if name == "default":
        return quota.EVERYBODY
    key = f"{quotas.CLASS}{name}"
    if len(key) > CLASS_KEY:
        raise Invalid(f"The name of a quota class has at most {CLASS_KEY - len(quotas.CLASS)} characters.")
    return key


def _of_class(conn: Connection, name: str) -> dict[str, int]:
    return quota.limits(conn, QUOTAS, _key(name))


def _update_class(conn: Connection, name: str, values: dict[str, int]) -> dict[str, int]:
    quota.set_limits(conn, QUOTAS, _key(name), values)
    return _of_class(conn, name)


def _seen(call: Call, project_id: str) -> None:
    """Raises NotFound for another project's quota, as if there were no such project."""
    if project_id != call.project_id and not call.may(OTHERS):
        raise NotFound(f"Project {project_id[:64]} could not be found.")


def _limits(conn: Connection, call: Call, project_id: str) -> dict[str, int]:
    _seen(call, project_id)
    return _allowed(conn, project_id, call.query.get("user_id"))


def _allowed(conn: Connection, project_id: str, user_id: str | None) -> dict[str, int]:
    own = quotas.user_limits(conn, project_id, user_id) if user_id else {}
    return quota.limits(conn, QUOTAS, project_id) | own


def _detail(conn: Connection, call: Call, project_id: str) -> dict[str, Any]:
    _seen(call, project_id)
    allowed, used = _both(conn, project_id, call.query.get("user_id"))
    return {name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in allowed.items()}


def _both(conn: Connection, project_id: str, user_id: str | None = None) -> tuple[dict[str, int], dict[str, int]]:
    """(limits, usage) of a project, or of one user in it."""
    return _allowed(conn, project_id, user_id), quotas.used(conn, project_id, user_id or None)


def _update(
    conn: Connection, project_id: str, user_id: str | None, values: dict[str, int], force: bool
) -> dict[str, int]:
    if not projects.exists(conn, project_id):
        raise Invalid(f"Project ID {project_id[:64]} is not a valid project.")
    if user_id is not None and len(user_id) > USER_ID:
        raise Invalid(f"User ID {user_id[:64]} is not a valid user: it is longer than {USER_ID} characters.")
    # Nobody counts what is below the old limit while this compares what is used with the new one.
    quota.turn(conn, QUOTAS, project_id)
    of_project = quota.limits(conn, QUOTAS, project_id)
    used = quotas.used(conn, project_id, user_id or None)
    for name, limit in values.items():
        most = of_project[name] if user_id else UNLIMITED
        if most != UNLIMITED and not 0 <= limit <= most:
            raise Invalid(f"Quota limit {limit} for {name} must be less than or equal to {most}.")
        if not force and limit != UNLIMITED and limit < used.get(name, 0):
            raise Invalid(
                f"Quota limit {limit} for {name} must be greater than or equal to already used and reserved "
                f"{used[name]}."
            )
    if user_id:
        quotas.set_user_limits(conn, project_id, user_id, values)
    else:
        quota.set_limits(conn, QUOTAS, project_id, values)
    return _allowed(conn, project_id, user_id)
