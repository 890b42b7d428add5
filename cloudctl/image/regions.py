"""Images of an image service that the catalog names, for imports by `glance-download`. Reference: image.md, section 9.

That service may be this one, whose images are copied here. Another cloud's would have to be queried with the user's own
token, which is not stored for as long as a task takes; such an import fails, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.errors import Forbidden, Gone, NotFound
from cloudctl.identity.tables import Endpoint, Service
from cloudctl.image import images as domain
from cloudctl.image.images import ACTIVE, Image
from cloudctl.rest.caller import Caller

# What an image takes over from the one that it is made from, besides the formats.
INHERITED = ("hw_", "trait:", "os_distro", "os_secure_boot", "os_type")
OURS = "{base_url}"


@frozen
class Elsewhere:
    """An image of the service that is at this interface in this region."""

    image_id: str
    region: str
    interface: str = "public"


def refusal(conn: Connection, caller: Caller, wanted: Elsewhere) -> str:
    """Why the caller cannot have that image; empty if it can. The task reports it, like everything found out there."""
    query = (
        select(Endpoint.url)
        .join(Service, Service.id == Endpoint.service_id)
        .where(
            Service.type == "image",
            Service.enabled.is_(True),
            Endpoint.enabled.is_(True),
            Endpoint.interface == wanted.interface,
            Endpoint.region_id == wanted.region,
        )
    )
    urls = list(conn.scalars(query))
    if not urls:
        return f"There is no image service at the interface {wanted.interface[:64]!r} of region {wanted.region[:64]!r}."
    if not any(url.startswith(OURS) for url in urls):
        return f"The image service of region {wanted.region!r} is another cloud's, which is not asked in your name."
    try:
        image = domain.visible(conn, caller, wanted.image_id)
        caller.require("image:images:download", project_id=image.owner or "")
    except (NotFound, Forbidden) as error:
        return error.message
    return "" if image.status == ACTIVE else f"The image {image.id} is {image.status}, not {ACTIVE}."


def source(conn: Connection, args: Mapping[str, Any]) -> Image | None:
    """The image that a task's arguments name, if they name one. Raises Gone, Forbidden."""
    wanted = args.get("image")
    if wanted is None:
        return None
    if wanted["refusal"]:
        raise Forbidden(wanted["refusal"])
    try:
        row = domain.get(conn, wanted["id"])
    except NotFound as error:
        raise Gone(error.message) from None
    if row.status != ACTIVE:
        raise Gone(f"The image {row.id} is {row.status}, not {ACTIVE}.")
    return domain.full(conn, [row])[0]


def inherited(origin: Image) -> dict[str, str]:
    """The properties that are taken over."""
    return {name: value for name, value in origin.properties.items() if name.startswith(INHERITED)}
