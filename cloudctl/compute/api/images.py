"""Images as compute once showed them: for clients that ask for 2.35 or less. Reference: compute.md, section 17."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import field, frozen
from sqlalchemy import select

from cloudctl.compute.api import query
from cloudctl.compute.api.server_filters import time
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.image import images
from cloudctl.image import listing as image_listing
from cloudctl.image.images import Image
from cloudctl.image.tables import ImageProperty
from cloudctl.rest.call import Call
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import Condition, Page, paging
from cloudctl.rest.route import Routes

LAST = (2, 35)
QUERY = (
    "name", "status", "server", "type", "changes-since", "minRam", "minDisk", "limit", "marker", "sort_key", "sort_dir",
)  # fmt: skip
# Precedes the name of a property to filter by.
PROPERTY = "property-"

# Status of the image service → (status, progress in percent).
STATUSES = {
    "active": ("ACTIVE", 100),
    "queued": ("SAVING", 25),
    "saving": ("SAVING", 50),
    "uploading": ("SAVING", 50),
    "importing": ("SAVING", 50),
}


def brief(call: Call, id: str, name: str | None) -> dict[str, Any]:
    alternate = {
        "rel": "alternate",
        "type": "application/vnd.openstack.image",
        "href": f"{call.host_url}/image/v2/images/{id}",
    }
    return {"id": id, "name": name, "links": [*query.resource_links(call, "images", id), alternate]}


def view(call: Call, image: Image) -> dict[str, Any]:
    row = image.row
    status, progress = STATUSES.get(row.status, ("UNKNOWN", 0))
    shown = {
        **brief(call, row.id, row.name),
        "status": status,
        "progress": progress,
        "minDisk": row.min_disk,
        "minRam": row.min_ram,
        "metadata": dict(image.properties),
        "created": zulu(row.created_at),
        "updated": zulu(row.updated_at),
        "OS-EXT-IMG-SIZE:size": row.size or 0,
    }
    server_id = image.properties.get("instance_uuid")
    if server_id:
        shown["server"] = {"id": server_id, "links": query.resource_links(call, "servers", server_id)}
    return shown


@frozen
class ImagesProxy:
    routes = Routes("Images (deprecated)")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/images", policy="compute:images:list", until=LAST, query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List images."""
        page = await self.db.scan(self._page, call)
        shown = [brief(call, row.id, row.name) for row in page.rows]
        return {"images": shown, **query.links(call, page, "images_links")}

    @routes.get("/images/detail", policy="compute:images:list", until=LAST, query=QUERY)
    async def detail(self, call: Call) -> dict[str, Any]:
        """List images in full."""
        page, found = await self.db.scan(self._detail, call)
        return {"images": [view(call, image) for image in found], **query.links(call, page, "images_links")}

    def _detail(self, conn: Connection, call: Call) -> tuple[Page, Sequence[Image]]:
        page = self._page(conn, call)
        return page, images.full(conn, page.rows)

    def _page(self, conn: Connection, call: Call) -> Page:
        asked = paging(call, query.limits(self.options))
        return query.page(conn, image_listing.LISTING, asked, *_conditions(call))

    @routes.get("/images/<image_id>", policy="compute:images:show", until=LAST)
    async def show(self, call: Call, image_id: str) -> dict[str, Any]:
        """Show one image."""
        return {"image": view(call, await self.db.read(_one, call, image_id))}


def _conditions(call: Call) -> list[Condition]:
    table = image_listing.LISTING.table
    visible = image_listing.shown(call.caller, call.query.get("visibility"), call.query.get("member_status"))
    found = [visible, table.c.os_hidden.is_(False)]
    if (name := call.query.get("name")) is not None:
        found.append(table.c.name == name)
    if (status := call.query.get("status")) is not None:
        words = [word for word, (shown, _) in STATUSES.items() if shown == status.upper()]
        found.append(table.c.status.in_(words))
    for parameter, column in (("minRam", table.c.min_ram), ("minDisk", table.c.min_disk)):
        if (least := call.query.integer(parameter)) is not None:
            found.append(column >= least)
    if (since := call.query.get("changes-since")) is not None:
        found.append(table.c.updated_at >= time("changes-since", since))
    return [*found, *(_having(name, value) for name, value in _asked_properties(call))]


def _asked_properties(call: Call) -> Iterator[tuple[str, str]]:
    """The properties to filter by; `server` (its id, or a link to it) and `type` are properties as well."""
    if (server := call.query.get("server")) is not None:
        yield "instance_uuid", server.rpartition("/")[2]
    if (kind := call.query.get("type")) is not None:
        yield "image_type", kind
    for name in call.query:
        if name.startswith(PROPERTY) and (value := call.query.get(name)) is not None:
            yield name.removeprefix(PROPERTY), value


def _having(name: str, value: str) -> Condition:
    said = ImageProperty.name == name, ImageProperty.value == value
    return image_listing.LISTING.table.c.id.in_(select(ImageProperty.image_id).where(*said))


def _one(conn: Connection, call: Call, image_id: str) -> Image:
    try:
        row = images.visible(conn, call.caller, image_id)
    except NotFound:
        raise NotFound(f"Image {image_id[:64]} could not be found.") from None
    return images.full(conn, [row])[0]
