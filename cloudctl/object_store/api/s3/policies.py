"""Policies of buckets in S3. For the supported part of their language, see `object_store/bucket_policy.py`."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from cloudctl.object_store import bucket_policy, exposure
from cloudctl.object_store.api.s3.buckets import BUCKET, SHOW, UPDATE, change
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.bucket_policy import Policy
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.tables import Container
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes


@frozen
class Policies:
    routes = Routes("S3: policies of buckets")

    door: S3Door
    documents: Documents
    intake: Intake

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="policy")
    async def show(self, call: Call, bucket: str) -> Reply:
        """Show the policy of a bucket."""
        _, container = await self.door.own(call, bucket)
        kept = container.headers.get(bucket_policy.KEPT)
        if kept is None:
            raise error("NoSuchBucketPolicy", "The bucket policy does not exist")
        return Reply(kept.encode(), headers=(("Content-Type", "application/json"),))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="policy", raw=True, status=204)
    async def set(self, call: Call, bucket: str) -> Reply:
        """Set who may or may not do what with the objects of a bucket."""
        place, _ = await self.door.own(call, bucket)
        data = (await self.documents.data(call)).finish()
        data.seek(0)
        try:
            text = data.read(bucket_policy.MOST + 1).decode()
            policy = bucket_policy.parse(text, place.container)
        except (UnicodeDecodeError, bucket_policy.Malformed) as why:
            raise error("MalformedPolicy", str(why)) from None
        await self.intake.db.run(change, place, {bucket_policy.KEPT: text}, call.now, partial(_check, policy))
        return Reply(None, 204)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="policy")
    async def remove(self, call: Call, bucket: str) -> Reply:
        """Remove the policy of a bucket."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {bucket_policy.KEPT: None}, call.now)
        return Reply(None, 204)


def _check(policy: Policy, container: Container) -> None:
    """Raises AccessDenied."""
    block = exposure.of(container)
    if block is not None and block.set_policies and exposure.is_public(policy):
        raise error("AccessDenied", "Public policies are blocked by the BlockPublicPolicy setting of the bucket.")
