"""Images whose data is said to be at addresses: active at once, and fetched and checked once somebody needs the data.

A row's `locations` are those addresses in their order, each with its user's metadata; the data at all of them is said
to be the same. Until it has been looked at, the image has no size, and only the sums that were said. Reference:
image.md, sections 3 and 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, Invalid, OverQuota
from cloudctl.image import images as domain
from cloudctl.image import properties, signatures
from cloudctl.image.data import Measured
from cloudctl.image.images import QUEUED
from cloudctl.image.quotas import QUOTAS, mebibytes
from cloudctl.image.store import WEB
from cloudctl.image.tables import Image
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller

MOST = 10  # addresses of one image
METADATA_LENGTH = 4096  # characters, as JSON


@frozen
class Said:
    """An address, its user's metadata, and what the data is said to be: None for what was not said."""

    url: str
    metadata: Mapping[str, Any]
    sums: Mapping[str, str | None]  # checksum, os_hash_algo, os_hash_value; empty: nothing was said

    @property
    def kept(self) -> dict[str, Any]:
        """Raises Invalid."""
        own = {name: value for name, value in self.metadata.items() if name != "store"}
        if self.metadata.get("store", WEB) != WEB:
            raise Invalid(f"What is at an address is in the store {WEB!r}; that cannot be changed.")
        if len(json.dumps(own)) > METADATA_LENGTH:
            raise Invalid(f"The metadata of a location has at most {METADATA_LENGTH} characters.")
        return {"url": self.url, "metadata": own}


def locate(conn: Connection, caller: Caller, image: Image, said: Sequence[Said]) -> None:
    """The data of a queued image is at these addresses. Raises Forbidden, Invalid, Conflict, OverQuota."""
    caller.require("image:locations:add", project_id=image.owner or "")
    if image.status != QUEUED:
        raise Conflict(f"The image {image.id} is {image.status}; a location can be added while it is queued.")
    domain.formats(image)
    signatures.refuse(properties.of(conn, [image.id])[image.id])
    quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": 0})
    sums = dict(next((each.sums for each in said if each.sums), {}))
    for each in said:
        check_sums(each, sums)
    columns = {"stores": [WEB], "locations": _checked([each.kept for each in said]), **sums}
    if not domain.try_move(conn, image.id, "locate", caller.now, **columns):
        raise Conflict(f"The image {image.id} is not {QUEUED} any more.")


def add(conn: Connection, caller: Caller, image: Image, said: Said, place: int) -> None:
    """The same data is at one more address. Raises Forbidden, Invalid, Conflict, OverQuota."""
    caller.require("image:locations:add", project_id=image.owner or "")
    known = {name: getattr(image, name) for name in ("checksum", "os_hash_algo", "os_hash_value")}
    check_sums(said, {name: value for name, value in known.items() if value is not None})
    locations = [*image.locations[:place], said.kept, *image.locations[place:]]
    domain.change(conn, image, {"locations": _checked(locations)}, caller.now)


def check_sums(said: Said, known: Mapping[str, str | None]) -> None:
    """Raises Conflict unless what is said of the data agrees with what is known of it already."""
    if any(value is not None and known.get(name) != value for name, value in said.sums.items()):
        raise Conflict("The validation data is not that of the image.")


def replace(conn: Connection, caller: Caller, image: Image, said: Sequence[Said]) -> None:
    """The same addresses, with other metadata or in another order. Raises Invalid, Conflict."""
    if sorted(each.url for each in said) != sorted(each["url"] for each in image.locations):
        raise Invalid("An address cannot take the place of another one: add it, and remove the other one.")
    domain.change(conn, image, {"locations": [each.kept for each in said]}, caller.now)


def remove(conn: Connection, caller: Caller, image: Image, place: int) -> None:
    """Raises Forbidden for the last one."""
    caller.require("image:stores:delete", project_id=image.owner or "")
    if len(image.locations) == 1:
        raise Forbidden(f"The only address of the data of image {image.id} cannot be removed.")
    domain.change(conn, image, {"locations": [*image.locations[:place], *image.locations[place + 1 :]]}, caller.now)


def _checked(locations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises Invalid, OverQuota."""
    if len({each["url"] for each in locations}) < len(locations):
        raise Invalid("An image has each of its addresses once.")
    if len(locations) > MOST:
        raise OverQuota(f"The limit of {MOST} locations of an image has been exceeded.")
    return locations


def looked_at(conn: Connection, image_id: str, found: Measured, now: datetime) -> None:
    """The data was found and is checked against what was said of it; what was not said is set to what was found.

    Raises NotFound if the image is gone, Invalid for data that is not what it is known to be, OverQuota.
    """
    image = domain.get(conn, image_id, lock=True)
    expected = {"os_hash_value": image.os_hash_value, "checksum": image.checksum}
    for name, value in expected.items():
        if value not in (None, getattr(found, name)):
            raise Invalid(f"The {name} of the data is {getattr(found, name)}, not {value}.")
    if image.size is None:
        quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": mebibytes(found.size)})
        values = {name: getattr(found, name) for name in ("size", "virtual_size", "checksum", "os_hash_algo")}
        values["os_hash_value"] = found.os_hash_value
        conn.execute(update(Image).where(Image.id == image.id).values(updated_at=now, **values))
