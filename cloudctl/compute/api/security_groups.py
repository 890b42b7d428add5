"""Security groups as compute once showed them: for clients that ask for 2.35 or less.

Rules here are about incoming traffic; outgoing traffic is the networking API's. Reference: compute.md, section 17.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

from attrs import field, frozen
from sqlalchemy import select, true

from cloudctl.compute import servers
from cloudctl.compute.api import query
from cloudctl.compute.api.security_group_views import ANYWHERE, WITH_PORTS, groups, rule
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.errors import CloudError, Conflict, Invalid
from cloudctl.network import security_groups
from cloudctl.network.rules import NewRule
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.standard import refuse_foreign
from cloudctl.network.tables import SecurityGroup
from cloudctl.rest.body import MISSING, Body, Length, LooseInt, Missing, Name
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

LAST = (2, 35)
QUERY = ("limit", "offset", "all_tenants")
PARAMETERS = "Not enough parameters to build a valid rule."


@frozen
class WriteGroup:
    name: Name
    description: Annotated[str, Length(0, 255)] | Missing | None = MISSING


@frozen
class CreateRule:
    parent_group_id: Annotated[str, Length(0, 255)] | int | Missing | None = MISSING
    ip_protocol: Annotated[str, Length(0, 64)] | Missing | None = MISSING
    from_port: LooseInt | Missing | None = MISSING
    to_port: LooseInt | Missing | None = MISSING
    cidr: Annotated[str, Length(0, 255)] | Missing | None = MISSING
    group_id: Annotated[str, Length(0, 255)] | int | Missing | None = MISSING


@frozen
class SecurityGroups:
    routes = Routes("Security groups (deprecated)")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-security-groups", policy="compute:security_groups:list", until=LAST, query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List security groups; a project's `default` group is created when it is first needed."""
        if call.project_id and await self.db.read(security_groups.default_of, call.project_id) is None:
            await self.db.run(security_groups.ensure_default, call.project_id, call.now)
        limit, offset = query.offset_page(call, self.options)
        return {"security_groups": await self.db.scan(_page, call, limit, offset)}

    @routes.post(
        "/os-security-groups",
        policy="compute:security_groups:manage",
        until=LAST,
        body=Body(WriteGroup, key="security_group"),
    )
    async def create(self, call: Call, body: WriteGroup) -> dict[str, Any]:
        """Create a security group."""
        return {"security_group": await self.db.run(_create, call, NewGroup(body.name, body.description or ""))}

    @routes.get("/os-security-groups/<group_id>", policy="compute:security_groups:list", until=LAST)
    async def show(self, call: Call, group_id: str) -> dict[str, Any]:
        """Show a security group with its rules."""
        return {"security_group": await self.db.scan(_one, call, group_id)}

    @routes.put(
        "/os-security-groups/<group_id>",
        policy="compute:security_groups:manage",
        until=LAST,
        body=Body(WriteGroup, key="security_group"),
    )
    async def update(self, call: Call, group_id: str, body: WriteGroup) -> dict[str, Any]:
        """Change the name and description of a security group."""
        changes = {"name": body.name, "description": body.description or ""}
        return {"security_group": await self.db.run(_change, call, group_id, changes)}

    @routes.delete("/os-security-groups/<group_id>", policy="compute:security_groups:manage", until=LAST, status=202)
    async def delete(self, call: Call, group_id: str) -> None:
        """Delete a security group that has no ports."""
        await self.db.run(_remove, call, group_id)

    @routes.post(
        "/os-security-group-rules",
        policy="compute:security_groups:manage",
        until=LAST,
        body=Body(CreateRule, key="security_group_rule"),
    )
    async def create_rule(self, call: Call, body: CreateRule) -> dict[str, Any]:
        """Add a rule for incoming traffic to a security group."""
        return {"security_group_rule": await self.db.run(_create_rule, call, body)}

    @routes.delete(
        "/os-security-group-rules/<rule_id>", policy="compute:security_groups:manage", until=LAST, status=202
    )
    async def delete_rule(self, call: Call, rule_id: str) -> None:
        """Delete a rule from its security group."""
        await self.db.run(_remove_rule, call, rule_id)


def checked(id: object, what: str = "Security group id") -> str:
    """Raises Invalid for anything that is not a UUID."""
    try:
        return str(UUID(str(id)))
    except ValueError:
        raise Invalid(f"{what} should be uuid") from None


def bad(error: CloudError) -> Invalid:
    """What the networking API calls a conflict, in compute's terms."""
    return Invalid(error.message)


