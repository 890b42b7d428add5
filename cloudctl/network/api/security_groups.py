"""`/security-groups`. Reference: network.md, section 9."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import security_groups, standard, tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import (
    Flag,
    Json,
    Project,
    Rows,
    Tags,
    Text,
    Views,
    default,
    enveloped,
    listed,
    owner_named,
)
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.security_group_rules import views as rule_views
from cloudctl.network.tables import SecurityGroup
from cloudctl.rest.body import MISSING, Body, Missing, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.route import Routes

COLLECTION = lists.collection(
    "security_groups",
    SecurityGroup.table,
    security_groups.not_found,
    filters={"name": any_of(SecurityGroup.name), "stateful": lists.truths(SecurityGroup.stateful)},
    sort_keys={"name": SecurityGroup.name, "stateful": SecurityGroup.stateful},
)


@frozen
class CreateSecurityGroup:
    name: Text = ""
    description: Text = ""
    stateful: Flag = True
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    tags: Tags | Missing = MISSING


@frozen
class UpdateSecurityGroup:
    name: Text | Missing = MISSING
    description: Text | Missing = MISSING
    stateful: Flag | Missing = MISSING


class SecurityGroups:
    routes = Routes("Security groups")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/security-groups", policy="network:security_groups:list")
    async def list(self, call: Call) -> Json:
        """List security groups; a project's `default` group is made when it is first looked for."""
        found = await self.db.read(self._list, call, False)
        return found if found is not None else await self.db.run(self._list, call, True)

    def _list(self, conn: Connection, call: Call, may_write: bool) -> Any:
        if call.project_id and security_groups.default_of(conn, call.project_id) is None:
            if not may_write:
                return None
            security_groups.ensure_default(conn, call.project_id, self.db.now(conn))
        page = lists.fetch(conn, call, COLLECTION, security_groups.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, _views(conn, page.rows))

    @routes.post(
        "/security-groups",
        policy="network:security_groups:create",
        status=201,
        body=Body(CreateSecurityGroup, "security_group", "security_groups"),
    )
    async def create(self, call: Call, body: Any) -> Json:
        """Create a security group, or several at once."""
        views = await self.db.run(self._create, call, listed(body))
        return enveloped(body, "security_group", "security_groups", views)

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            row = security_groups.create(conn, owner, each.name, each.description, each.stateful, now)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return _views(conn, rows)

    @routes.get("/security-groups/<group_id>", policy="network:security_groups:show")
    async def show(self, call: Call, group_id: str) -> Json:
        """Show a security group with its rules."""
        return {"security_group": lists.narrowed(call, await self.db.read(self._show, call, group_id))}

    def _show(self, conn: Connection, call: Call, group_id: str) -> Json:
        return _views(conn, [security_groups.visible(conn, call.caller, group_id)])[0]

    @routes.put(
        "/security-groups/<group_id>",
        policy="network:security_groups:update",
        body=Body(UpdateSecurityGroup, "security_group"),
    )
    async def update(self, call: Call, group_id: str, body: UpdateSecurityGroup) -> Json:
        """Change a security group."""
        return {"security_group": await self.db.run(self._update, call, group_id, body)}

    def _update(self, conn: Connection, call: Call, group_id: str, body: UpdateSecurityGroup) -> Json:
        row = security_groups.visible(conn, call.caller, group_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        changes = given(body)
        if changes:
            row = security_groups.change(conn, row, changes, self.db.now(conn), call.caller)
        return _views(conn, [row])[0]

    @routes.delete("/security-groups/<group_id>", policy="network:security_groups:delete")
    async def delete(self, call: Call, group_id: str) -> None:
        """Delete a security group that no port is in."""
        await self.db.run(self._delete, call, group_id)

    def _delete(self, conn: Connection, call: Call, group_id: str) -> None:
        row = security_groups.visible(conn, call.caller, group_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        default_too = call.may("network:security_groups:delete_default")
        security_groups.remove(conn, row, self.db.now(conn), call.caller, default_too)


def _views(conn: Connection, rows: Rows) -> Views:
    ids = [row.id for row in rows]
    rules, tagged = security_groups.rules_of(conn, ids), tags.of(conn, ids)
    shown = rule_views(conn, [rule for group in rules.values() for rule in group])
    by_group: dict[str, list[Json]] = {}
    for rule in shown:
        by_group.setdefault(rule["security_group_id"], []).append(rule)
    return [view(row, by_group.get(row.id, []), tagged.get(row.id, [])) for row in rows]


def view(row: Any, rules: Any, tagged: Any) -> Json:
    return {
        "id": row.id,
        "name": row.name,
        "stateful": row.stateful,
        "shared": False,
        "security_group_rules": rules,
        **standard_view(row, tagged),
    }
