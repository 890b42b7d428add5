"""`/qos/policies/{id}/bandwidth_limit_rules`, and the same rules without their policy in the path.

Reference: network.md, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import bandwidth_limits, qos_policies
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.bandwidth_limits import NewLimit
from cloudctl.network.tables import BandwidthLimit, QosPolicy
from cloudctl.rest import resource
from cloudctl.rest.body import Body, Loose, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Listing, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes

NAME = "bandwidth_limit_rule"
Kilobits = Annotated[int, Loose(), Range(0)]
Direction = Literal["egress", "ingress"]

ATTRIBUTES = (
    Attribute("id", BandwidthLimit.id, filter=any_of, sort=True),
    Attribute("max_kbps", BandwidthLimit.max_kbps, Kilobits, post=REQUIRED, put=True, filter=number, sort=True),
    Attribute("max_burst_kbps", BandwidthLimit.max_burst_kbps, Kilobits, post=0, put=True, filter=number, sort=True),
    Attribute("direction", BandwidthLimit.direction, Direction, post="egress", put=True, filter=any_of, sort=True),
)
CREATE = Body(resource.body(f"Create {NAME}", ATTRIBUTES), NAME)
UPDATE = Body(resource.body(f"Update {NAME}", ATTRIBUTES, update=True), NAME)
COLLECTION = lists.Collection(
    f"{NAME}s",
    Listing(
        BandwidthLimit.table,
        sort_keys=resource.sort_keys(ATTRIBUTES),
        order=(("id", "asc"),),
        filters=resource.filters(ATTRIBUTES),
    ),
    bandwidth_limits.not_found,
)

ALL = "/qos/policies/<policy_id>/bandwidth_limit_rules"
ONE = f"{ALL}/<limit_id>"
ALIAS = "/qos/alias_bandwidth_limit_rules/<limit_id>"


@frozen
class BandwidthLimits:
    routes = Routes("QoS rules")

    db: Database

    @routes.get(ALL, policy="network:qos_rules:show", pure=True)
    async def list(self, call: Call, policy_id: str) -> Json:
        """List the bandwidth limits of a policy."""
        return await self.db.scan(self._list, call, policy_id)

    def _list(self, conn: Connection, call: Call, policy_id: str) -> Json:
        policy = qos_policies.visible(conn, call.caller, policy_id)
        page = lists.fetch(conn, call, COLLECTION, BandwidthLimit.policy_id == policy.id)
        return lists.answer(call, COLLECTION, page, views(conn, call, page.rows))

    @routes.post(ALL, policy="network:qos_rules:change", status=201, body=CREATE)
    async def create(self, call: Call, policy_id: str, body: Any) -> Json:
        """Add a bandwidth limit to a policy."""
        return {NAME: await self.db.run(self._create, call, policy_id, body)}

    def _create(self, conn: Connection, call: Call, policy_id: str, body: Any) -> Json:
        policy = _locked(conn, call, policy_id)
        return _one(conn, call, bandwidth_limits.add(conn, policy, NewLimit(**given(body)), call.now, call.caller))

    @routes.get(ONE, policy="network:qos_rules:show", pure=True)
    async def show(self, call: Call, policy_id: str, limit_id: str) -> Json:
        """Show a bandwidth limit."""
        return {NAME: lists.narrowed(call, await self.db.read(self._show, call, policy_id, limit_id))}

    def _show(self, conn: Connection, call: Call, policy_id: str, limit_id: str) -> Json:
        return _one(
            conn, call, bandwidth_limits.get(conn, qos_policies.visible(conn, call.caller, policy_id), limit_id)
        )

    @routes.put(ONE, policy="network:qos_rules:change", body=UPDATE)
    async def update(self, call: Call, policy_id: str, limit_id: str, body: Any) -> Json:
        """Change a bandwidth limit; ports are held to the new one at once."""
        return {NAME: await self.db.run(self._update, call, policy_id, limit_id, body)}

    def _update(self, conn: Connection, call: Call, policy_id: str, limit_id: str, body: Any) -> Json:
        policy = _locked(conn, call, policy_id)
        row, changes = bandwidth_limits.get(conn, policy, limit_id), given(body)
        if changes:
            row = bandwidth_limits.change(conn, policy, row, changes, call.now, call.caller)
        return _one(conn, call, row)

    @routes.delete(ONE, policy="network:qos_rules:change")
    async def delete(self, call: Call, policy_id: str, limit_id: str) -> None:
        """Take a bandwidth limit out of its policy."""
        await self.db.run(self._delete, call, policy_id, limit_id)

    def _delete(self, conn: Connection, call: Call, policy_id: str, limit_id: str) -> None:
        policy = _locked(conn, call, policy_id)
        row = bandwidth_limits.get(conn, policy, limit_id)
        bandwidth_limits.remove(conn, policy, row, call.now, call.caller)

    # -- without the policy in the path

    @routes.get(ALIAS, policy="network:qos_rules:show", pure=True)
    async def show_alone(self, call: Call, limit_id: str) -> Json:
        """Show a bandwidth limit whose policy one does not know."""
        found = await self.db.read(_alone, self._show, call, limit_id)
        return {NAME: lists.narrowed(call, found)}

    @routes.put(ALIAS, policy="network:qos_rules:change", body=UPDATE)
    async def update_alone(self, call: Call, limit_id: str, body: Any) -> Json:
        """Change a bandwidth limit whose policy one does not know."""
        return {NAME: await self.db.run(_alone, self._update, call, limit_id, body)}

    @routes.delete(ALIAS, policy="network:qos_rules:change")
    async def delete_alone(self, call: Call, limit_id: str) -> None:
        """Delete a bandwidth limit whose policy one does not know."""
        await self.db.run(_alone, self._delete, call, limit_id)


def _one(conn: Connection, call: Call, row: BandwidthLimit) -> Json:
    return views(conn, call, [row])[0]


def _locked(conn: Connection, call: Call, policy_id: str) -> QosPolicy:
    """The policy, locked, if the caller may change it."""
    row = qos_policies.visible(conn, call.caller, policy_id, lock=True)
    call.require(project_id=row.project_id)
    return row


def _alone(conn: Connection, do: Callable[..., Any], call: Call, limit_id: str, *rest: Any) -> Any:
    """`do` with the policy that a limit belongs to. Raises NotFound for the limit, whatever is not seen."""
    policy_id = bandwidth_limits.policy_of(conn, limit_id)
    if policy_id is None:
        raise bandwidth_limits.not_found(limit_id)
    try:
        return do(conn, call, policy_id, limit_id, *rest)
    except NotFound:
        raise bandwidth_limits.not_found(limit_id) from None


def views(conn: Connection, call: Call, rows: Sequence[BandwidthLimit]) -> list[Json]:
    return resource.views(conn, call, ATTRIBUTES, rows)


def views_in_policy(conn: Connection, call: Call, rows: Sequence[BandwidthLimit]) -> list[Json]:
    """As some of the rules, of whatever type, of a policy."""
    found = zip(rows, views(conn, call, rows), strict=True)
    return [{**view, "qos_policy_id": row.policy_id, "type": "bandwidth_limit"} for row, view in found]
