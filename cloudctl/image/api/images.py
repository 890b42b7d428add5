"""Images: records, without their data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid, OverQuota, TooLarge, UnsupportedMediaType
from cloudctl.image import images as domain
from cloudctl.image import patching, properties
from cloudctl.image.api import listing, locations
from cloudctl.image.api.locations import Asking
from cloudctl.image.api.stores import offers
from cloudctl.image.images import COMMUNITY, PUBLIC, QUEUED, Image, NewImage
from cloudctl.image.listing import FILTERS, OTHERS
from cloudctl.image.options import ImageOptions
from cloudctl.image.patching import (
    LOCATIONS,
    MEDIA_TYPES,
    V20,
    WRITABLE,
    ContainerFormat,
    DiskFormat,
    Draft,
    Operation,
    Tags,
    Visibility,
)
from cloudctl.rest.body import MISSING, Body, Length, Missing, Range, Uuid, extra, given
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.decoding import parse
from cloudctl.rest.formats import zulu
from cloudctl.rest.pipeline import JSON_LIMIT
from cloudctl.rest.route import Routes


@frozen
class CreateImage:
    id: Uuid | Missing = MISSING
    name: Annotated[str, Length(0, 255)] | Missing | None = MISSING
    owner: Annotated[str, Length(1, 255)] | Missing | None = MISSING
    visibility: Visibility | Missing = MISSING
    protected: bool | Missing = MISSING
    os_hidden: bool | Missing = MISSING
    container_format: ContainerFormat | Missing | None = MISSING
    disk_format: DiskFormat | Missing | None = MISSING
    min_disk: Annotated[int, Range(0)] | Missing = MISSING
    min_ram: Annotated[int, Range(0)] | Missing = MISSING
    tags: Tags | Missing = MISSING
    properties: Mapping[str, Any] = extra()


def view(image: Image, locations: Sequence[Any] | None = None) -> dict[str, Any]:
    """`locations`: as they are shown; None: they are not shown."""
    row = image.row
    path = f"/v2/images/{row.id}"
    # What describes stores appears once there is something to show.
    told = {
        "stores": ",".join(row.stores) or None,
        "os_glance_importing_to_stores": row.importing_to,
        "os_glance_failed_import": row.failed_import,
        "locations": locations,
    }
    return {
        **image.properties,
        **{name: value for name, value in told.items() if value is not None},
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "visibility": row.visibility,
        "owner": row.owner,
        "protected": row.protected,
        "os_hidden": row.os_hidden,
        "container_format": row.container_format,
        "disk_format": row.disk_format,
        "size": row.size,
        "virtual_size": row.virtual_size,
        "min_disk": row.min_disk,
        "min_ram": row.min_ram,
        "checksum": row.checksum,
        "os_hash_algo": row.os_hash_algo,
        "os_hash_value": row.os_hash_value,
        "tags": image.tags,
        "created_at": zulu(row.created_at),
        "updated_at": zulu(row.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


# -- rules


def new_image(call: Call, body: CreateImage, options: ImageOptions) -> NewImage:
    """The image that a body requests. Raises Forbidden, Invalid, BodyError, OverQuota."""
    for name, value in body.properties.items():
        patching.check_name(name)
        if not 1 <= len(name) <= 255:
            raise Invalid("A property's name has 1 to 255 characters.")
        patching.property_value(name, value)
    fields = given(body)
    fields["owner"] = fields.get("owner") or call.project_id or None
    check_owner(call, fields["owner"])
    check_visibility(call, fields.get("visibility"), fields["owner"])
    check_counts(options, body.properties, fields.get("tags", ()))
    return NewImage(**fields)


def check_owner(call: Call, owner: str | None) -> None:
    """Only some callers may make images for other projects. Raises Forbidden."""
    if owner != (call.project_id or None) and not call.may("image:images:give"):
        raise Forbidden("You are not permitted to make an image of another project.")


def check_visibility(call: Call, visibility: str | None, owner: str | None) -> None:
    """Raises Forbidden."""
    if visibility == PUBLIC:
        call.require("image:images:publicize", project_id=owner or "")
    if visibility == COMMUNITY:
        call.require("image:images:communitize", project_id=owner or "")


def check_counts(options: ImageOptions, given: Mapping[str, str], tags: Any) -> None:
    """Raises OverQuota."""
    if len(given) > options.max_properties:
        raise OverQuota(f"The limit of {options.max_properties} properties of an image has been exceeded.")
    if len(set(tags)) > options.max_tags:
        raise OverQuota(f"The limit of {options.max_tags} tags of an image has been exceeded.")


# -- transactions


def create(conn: Connection, call: Call, new: NewImage) -> Image:
    domain.create(conn, new, call.now)
    return domain.full(conn, [domain.get(conn, new.id)])[0]


def show(conn: Connection, call: Call, image_id: str) -> Image:
    return domain.full(conn, [domain.visible(conn, call.caller, image_id)])[0]


def update(
    conn: Connection, call: Call, image_id: str, wanted: list[Operation], asking: Asking, adds_once: bool
) -> Image:
    """Apply a patch. Raises NotFound, Forbidden, Conflict, Invalid, BodyError, OverQuota."""
    row = domain.own(conn, call.caller, image_id, "image:images:update")
    (image,) = domain.full(conn, [row])
    now = {name: list(image.tags) if name == "tags" else getattr(row, name) for name in WRITABLE}
    draft = Draft(dict(now), dict(image.properties))
    shows = asking.options.show_multiple_locations  # where locations are not shown they cannot be named
    located = [each for each in wanted if shows and each.name == LOCATIONS]
    patching.apply(draft, [each for each in wanted if each not in located], adds_once=adds_once)
    fields = draft.fields
    if row.status != QUEUED and {"container_format", "disk_format"} & draft.touched:
        raise Forbidden(f"The formats of the image {row.id} cannot change: it is {row.status}.")
    if "owner" in draft.touched and not call.may("image:images:give"):
        raise Forbidden("You are not permitted to change the owner of an image.")
    if "visibility" in draft.touched and fields["visibility"] != row.visibility:
        check_visibility(call, fields["visibility"], row.owner)
    check_counts(asking.options, draft.properties, fields["tags"])
    tags = fields.pop("tags")
    if "tags" in draft.touched:
        properties.set_tags(conn, row.id, tags)
    changed = {name: value for name, value in draft.properties.items() if image.properties.get(name) != value}
    properties.change(conn, row.id, changed, image.properties.keys() - draft.properties.keys())
    domain.change(conn, row, {name: fields[name] for name in draft.touched - {"tags"}}, call.now)
    for each in located:
        locations.patch(conn, call.caller, row.id, each, asking)
    return domain.full(conn, [domain.get(conn, row.id)])[0]


def remove(conn: Connection, call: Call, image_id: str) -> None:
    row = domain.own(conn, call.caller, image_id, "image:images:delete")
    domain.remove(conn, row, call.caller)


def block(conn: Connection, call: Call, image_id: str, blocked: bool) -> None:
    rule = "image:images:deactivate" if blocked else "image:images:reactivate"
    domain.block(conn, domain.own(conn, call.caller, image_id, rule), call.now, blocked=blocked)


@frozen
class Images:
    routes = Routes("Images")

    db: Database
    asking: Asking

    def _view(self, image: Image) -> dict[str, Any]:
        shows = self.asking.options.show_multiple_locations
        return view(image, locations.view(image.row, self.asking.stores) if shows else None)

    @routes.get("/images", policy="image:images:list", pure=True, query=(*FILTERS, *OTHERS))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the images."""
        found, more = await self.db.scan(listing.page, call)
        answer = {
            "images": [self._view(image) for image in found],
            "schema": "/v2/schemas/images",
            "first": _link(call, None),
        }
        if more and found:
            answer["next"] = _link(call, found[-1].row.id)
        return answer

    @routes.post("/images", policy="image:images:create", body=Body(CreateImage), status=201)
    async def create(self, call: Call, body: CreateImage) -> Reply:
        """Register an image without data."""
        image = await self.db.run(create, call, new_image(call, body, self.asking.options))
        location = f"{call.root_url}/v2/images/{image.row.id}"
        return Reply(self._view(image), headers=(("Location", location), *offers(self.asking.stores)))

    @routes.get("/images/<image_id>", policy="image:images:show", pure=True)
    async def show(self, call: Call, image_id: str) -> dict[str, Any]:
        """Show an image."""
        return self._view(await self.db.read(show, call, image_id))

    @routes.patch("/images/<image_id>", policy="image:images:update", raw=True)
    async def update(self, call: Call, image_id: str) -> dict[str, Any]:
        """Change an image with a JSON patch."""
        media = _patch_type(call)
        wanted = patching.operations(media, parse(_content(call)))
        return self._view(await self.db.run(update, call, image_id, wanted, self.asking, media == V20))

    @routes.delete("/images/<image_id>", policy="image:images:delete")
    async def remove(self, call: Call, image_id: str) -> None:
        """Delete an image and its data."""
        await self.db.run(remove, call, image_id)

    @routes.post("/images/<image_id>/actions/deactivate", policy="image:images:deactivate", status=204)
    async def deactivate(self, call: Call, image_id: str) -> None:
        """Withhold the data from all but administrators."""
        await self.db.run(block, call, image_id, True)

    @routes.post("/images/<image_id>/actions/reactivate", policy="image:images:reactivate", status=204)
    async def reactivate(self, call: Call, image_id: str) -> None:
        """Make the data available again."""
        await self.db.run(block, call, image_id, False)


def _link(call: Call, marker: str | None) -> str:
    """Relative, without host and without `/image`, as clients expect it."""
    query = call.query.having(marker=marker)
    return f"/v2/images?{query}" if query else "/v2/images"


def _patch_type(call: Call) -> str:
    """Raises UnsupportedMediaType."""
    media = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media not in MEDIA_TYPES:
        accepted = ", ".join(MEDIA_TYPES)
        raise UnsupportedMediaType(f"Use one of the content types {accepted}.", headers={"Accept-Patch": accepted})
    return media


def _content(call: Call) -> bytes:
    size = call.content.seek(0, os.SEEK_END)
    if size > JSON_LIMIT:
        raise TooLarge(f"The request body has {size} bytes; at most {JSON_LIMIT} are taken.")
    call.content.seek(0)
    return call.content.read()
