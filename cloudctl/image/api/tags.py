"""Tags of an image, one at a time."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound, OverQuota
from cloudctl.image import images as domain
from cloudctl.image import properties
from cloudctl.image.options import ImageOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

TAG_LENGTH = 255


def add(conn: Connection, call: Call, image_id: str, tag: str, most: int) -> None:
    """Raises NotFound, Forbidden, Invalid, OverQuota beyond `most` tags."""
    image = domain.own(conn, call.caller, image_id, "image:tags:add")
    if len(tag) > TAG_LENGTH:
        raise Invalid(f"A tag has at most {TAG_LENGTH} characters.")
    tags = properties.tags_of(conn, [image.id]).get(image.id, [])
    if tag in tags:
        return
    if len(tags) >= most:
        raise OverQuota(f"The limit of {most} tags of an image has been reached.")
    properties.set_tags(conn, image.id, [*tags, tag])
    domain.change(conn, image, {}, call.now)


def remove(conn: Connection, call: Call, image_id: str, tag: str) -> None:
    """Raises NotFound, Forbidden."""
    image = domain.own(conn, call.caller, image_id, "image:tags:delete")
    tags = properties.tags_of(conn, [image.id]).get(image.id, [])
    if tag not in tags:
        raise NotFound(f"The image {image.id} has no tag {tag[:64]!r}.")
    properties.set_tags(conn, image.id, [kept for kept in tags if kept != tag])
    domain.change(conn, image, {}, call.now)


@frozen
class Tags:
    routes = Routes("Tags")

    db: Database
    options: ImageOptions

    @routes.put("/images/<image_id>/tags/<tag>", policy="image:tags:add", status=204)
    async def add(self, call: Call, image_id: str, tag: str) -> None:
        """Add a tag."""
        await self.db.run(add, call, image_id, tag, self.options.max_tags)

    @routes.delete("/images/<image_id>/tags/<tag>", policy="image:tags:delete")
    async def remove(self, call: Call, image_id: str, tag: str) -> None:
        """Remove a tag."""
        await self.db.run(remove, call, image_id, tag)
