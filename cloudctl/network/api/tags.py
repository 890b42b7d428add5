"""`/{collection}/{id}/tags`. Reference: network.md, section 17."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import frozen
from sqlalchemy import Table

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import (
    floating_ips,
    networks,
    ports,
    qos_policies,
    routers,
    security_groups,
    segment_ranges,
    standard,
    subnet_pools,
    subnets,
    tags,
    trunks,
)
from cloudctl.network.api.attributes import Json, Tags
from cloudctl.network.extension_tables import SegmentRange
from cloudctl.network.tables import (
    FloatingIp,
    Network,
    Port,
    QosPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
    Trunk,
)
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.route import Routes


@frozen
class Tagged:
    """A collection whose records have tags: `visible(conn, caller, id, lock=…)` raises NotFound.

    `sight`: a rule for operators, as that of the resource; every id is not found for others.
    """

    table: Table
    visible: Callable[..., Any]
    sight: str | None = None


def _range(conn: Connection, caller: Caller, id: str, lock: bool = False) -> SegmentRange:
    return segment_ranges.RECORDS.get(conn, id, lock=lock)


_RANGES = Tagged(SegmentRange.table, _range, "network:network_segment_ranges:see")


TAGGED = {
    "networks": Tagged(Network.table, networks.visible),
    "subnets": Tagged(Subnet.table, subnets.visible),
    "ports": Tagged(Port.table, ports.visible),
    "routers": Tagged(Router.table, routers.visible),
    "floatingips": Tagged(FloatingIp.table, floating_ips.visible),
    "policies": Tagged(QosPolicy.table, qos_policies.visible),
    "trunks": Tagged(Trunk.table, trunks.visible),
    "subnetpools": Tagged(SubnetPool.table, subnet_pools.visible),
    "security-groups": Tagged(SecurityGroup.table, security_groups.visible),
    "security-group-rules": Tagged(SecurityGroupRule.table, security_groups.visible_rule),
    "network_segment_ranges": _RANGES,
    "network-segment-ranges": _RANGES,
}


@frozen
class ManyTags:
    tags: Tags


TAGS = "/<collection>/<resource_id>/tags"
TAG = f"{TAGS}/<tag>"


@frozen
class ResourceTags:
    routes = Routes("Tags")

    db: Database

    @routes.get(TAGS, policy="network:tags:list")
    async def list(self, call: Call, collection: str, resource_id: str) -> Json:
        """List the tags of a record."""
        return {"tags": await self.db.read(self._of, call, collection, resource_id)}

    @routes.put(TAGS, policy="network:tags:change", body=Body(ManyTags))
    async def replace(self, call: Call, collection: str, resource_id: str, body: ManyTags) -> Json:
        """Replace all tags of a record."""
        return {"tags": await self.db.run(self._change, call, collection, resource_id, tags.replace, body.tags)}

    @routes.post(TAGS, policy="network:tags:change", status=201, body=Body(ManyTags))
    async def add(self, call: Call, collection: str, resource_id: str, body: ManyTags) -> Json:
        """Add tags to a record."""
        return {"tags": await self.db.run(self._change, call, collection, resource_id, tags.add, body.tags)}

    @routes.delete(TAGS, policy="network:tags:change")
    async def clear(self, call: Call, collection: str, resource_id: str) -> None:
        """Remove all tags from a record."""
        await self.db.run(self._change, call, collection, resource_id, tags.replace, [])

    @routes.get(TAG, policy="network:tags:list", status=204)
    async def has(self, call: Call, collection: str, resource_id: str, tag: str) -> None:
        """Check whether a record has a tag."""
        if tag not in await self.db.read(self._of, call, collection, resource_id):
            raise tags.not_found(tag)

    @routes.put(TAG, policy="network:tags:change", status=201)
    async def set(self, call: Call, collection: str, resource_id: str, tag: str) -> None:
        """Add one tag to a record."""
        if len(tag) > tags.LENGTH:
            raise Invalid(f"Invalid input for tags. Reason: a tag has at most {tags.LENGTH} characters.")
        await self.db.run(self._change, call, collection, resource_id, tags.add, [tag])

    @routes.delete(TAG, policy="network:tags:change")
    async def remove(self, call: Call, collection: str, resource_id: str, tag: str) -> None:
        """Remove one tag from a record."""
        await self.db.run(self._change, call, collection, resource_id, tags.remove, tag)

    def _seen(self, conn: Connection, call: Call, collection: str, resource_id: str, lock: bool = False) -> Any:
        tagged = TAGGED.get(collection)
        if tagged is None:
            raise NotFound("The resource could not be found.")
        if tagged.sight is None or call.may(tagged.sight):
            with suppress(NotFound):
                return tagged.visible(conn, call.caller, resource_id, lock)
        raise NotFound(f"Resource {collection} {resource_id[:64]} could not be found.", type="TagResourceNotFound")

    def _of(self, conn: Connection, call: Call, collection: str, resource_id: str) -> Any:
        row = self._seen(conn, call, collection, resource_id)
        return tags.of(conn, [row.id]).get(row.id, [])

    def _change(
        self, conn: Connection, call: Call, collection: str, resource_id: str, change: Callable[..., Any], value: Any
    ) -> Any:
        # Others who change its tags wait, as does who deletes it.
        row = self._seen(conn, call, collection, resource_id, lock=True)
        call.require(project_id=row.project_id)
        found = change(conn, row.id, value)
        standard.change(conn, TAGGED[collection].table, row.id, call.now)
        return found
