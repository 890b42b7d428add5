"""The cache of images, for administrators."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Database
from cloudctl.db.columns import seconds
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import cache as domain
from cloudctl.image.data import ImageData
from cloudctl.image.tables import CachedImage
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

TARGET_HEADER = "x-image-cache-clear-target"
CACHE, QUEUE = "cache", "queue"


def view(cached: CachedImage) -> dict[str, Any]:
    """Times are seconds since the epoch; 0: never."""
    return {
        "image_id": cached.image_id,
        "hits": cached.hits,
        "size": cached.size,
        "last_accessed": seconds(cached.read_at) if cached.read_at else 0.0,
        "last_modified": seconds(cached.cached_at) if cached.cached_at else 0.0,
    }


@frozen
class Cache:
    routes = Routes("Cache")

    db: Database
    data: ImageData

    @routes.get("/cache", policy="image:cache:list")
    async def list(self, call: Call) -> dict[str, Any]:
        """List the images that have a copy in the cache, and those that wait for one."""
        self._demand()
        found = await self.db.scan(domain.listed)
        return {
            "cached_images": [view(each) for each in found if each.cached_at is not None],
            "queued_images": [each.image_id for each in found if each.cached_at is None],
        }

    @routes.put("/cache/<image_id>", policy="image:cache:queue", status=202)
    async def queue(self, call: Call, image_id: str) -> None:
        """Have an image copied into the cache."""
        self._demand()
        await self.db.run(domain.queue, call.caller, image_id)

    @routes.delete("/cache/<image_id>", policy="image:cache:delete")
    async def remove(self, call: Call, image_id: str) -> None:
        """Remove an image from the cache, or from its queue."""
        self._demand()
        await self.db.run(domain.remove, image_id)
        await self.data.run(self.data.stores.forget_near, image_id)

    @routes.delete("/cache", policy="image:cache:clear")
    async def clear(self, call: Call) -> None:
        """Empty the cache, its queue, or both, as the header x-image-cache-clear-target says."""
        self._demand()
        target = call.header(TARGET_HEADER) or ""
        if target not in ("", CACHE, QUEUE):
            raise Invalid(f"{TARGET_HEADER} is {CACHE} or {QUEUE}, or is not sent: then both are meant.")
        for image_id in await self.db.run(domain.clear, cached=target != QUEUE, queued=target != CACHE):
            await self.data.run(self.data.stores.forget_near, image_id)

    def _demand(self) -> None:
        if self.data.stores.cache is None:
            raise NotFound("This cloud caches no images.")
