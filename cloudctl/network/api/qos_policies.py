"""`/qos/policies`. Reference: network.md, section 10."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import bandwidth_limits, qos_policies, standard, tags
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
from cloudctl.network.api.bandwidth_limits import view_in_policy
from cloudctl.network.api.matching import check_match
from cloudctl.network.qos_policies import NewPolicy
from cloudctl.network.tables import QosPolicy
from cloudctl.rest.body import MISSING, Body, Missing, Name, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.route import Routes

COLLECTION = lists.collection(
    "policies",
    QosPolicy.table,
    qos_policies.not_found,
    filters={
        "name": any_of(QosPolicy.name),
        "shared": lists.truths(QosPolicy.shared),
        "is_default": lists.truths(QosPolicy.is_default),
    },
    sort_keys={"name": QosPolicy.name, "shared": QosPolicy.shared, "is_default": QosPolicy.is_default},
)


@frozen
class CreatePolicy:
    name: Name
    description: Text = ""
    shared: Flag = False
    is_default: Flag = False
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    tags: Tags | Missing = MISSING


@frozen
class UpdatePolicy:
    name: Name | Missing = MISSING
    description: Text | Missing = MISSING
    shared: Flag | Missing = MISSING
    is_default: Flag | Missing = MISSING


class QosPolicies:
    routes = Routes("QoS policies")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/qos/policies", policy="network:qos_policies:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List QoS policies."""
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, qos_policies.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, _views(conn, page.rows))

    @routes.post(
        "/qos/policies",
        policy="network:qos_policies:create",
        status=201,
        body=Body(CreatePolicy, "policy", "policies"),
    )
    async def create(self, call: Call, body: Any) -> Json:
        """Create a QoS policy, or several at once."""
        return enveloped(body, "policy", "policies", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            new = NewPolicy(each.name, each.description, each.shared, each.is_default)
            row = qos_policies.create(conn, owner, new, now)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return _views(conn, rows)

    @routes.get("/qos/policies/<policy_id>", policy="network:qos_policies:show", pure=True)
    async def show(self, call: Call, policy_id: str) -> Json:
        """Show a QoS policy, one's own or a shared one, with its rules."""
        return {"policy": lists.narrowed(call, await self.db.read(self._show, call, policy_id))}

    def _show(self, conn: Connection, call: Call, policy_id: str) -> Json:
        return _views(conn, [qos_policies.visible(conn, call.caller, policy_id)])[0]

    @routes.put("/qos/policies/<policy_id>", policy="network:qos_policies:update", body=Body(UpdatePolicy, "policy"))
    async def update(self, call: Call, policy_id: str, body: UpdatePolicy) -> Json:
        """Change a QoS policy."""
        return {"policy": await self.db.run(self._update, call, policy_id, body)}

    def _update(self, conn: Connection, call: Call, policy_id: str, body: UpdatePolicy) -> Json:
        row = qos_policies.visible(conn, call.caller, policy_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        changes = given(body)
        if changes:
            row = qos_policies.change(conn, row, changes, self.db.now(conn))
        return _views(conn, [row])[0]

    @routes.delete("/qos/policies/<policy_id>", policy="network:qos_policies:delete")
    async def delete(self, call: Call, policy_id: str) -> None:
        """Delete a QoS policy that no network and no port has."""
        await self.db.run(self._delete, call, policy_id)

    def _delete(self, conn: Connection, call: Call, policy_id: str) -> None:
        row = qos_policies.visible(conn, call.caller, policy_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        qos_policies.remove(conn, row)


def _views(conn: Connection, rows: Rows) -> Views:
    ids = [row.id for row in rows]
    limits, tagged = bandwidth_limits.of_policies(conn, ids), tags.of(conn, ids)
    return [view(row, limits.get(row.id, []), tagged.get(row.id, [])) for row in rows]


def view(row: Any, limits: Rows, tagged: Any) -> Json:
    return {
        "id": row.id,
        "name": row.name,
        "shared": row.shared,
        "is_default": row.is_default,
        "rules": [view_in_policy(limit) for limit in limits],
        **standard_view(row, tagged),
    }
