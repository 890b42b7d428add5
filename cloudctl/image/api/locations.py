"""Where the data of an image is, for services that read it there; and, where images show it, patches of that.

Reference: image.md, sections 3 and 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from attrs import field, frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid
from cloudctl.image import images as domain
from cloudctl.image import imports
from cloudctl.image.data import Hash
from cloudctl.image.imports import URI_LENGTH
from cloudctl.image.options import ImageOptions
from cloudctl.image.patching import LOCATIONS, Operation
from cloudctl.image.store import ImageStore
from cloudctl.image.stores import WEB, Stores
from cloudctl.image.tables import Image
from cloudctl.rest.body import MISSING, Body, Length, Missing, structure
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.outgoing import Permitted
from cloudctl.rest.route import Routes

HASHES = ("sha1", "sha256", "sha384", "sha512")


@frozen
class ValidationData:
    """Both, or neither: then there is nothing to compare with."""

    os_hash_algo: str | Missing = MISSING
    os_hash_value: Annotated[str, Length(1, 128)] | Missing = MISSING


@frozen
class AddLocation:
    url: Annotated[str, Length(1, URI_LENGTH)]
    validation_data: ValidationData | Missing = MISSING


@frozen
class PatchData(ValidationData):
    checksum: Annotated[str, Length(32, 32)] | Missing | None = MISSING  # the hash is what is looked at


@frozen
class Location:
    """One as images show it, in a patch. What metadata there is, is ours."""

    url: Annotated[str, Length(1, URI_LENGTH)]
    metadata: Mapping[str, Any] = field(factory=dict)
    validation_data: PatchData | Missing = MISSING


@frozen
class Asking:
    """What it takes to look at a location that somebody names."""

    stores: Stores
    options: ImageOptions
    permitted: Permitted


def view(image: Image, stores: Stores) -> list[dict[str, Any]]:
    """The heaviest store first."""
    held = {store.id: store for store in stores}
    return [
        {"url": _address(image, held[store_id]), "metadata": {"store": store_id}}
        for store_id in image.stores
        if store_id in held
    ]


def _address(image: Image, store: ImageStore) -> str:
    if store.id == WEB and image.address is not None:
        return image.address
    return f"file://{quote(str(store.path(image.id)))}"


def with_checksums(image: Image, stores: Stores) -> list[dict[str, Any]]:
    """As images show them, where that is switched on: with what the data there can be checked by."""
    known = {"checksum": image.checksum, "os_hash_algo": image.os_hash_algo, "os_hash_value": image.os_hash_value}
    return [{**each, "validation_data": known} for each in view(image, stores)]


def expectation(data: ValidationData | Missing) -> Hash | None:
    """Raises Invalid for what is no hash."""
    if data is MISSING or (data.os_hash_algo is MISSING and data.os_hash_value is MISSING):
        return None
    if data.os_hash_algo is MISSING or data.os_hash_value is MISSING:
        raise Invalid("os_hash_algo and os_hash_value belong together.")
    if data.os_hash_algo not in HASHES:
        raise Invalid(f"os_hash_algo is one of {', '.join(HASHES)}.")
    length = hashlib.new(data.os_hash_algo).digest_size * 2
    if len(data.os_hash_value) != length or any(digit not in "0123456789abcdef" for digit in data.os_hash_value):
        raise Invalid(f"os_hash_value of {data.os_hash_algo} has {length} hexadecimal digits, in lower case.")
    return Hash(data.os_hash_algo, data.os_hash_value)


def add(conn: Connection, caller: Caller, image_id: str, wish: AddLocation | Location, asking: Asking) -> None:
    """Its data is fetched, looked at and kept, in the background.

    Raises Invalid, NotFound, Forbidden, Conflict, OverQuota.
    """
    expected = expectation(wish.validation_data)
    if not asking.options.web_store:
        raise Invalid("This cloud has no store of what is at addresses; import it by web-download instead.")
    imports.check(wish.url, asking.options, asking.permitted)
    imports.add_location(conn, caller, image_id, wish.url, expected, asking.options)


def patch(conn: Connection, caller: Caller, image_id: str, operation: Operation, asking: Asking) -> None:
    """What one operation says of LOCATIONS. The first that an image has is added; one of several is removed.

    Raises Invalid, BodyError, NotFound, Forbidden, Conflict, OverQuota.
    """
    image = domain.get(conn, image_id, lock=True)
    there, member = view(image, asking.stores), operation.member
    if operation.op == "remove":
        if member is None:
            raise Forbidden(f"Property '{LOCATIONS}' may not be removed.")
        if (place := _place(member)) is None or place >= len(there):
            raise Invalid("Invalid position for removing a location.")
        caller.require("image:stores:delete", project_id=image.owner or "")
        domain.leave(conn, image, there[place]["metadata"]["store"], caller.now, caller)
    elif operation.op == "add":
        if member is None or (member != "-" and ((place := _place(member)) is None or place > len(there))):
            raise Invalid("Invalid position for adding a location.")
        _add_first(conn, caller, image_id, [structure(operation.value, Location, f"$.{LOCATIONS}")], there, asking)
    elif member is not None:
        raise Invalid(f"'{LOCATIONS}' is replaced as a whole.")
    else:
        _add_first(conn, caller, image_id, structure(operation.value, list[Location], f"$.{LOCATIONS}"), there, asking)


def _place(member: str) -> int | None:
    """Python reads no number of thousands of digits."""
    return int(member) if member.isascii() and member.isdecimal() and len(member) < 10 else None


def _add_first(
    conn: Connection, caller: Caller, image_id: str, said: Sequence[Location], there: Sequence[Any], asking: Asking
) -> None:
    """What is said may be what there is: then nothing happens."""
    kept = {each["url"]: each["metadata"] for each in there}
    if said and any(each.metadata != kept.get(each.url, {}) for each in said):
        raise Invalid("The metadata of a location is its store, and cannot be changed.")
    if kept and {each.url for each in said} == set(kept) and len(said) == len(kept):
        return
    if there or len(said) > 1:
        raise Invalid("An image has one address, and no other can be put in its place: add it to a new image.")
    for each in said:
        add(conn, caller, image_id, each, asking)


@frozen
class Locations:
    routes = Routes("Locations")

    db: Database
    asking: Asking

    @routes.get("/images/<image_id>/locations", policy="image:locations:list")
    async def list(self, call: Call, image_id: str) -> Any:
        """List where the data of an image is, for services."""
        return view(await self.db.read(domain.get, image_id), self.asking.stores)

    @routes.post("/images/<image_id>/locations", policy="image:locations:add", body=Body(AddLocation), status=202)
    async def add(self, call: Call, image_id: str, body: AddLocation) -> None:
        """Say at which address the data of an image is; it is fetched, looked at and kept, in the background."""
        await self.db.run(add, call.caller, image_id, body, self.asking)