def _own(
    conn: Connection, call: Call, group_id: str, locked: Callable[..., SecurityGroup], **others: Any
) -> SecurityGroup:
    """The group, locked, if the caller may change it: sharing only lets others use it. Raises Forbidden, NotFound."""
    group = locked(conn, call.caller, checked(group_id), **others)
    refuse_foreign(call.caller, group, "network:security_groups:update")
    return group


def _page(conn: Connection, call: Call, limit: int, offset: int) -> list[dict[str, Any]]:
    everyone = call.query.flag("all_tenants") and call.may(servers.ALL_PROJECTS)
    mine = true() if everyone else SecurityGroup.project_id == call.project_id
    found = select(SecurityGroup).where(mine).order_by(SecurityGroup.created_at, SecurityGroup.id)
    return groups(conn, conn.execute(found.limit(limit).offset(offset)).all())


def _one(conn: Connection, call: Call, group_id: str) -> dict[str, Any]:
    return groups(conn, [security_groups.visible(conn, call.caller, checked(group_id))])[0]


def _create(conn: Connection, call: Call, wanted: NewGroup) -> dict[str, Any]:
    try:
        return groups(conn, [security_groups.create(conn, call.project_id, wanted, call.now)])[0]
    except Conflict as error:
        raise bad(error) from None


def _change(conn: Connection, call: Call, group_id: str, changes: dict[str, Any]) -> dict[str, Any]:
    if "name" in changes:
        security_groups.lock_members(conn, security_groups.visible(conn, call.caller, checked(group_id)).id)
    group = _own(conn, call, group_id, security_groups.in_turn)
    try:
        return groups(conn, [security_groups.change(conn, group, changes, call.now, call.caller)])[0]
    except Conflict as error:
        raise bad(error) from None


def _remove(conn: Connection, call: Call, group_id: str) -> None:
    group = _own(conn, call, group_id, security_groups.to_remove)
    try:
        security_groups.remove(conn, group, call.now, call.caller)
    except Conflict as error:
        raise bad(error) from None


def _create_rule(conn: Connection, call: Call, body: CreateRule) -> dict[str, Any]:
    said = [checked(body.group_id)] if body.group_id else []
    group = _own(conn, call, str(body.parent_group_id), security_groups.in_turn, remote=said)
    remote = next((security_groups.visible(conn, call.caller, each).id for each in said), None)
    try:
        (made,) = security_groups.add_rules(conn, group, [wanted_rule(body, remote)], call.now, call.caller)
    except Conflict as error:
        raise bad(error) from None
    return rule(conn, made)


def wanted_rule(body: CreateRule, remote: str | None) -> NewRule:
    """Raises Invalid for an incomplete or wrong rule."""
    protocol = (body.ip_protocol or "").lower() or None
    least, most = body.from_port, body.to_port
    if remote is None and (protocol is None or least in (MISSING, None) or most in (MISSING, None)):
        raise Invalid(PARAMETERS)
    if protocol not in (*WITH_PORTS, "icmp", None):
        raise Invalid(f"Invalid IP protocol {protocol[:64]}.")
    if protocol == "icmp":
        least, most = (None if bound == -1 else bound for bound in (least, most))
    least, most = (None if bound is MISSING else bound for bound in (least, most))
    _check_span(protocol, least, most)
    prefix = None if remote is not None else body.cidr or ANYWHERE["IPv4"]
    ethertype = "IPv6" if prefix is not None and ":" in prefix else "IPv4"
    return NewRule("ingress", ethertype, protocol, least, most, prefix, remote)


def _check_span(protocol: str | None, least: int | None, most: int | None) -> None:
    """In this API's words: networking has other names for what is asked here. Raises Invalid."""
    if least is None and most is None:
        return
    if protocol == "icmp":
        fits = least is not None and 0 <= least <= 255 and (most is None or 0 <= most <= 255)
        need = "For ICMP from_port is a type and to_port a code, 0 to 255; -1 is any, and any type has any code."
    else:
        fits = protocol is not None and least is not None and most is not None and 1 <= least <= most <= 65535
        need = "It needs an ip_protocol, and ports from 1 to 65535 of which from_port is not the larger one."
    if not fits:
        raise Invalid(f"Invalid port range {_said(least)}:{_said(most)}. {need}")


def _said(bound: int | None) -> int:
    return -1 if bound is None else bound


def _remove_rule(conn: Connection, call: Call, rule_id: str) -> None:
    found = security_groups.rule_in_turn(conn, call.caller, checked(rule_id, "Security group rule id"))
    refuse_foreign(call.caller, found, "network:security_group_rules:delete")
    security_groups.remove_rule(conn, found, call.now, call.caller)
