"""`/qos/policies/{id}/bandwidth_limit_rules`, and the same rules without their policy in the path.

Reference: network.md, section 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import ColumnElement

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import bandwidth_limits, qos_policies
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.bandwidth_limits import NewLimit
from cloudctl.network.tables import BandwidthLimit
from cloudctl.rest.body import MISSING, Body, Loose, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Listing, any_of, number
from cloudctl.rest.route import Routes

COLUMNS: dict[str, ColumnElement[Any]] = {
    "id": BandwidthLimit.id,
    "direction": BandwidthLimit.direction,
    "max_kbps": BandwidthLimit.max_kbps,
    "max_burst_kbps": BandwidthLimit.max_burst_kbps,
}
COLLECTION = lists.Collection(
    "bandwidth_limit_rules",
    Listing(
        BandwidthLimit.table,
        sort_keys=COLUMNS,
        order=(("id", "asc"),),
        filters={
            "id": any_of(BandwidthLimit.id),
            "direction": any_of(BandwidthLimit.direction),
            "max_kbps": number(BandwidthLimit.max_kbps),
            "max_burst_kbps": number(BandwidthLimit.max_burst_kbps),
        },
    ),
    bandwidth_limits.not_found,
)

Kilobits = Annotated[int, Loose(), Range(0)]
Direction = Literal["egress", "ingress"]

ALL = "/qos/policies/<policy_id>/bandwidth_limit_rules"
ONE = f"{ALL}/<limit_id>"
ALIAS = "/qos/alias_bandwidth_limit_rules/<limit_id>"


@frozen
class CreateLimit:
    max_kbps: Kilobits
    max_burst_kbps: Kilobits = 0
    direction: Direction = "egress"


@frozen
class UpdateLimit:
    max_kbps: Kilobits | Missing = MISSING
    max_burst_kbps: Kilobits | Missing = MISSING
    direction: Direction | Missing = MISSING


CREATE = Body(CreateLimit, "bandwidth_limit_rule")
UPDATE = Body(UpdateLimit, "bandwidth_limit_rule")


class BandwidthLimits:
    routes = Routes("QoS rules")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get(ALL, policy="network:qos_rules:show", pure=True)
    async def list(self, call: Call, policy_id: str) -> Json:
        """List the bandwidth limits of a policy."""
        return await self.db.scan(self._list, call, policy_id)

    def _list(self, conn: Connection, call: Call, policy_id: str) -> Json:
        policy = qos_policies.visible(conn, call.caller, policy_id)
        page = lists.fetch(conn, call, COLLECTION, BandwidthLimit.policy_id == policy.id)
        return lists.answer(call, COLLECTION, page, [view(row) for row in page.rows])

    @routes.post(ALL, policy="network:qos_rules:change", status=201, body=CREATE)
    async def create(self, call: Call, policy_id: str, body: CreateLimit) -> Json:
        """Add a bandwidth limit to a policy."""
        return {"bandwidth_limit_rule": await self.db.run(self._create, call, policy_id, body)}

    def _create(self, conn: Connection, call: Call, policy_id: str, body: CreateLimit) -> Json:
        policy = _held(conn, call, policy_id)
        wanted = NewLimit(body.max_kbps, body.max_burst_kbps, body.direction)
        return view(bandwidth_limits.add(conn, policy, wanted, call.now, call.caller))

    @routes.get(ONE, policy="network:qos_rules:show", pure=True)
    async def show(self, call: Call, policy_id: str, limit_id: str) -> Json:
        """Show a bandwidth limit."""
        return {"bandwidth_limit_rule": lists.narrowed(call, await self.db.read(self._show, call, policy_id, limit_id))}

    def _show(self, conn: Connection, call: Call, policy_id: str, limit_id: str) -> Json:
        return view(bandwidth_limits.get(conn, qos_policies.visible(conn, call.caller, policy_id), limit_id))

    @routes.put(ONE, policy="network:qos_rules:change", body=UPDATE)
    async def update(self, call: Call, policy_id: str, limit_id: str, body: UpdateLimit) -> Json:
        """Change a bandwidth limit; ports are held to the new one at once."""
        return {"bandwidth_limit_rule": await self.db.run(self._update, call, policy_id, limit_id, body)}

    def _update(self, conn: Connection, call: Call, policy_id: str, limit_id: str, body: UpdateLimit) -> Json:
        policy = _held(conn, call, policy_id)
        row, changes = bandwidth_limits.get(conn, policy, limit_id), given(body)
        if changes:
            row = bandwidth_limits.change(conn, policy, row, changes, call.now, call.caller)
        return view(row)

    @routes.delete(ONE, policy="network:qos_rules:change")
    async def delete(self, call: Call, policy_id: str, limit_id: str) -> None:
        """Take a bandwidth limit out of its policy."""
        await self.db.run(self._delete, call, policy_id, limit_id)

    def _delete(self, conn: Connection, call: Call, policy_id: str, limit_id: str) -> None:
        policy = _held(conn, call, policy_id)
        row = bandwidth_limits.get(conn, policy, limit_id)
        bandwidth_limits.remove(conn, policy, row, call.now, call.caller)

    # -- without the policy in the path

    @routes.get(ALIAS, policy="network:qos_rules:show", pure=True)
    async def show_alone(self, call: Call, limit_id: str) -> Json:
        """Show a bandwidth limit whose policy one does not know."""
        found = await self.db.read(_alone, self._show, call, limit_id)
        return {"bandwidth_limit_rule": lists.narrowed(call, found)}

    @routes.put(ALIAS, policy="network:qos_rules:change", body=UPDATE)
    async def update_alone(self, call: Call, limit_id: str, body: UpdateLimit) -> Json:
        """Change a bandwidth limit whose policy one does not know."""
        return {"bandwidth_limit_rule": await self.db.run(_alone, self._update, call, limit_id, body)}

    @routes.delete(ALIAS, policy="network:qos_rules:change")
    async def delete_alone(self, call: Call, limit_id: str) -> None:
        """Delete a bandwidth limit whose policy one does not know."""
        await self.db.run(_alone, self._delete, call, limit_id)


def _held(conn: Connection, call: Call, policy_id: str) -> Any:
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


def view(row: BandwidthLimit) -> Json:
    return {
        "id": row.id,
        "max_kbps": row.max_kbps,
        "max_burst_kbps": row.max_burst_kbps,
        "direction": row.direction,
    }


def view_in_policy(row: BandwidthLimit) -> Json:
    """As one of the rules, of whatever type, of a policy."""
    return {**view(row), "qos_policy_id": row.policy_id, "type": "bandwidth_limit"}
