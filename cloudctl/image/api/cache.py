"""The cache of images: there is none, for all stores of this cloud are near. Reference: image.md, section 3."""

from __future__ import annotations

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


def nothing_cached() -> NotFound:
    """In the place of an empty cache, which would let one wait for images to come into it."""
    return NotFound("Images are not cached at this site: all of its stores are read where they are.")


@frozen
class Cache:
    routes = Routes("Cache")

    @routes.get("/cache", policy="image:cache:list")
    async def list(self, call: Call) -> None:
        """List what is cached: 404, for nothing needs to be."""
        raise nothing_cached()

    @routes.delete("/cache", policy="image:cache:delete")
    async def clear(self, call: Call) -> None:
        """Empty the cache: 404, for there is none."""
        raise nothing_cached()

    @routes.put("/cache/<image_id>", policy="image:cache:queue", status=202)
    async def queue(self, call: Call, image_id: str) -> None:
        """Have an image cached: 404, for nothing needs to be."""
        raise nothing_cached()

    @routes.delete("/cache/<image_id>", policy="image:cache:delete")
    async def delete(self, call: Call, image_id: str) -> None:
        """Drop an image from the cache: 404, for there is none."""
        raise nothing_cached()
