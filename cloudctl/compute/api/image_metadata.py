"""The metadata of images as compute once showed it, until 2.38, and their deletion, until 2.35.

Reference: compute.md, section 17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from cloudctl.compute import quotas
from cloudctl.compute.api.server_bodies import Metadata
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images, patching, properties
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

LAST = (2, 38)
ALL, ONE = "/images/<image_id>/metadata", "/images/<image_id>/metadata/<key>"
Edit = Callable[[Mapping[str, str]], Mapping[str, str]]


@frozen
class ImageMetadata:
    routes = Routes("Images (deprecated)")

    db: Database

    @routes.delete("/images/<image_id>", policy="compute:images:manage", until=(2, 35))
    async def delete_image(self, call: Call, image_id: str) -> None:
        """Delete an image."""
        await self.db.run(_delete, call, image_id)

    @routes.get(ALL, policy="compute:images:show", until=LAST)
    async def list(self, call: Call, image_id: str) -> dict[str, Any]:
        """List the metadata of an image."""
        return {"metadata": await self.db.read(_all, call, image_id)}

    @routes.post(ALL, policy="compute:images:manage", until=LAST, body=Body(Metadata, key="metadata"))
    async def merge(self, call: Call, image_id: str, body: dict[str, str]) -> dict[str, Any]:
        """Add to the metadata of an image."""
        return {"metadata": await self.db.run(_change, call, image_id, lambda old: {**old, **body})}

    @routes.put(ALL, policy="compute:images:manage", until=LAST, body=Body(Metadata, key="metadata"))
    async def replace(self, call: Call, image_id: str, body: dict[str, str]) -> dict[str, Any]:
        """Replace the metadata of an image."""
        return {"metadata": await self.db.run(_change, call, image_id, lambda old: body)}

    @routes.get(ONE, policy="compute:images:show", until=LAST)
    async def show(self, call: Call, image_id: str, key: str) -> dict[str, Any]:
        """Show one item of the metadata of an image."""
        found = await self.db.read(_all, call, image_id)
        return {"meta": {key: _item(found, key)}}

    @routes.put(ONE, policy="compute:images:manage", until=LAST, body=Body(Metadata, key="meta"))
    async def set(self, call: Call, image_id: str, key: str, body: dict[str, str]) -> dict[str, Any]:
        """Set one item of the metadata of an image."""
        if body.keys() != {key}:
            raise Invalid("Request body and URI mismatch")
        await self.db.run(_change, call, image_id, lambda old: {**old, **body})
        return {"meta": body}

    @routes.delete(ONE, policy="compute:images:manage", until=LAST)
    async def delete(self, call: Call, image_id: str, key: str) -> None:
        """Delete one item of the metadata of an image."""
        await self.db.run(_change, call, image_id, lambda old: _without(old, key))


def _item(found: Mapping[str, str], key: str) -> str:
    if key not in found:
        raise NotFound(f"Metadata item {key[:255]} was not found")
    return found[key]


def _without(old: Mapping[str, str], key: str) -> dict[str, str]:
    _item(old, key)
    return {name: value for name, value in old.items() if name != key}


def _found(image_id: str) -> NotFound:
    return NotFound(f"Image {image_id[:64]} could not be found.")


def _all(conn: Connection, call: Call, image_id: str) -> dict[str, str]:
    try:
        row = images.visible(conn, call.caller, image_id)
    except NotFound:
        raise _found(image_id) from None
    return properties.of(conn, [row.id])[row.id]


def _change(conn: Connection, call: Call, image_id: str, edit: Edit) -> dict[str, str]:
    """Raises NotFound, Forbidden, OverQuota."""
    _all(conn, call, image_id)
    row = images.own(conn, call.caller, image_id, "image:images:update")
    old = properties.of(conn, [row.id])[row.id]
    wanted = dict(edit(old))
    for name in wanted.keys() - old.keys():
        patching.check_name(name)
        if name in patching.WRITABLE:
            raise Invalid(f"{name} is a field of the image, not metadata.")
    quotas.check_metadata(conn, call.project_id, len(wanted))
    properties.change(conn, row.id, wanted, old.keys() - wanted.keys())
    images.change(conn, row, {}, call.now)
    return wanted


def _delete(conn: Connection, call: Call, image_id: str) -> None:
    _all(conn, call, image_id)
    images.remove(conn, images.own(conn, call.caller, image_id, "image:images:delete"), call.caller)
