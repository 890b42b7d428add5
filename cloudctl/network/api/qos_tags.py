"""`/qos/policies/{id}/tags`: the same as `/policies/{id}/tags`, at the path that some clients use.

Reference: network.md, section 17.
"""

from __future__ import annotations

from attrs import frozen

from cloudctl.network.api.attributes import Json
from cloudctl.network.api.tags import ManyTags, ResourceTags
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

COLLECTION = "policies"
TAGS = "/qos/policies/<policy_id>/tags"
TAG = f"{TAGS}/<tag>"


@frozen
class QosPolicyTags:
    routes = Routes("Tags")

    tags: ResourceTags

    @routes.get(TAGS, policy="network:tags:list")
    async def list(self, call: Call, policy_id: str) -> Json:
        """List the tags of a QoS policy."""
        return await self.tags.list(call, COLLECTION, policy_id)

    @routes.put(TAGS, policy="network:tags:change", body=Body(ManyTags))
    async def replace(self, call: Call, policy_id: str, body: ManyTags) -> Json:
        """Replace all tags of a QoS policy."""
        return await self.tags.replace(call, COLLECTION, policy_id, body)

    @routes.post(TAGS, policy="network:tags:change", status=201, body=Body(ManyTags))
    async def add(self, call: Call, policy_id: str, body: ManyTags) -> Json:
        """Add tags to a QoS policy."""
        return await self.tags.add(call, COLLECTION, policy_id, body)

    @routes.delete(TAGS, policy="network:tags:change")
    async def clear(self, call: Call, policy_id: str) -> None:
        """Remove all tags from a QoS policy."""
        await self.tags.clear(call, COLLECTION, policy_id)

    @routes.get(TAG, policy="network:tags:list", status=204)
    async def has(self, call: Call, policy_id: str, tag: str) -> None:
        """Check whether a QoS policy has a tag."""
        await self.tags.has(call, COLLECTION, policy_id, tag)

    @routes.put(TAG, policy="network:tags:change", status=201)
    async def set(self, call: Call, policy_id: str, tag: str) -> None:
        """Add one tag to a QoS policy."""
        await self.tags.set(call, COLLECTION, policy_id, tag)

    @routes.delete(TAG, policy="network:tags:change")
    async def remove(self, call: Call, policy_id: str, tag: str) -> None:
        """Remove one tag from a QoS policy."""
        await self.tags.remove(call, COLLECTION, policy_id, tag)
