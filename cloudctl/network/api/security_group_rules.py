"""`/security-group-rules`. Reference: network.md, section 9, «Rules»; there is no PUT."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import rules, security_groups, standard, tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Id, Json, Project, Rows, Text, Views, enveloped, listed, owner_named
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.rules import NewRule
from cloudctl.network.tables import SecurityGroup, SecurityGroupRule
from cloudctl.rest.body import MISSING, Body, Length, Loose, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.route import Routes


def not_found(rule_id: str) -> NotFound:
    return NotFound(f"Security group rule {rule_id[:64]} does not exist", type="SecurityGroupRuleNotFound")


COLLECTION = lists.collection(
    "security_group_rules",
    SecurityGroupRule.table,
    not_found,
    filters={
        "security_group_id": any_of(SecurityGroupRule.security_group_id),
        "direction": any_of(SecurityGroupRule.direction),
        "ethertype": any_of(SecurityGroupRule.ethertype),
        "protocol": any_of(SecurityGroupRule.protocol),
        "port_range_min": number(SecurityGroupRule.port_range_min),
        "port_range_max": number(SecurityGroupRule.port_range_max),
        "remote_ip_prefix": any_of(SecurityGroupRule.remote_ip_prefix),
        "remote_group_id": any_of(SecurityGroupRule.remote_group_id),
    },
    sort_keys={
        "security_group_id": SecurityGroupRule.security_group_id,
        "direction": SecurityGroupRule.direction,
        "ethertype": SecurityGroupRule.ethertype,
    },
)

# A port number as it comes; the domain says what is wrong with it.
Port = Annotated[int, Loose()]


@frozen
class CreateRule:
    security_group_id: Id
    direction: Literal["ingress", "egress"]
    ethertype: Annotated[str, Length(0, 255)] | None = None
    protocol: Annotated[str, Length(0, 255)] | int | None = None
    port_range_min: Port | None = None
    port_range_max: Port | None = None
    remote_ip_prefix: Annotated[str, Length(0, 255)] | None = None
    # One that is no UUID is unknown, like any other.
    remote_group_id: Annotated[str, Length(0, 255)] | None = None
    description: Text | None = None
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING


class SecurityGroupRules:
    routes = Routes("Security group rules")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/security-group-rules", policy="network:security_group_rules:list")
    async def list(self, call: Call) -> Json:
        """List the rules of one's security groups."""
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, security_groups.rules_visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, views(conn, page.rows))

    @routes.post(
        "/security-group-rules",
        policy="network:security_group_rules:create",
        status=201,
        body=Body(CreateRule, "security_group_rule", "security_group_rules"),
    )
    async def create(self, call: Call, body: Any) -> Json:
        """Add a rule to a security group, or several to one."""
        made = await self.db.run(self._create, call, listed(body))
        return enveloped(body, "security_group_rule", "security_group_rules", made)

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        if len({each.security_group_id for each in wanted}) > 1:
            message = "Only allowed to update rules for one security profile at a time"
            raise Invalid(message, type="SecurityGroupNotSingleGroupRules")
        group = security_groups.visible(conn, call.caller, wanted[0].security_group_id, lock=True)
        call.require(project_id=group.project_id)
        for each in wanted:
            _check(conn, call, each)
        rows = security_groups.add_rules(conn, group, [_new(each) for each in wanted], self.db.now(conn), call.caller)
        return views(conn, rows)

    @routes.get("/security-group-rules/<rule_id>", policy="network:security_group_rules:show")
    async def show(self, call: Call, rule_id: str) -> Json:
        """Show a rule."""
        return {"security_group_rule": lists.narrowed(call, await self.db.read(self._show, call, rule_id))}

    def _show(self, conn: Connection, call: Call, rule_id: str) -> Json:
        return views(conn, [security_groups.visible_rule(conn, call.caller, rule_id)])[0]

    @routes.delete("/security-group-rules/<rule_id>", policy="network:security_group_rules:delete")
    async def delete(self, call: Call, rule_id: str) -> None:
        """Take a rule out of its group."""
        await self.db.run(self._delete, call, rule_id)

    def _delete(self, conn: Connection, call: Call, rule_id: str) -> None:
        row = security_groups.visible_rule(conn, call.caller, rule_id)
        call.require(project_id=row.project_id)
        check_match(call, row)
        security_groups.remove_rule(conn, row, self.db.now(conn), call.caller)


def _check(conn: Connection, call: Call, body: CreateRule) -> None:
    named = owner_named(body.tenant_id, body.project_id)
    if named is not None:
        standard.owner_of_new(call.caller, named)
    if body.remote_group_id is not None:
        security_groups.visible(conn, call.caller, body.remote_group_id)


def _new(body: CreateRule) -> NewRule:
    return NewRule(
        direction=body.direction,
        ethertype="IPv4" if body.ethertype is None else body.ethertype,
        protocol=body.protocol,
        port_range_min=body.port_range_min,
        port_range_max=body.port_range_max,
        remote_ip_prefix=body.remote_ip_prefix,
        remote_group_id=body.remote_group_id,
        description=body.description or "",
    )


def views(conn: Connection, rows: Rows) -> Views:
    """Rules as the API shows them, in the order given."""
    tagged = tags.of(conn, [row.id for row in rows])
    defaults: set[str] = set()
    for some in standard.batches(sorted({row.security_group_id for row in rows})):
        query = select(SecurityGroup.id).where(SecurityGroup.id.in_(some), SecurityGroup.is_default)
        defaults |= set(conn.scalars(query))
    return [view(row, tagged.get(row.id, []), row.security_group_id in defaults) for row in rows]


def view(row: Any, tagged: Any, of_default: bool) -> Json:
    return {
        "id": row.id,
        "security_group_id": row.security_group_id,
        "direction": row.direction,
        "ethertype": row.ethertype,
        "protocol": row.protocol,
        "port_range_min": row.port_range_min,
        "port_range_max": row.port_range_max,
        "remote_ip_prefix": row.remote_ip_prefix,
        "normalized_cidr": rules.normalized(row.remote_ip_prefix),
        "remote_group_id": row.remote_group_id,
        "remote_address_group_id": None,
        "belongs_to_default_sg": of_default,
        **standard_view(row, tagged),
    }
