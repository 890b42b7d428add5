"""How open a bucket may be, whatever its access list and its policy say. Reference: AWS, «PutPublicAccessBlock»,
«PutBucketOwnershipControls», «GetBucketPolicyStatus».
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.object_store import bucket_policy, exposure
from cloudctl.object_store.api.s3 import acls, xml
from cloudctl.object_store.api.s3.buckets import BUCKET, SHOW, UPDATE, answered, change
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.exposure import Block
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.tables import Container
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

# The names of the fields of a Block in XML.
FIELDS: Final = {
    "BlockPublicAcls": "set_lists",
    "IgnorePublicAcls": "lists",
    "BlockPublicPolicy": "set_policies",
    "RestrictPublicBuckets": "policies",
}


@frozen
class Exposure:
    routes = Routes("S3: how open buckets may be")

    door: S3Door
    documents: Documents
    intake: Intake

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="publicAccessBlock")
    async def show_block(self, call: Call, bucket: str) -> Reply:
        """Show what a bucket blocks for the public."""
        _, container = await self.door.own(call, bucket)
        block = exposure.of(container)
        if block is None:
            raise error("NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")
        said = {name: getattr(block, field) for name, field in FIELDS.items()}
        return answered(element("PublicAccessBlockConfiguration", **said))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="publicAccessBlock", raw=True)
    async def set_block(self, call: Call, bucket: str) -> Reply:
        """Set what a bucket blocks for the public."""
        place, _ = await self.door.own(call, bucket)
        root = await self.documents.read(call, "PublicAccessBlockConfiguration")
        block = Block(**{field: _flag(root, name) for name, field in FIELDS.items()})
        await self.intake.db.run(change, place, {exposure.KEPT_BLOCK: block.keep()}, call.now)
        return Reply(None, 200)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="publicAccessBlock")
    async def remove_block(self, call: Call, bucket: str) -> Reply:
        """Remove the public access block of a bucket."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {exposure.KEPT_BLOCK: None}, call.now)
        return Reply(None, 204)

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="policyStatus")
    async def policy_status(self, call: Call, bucket: str) -> Reply:
        """Show whether the policy of a bucket opens it to the public."""
        _, container = await self.door.own(call, bucket)
        policy = bucket_policy.of(container)
        if policy is None:
            raise error("NoSuchBucketPolicy", "The bucket policy does not exist")
        return answered(element("PolicyStatus", IsPublic=exposure.is_public(policy)))

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="ownershipControls")
    async def show_ownership(self, call: Call, bucket: str) -> Reply:
        """Show whether a bucket has access lists."""
        _, container = await self.door.own(call, bucket)
        kept = container.headers.get(exposure.KEPT_OWNERSHIP)
        if kept is None:
            raise error("OwnershipControlsNotFoundError", "The bucket ownership controls were not found")
        return answered(element("OwnershipControls", element("Rule", ObjectOwnership=kept)))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="ownershipControls", raw=True)
    async def set_ownership(self, call: Call, bucket: str) -> Reply:
        """Set whether a bucket has access lists."""
        place, _ = await self.door.own(call, bucket)
        root = await self.documents.read(call, "OwnershipControls")
        rules = root.findall("Rule")
        if len(rules) != 1:
            raise error("MalformedXML", "There is one rule.")
        wanted = xml.text_of(rules[0], "ObjectOwnership")

        def check(container: Container) -> None:
            acls.ownership(wanted, container.headers)

        await self.intake.db.run(change, place, {exposure.KEPT_OWNERSHIP: wanted}, call.now, check)
        return Reply(None, 200)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="ownershipControls")
    async def remove_ownership(self, call: Call, bucket: str) -> Reply:
        """Allow access lists for a bucket again."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {exposure.KEPT_OWNERSHIP: None}, call.now)
        return Reply(None, 204)


def _flag(root: Element, name: str) -> bool:
    """Raises MalformedXML."""
    text = xml.text_of(root, name).lower() or "false"
    if text not in ("true", "false"):
        raise error("MalformedXML", f"{name} is true or false.")
    return text == "true"
