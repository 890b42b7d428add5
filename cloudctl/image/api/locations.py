"""Where the data of an image is, for services that read it there; and, if images show it, patches of the locations.

Reference: image.md, sections 3 and 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from attrs import field, frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid
from cloudctl.image import images as domain
from cloudctl.image import imports, located
from cloudctl.image.data import Hash
from cloudctl.image.imports import URI_LENGTH
from cloudctl.image.located import Said
from cloudctl.image.options import ImageOptions
from cloudctl.image.patching import LOCATIONS, Operation
from cloudctl.image.store import WEB, ImageStore
from cloudctl.image.stores import Stores
from cloudctl.image.tables import Image
from cloudctl.rest.body import MISSING, Body, Length, Missing, given, structure
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
    checksum: Annotated[str, Length(32, 32)] | Missing | None = MISSING  # MD5


@frozen
class Location:
    """One as images show it, in a patch. The `store` in its metadata is ours."""

    url: Annotated[str, Length(1, URI_LENGTH)]
    metadata: Mapping[str, Any] = field(factory=dict)
    validation_data: PatchData | Missing = MISSING


@frozen
class Asking:
    """What it takes to check a location that a client names."""

    stores: Stores
    options: ImageOptions
    permitted: Permitted


def view(image: Image, stores: Stores) -> list[dict[str, Any]]:
    """The heaviest store first; addresses that users named in their order."""
    held = {store.id: store for store in stores}
    return [each for store_id in image.stores if store_id in held for each in _in(image, held[store_id])]


def _in(image: Image, store: ImageStore) -> Iterator[dict[str, Any]]:
    if store.id == WEB and image.locations:
        for each in image.locations:
            yield {"url": each["url"], "metadata": {**each["metadata"], "store": WEB}}
    elif store.id == WEB and image.address is not None:
        yield {"url": image.address, "metadata": {"store": WEB}}
    else:
        yield {"url": f"file://{quote(str(store.path(image.id)))}", "metadata": {"store": store.id}}


def expectation(data: ValidationData | Missing) -> Hash | None:
    """Raises Invalid for what is not a hash."""
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


def check(url: str, asking: Asking) -> None:
    """Raises Invalid unless data may be fetched from there."""
    if not asking.options.web_store:
        raise Invalid("This cloud has no store of what is at addresses; import it by web-download instead.")
    imports.check(url, asking.options, asking.permitted)


def add(conn: Connection, caller: Caller, image_id: str, wish: AddLocation, asking: Asking) -> None:
    """Its data is fetched, checked and stored in the background.

    Raises Invalid, NotFound, Forbidden, Conflict, OverQuota.
    """
    expected = expectation(wish.validation_data)
    check(wish.url, asking)
    imports.add_location(conn, caller, image_id, wish.url, expected, asking.options)


def said(wish: Location, asking: Asking, *, known: bool) -> Said:
    """What a patch says. `known`: there are sums to compare with, so malformed ones need no check of their own.

    Raises Invalid.
    """
    check(wish.url, asking)
    data = wish.validation_data
    if not known:
        expectation(data)
    sums = {} if data is MISSING else {name: value for name, value in given(data).items() if value is not None}
    return Said(wish.url, wish.metadata, sums)


def patch(conn: Connection, caller: Caller, image_id: str, operation: Operation, asking: Asking) -> None:
    """Apply one operation on LOCATIONS.

    An image without data gets it this way; one whose data is at addresses can get others. From any other image one of
    several locations can be removed. Raises Invalid, BodyError, NotFound, Forbidden, Conflict, OverQuota.
    """
    image = domain.get(conn, image_id, lock=True)
    there, member = view(image, asking.stores), operation.member
    if operation.op == "remove":
        if member is None:
            raise Forbidden(f"Property '{LOCATIONS}' may not be removed.")
        if (place := _place(member)) is None or place >= len(there):
            raise Invalid("Invalid position for removing a location.")
        _remove(conn, caller, image, there, place)
    elif operation.op == "add":
        place = len(there) if member == "-" else _place(member or "")
        if place is None or place > len(there):
            raise Invalid("Invalid position for adding a location.")
        wish = said(structure(operation.value, Location, f"$.{LOCATIONS}"), asking, known=bool(image.locations))
        if image.locations:
            located.add(conn, caller, image, wish, place)
        elif there:
            raise Invalid("The image has data already; a location can be added only to an image without data.")
        else:
            located.locate(conn, caller, image, [wish])
    elif member is not None:
        raise Invalid(f"'{LOCATIONS}' is replaced as a whole.")
    else:
        wishes = structure(operation.value, list[Location], f"$.{LOCATIONS}")
        _replace(conn, caller, image, there, wishes, asking)


def _place(member: str) -> int | None:
    """The number, if it is short enough: Python reads no number of thousands of digits."""
    return int(member) if member.isascii() and member.isdecimal() and len(member) < 10 else None


def _remove(conn: Connection, caller: Caller, image: Image, there: Sequence[Any], place: int) -> None:
    store_id = there[place]["metadata"]["store"]
    addresses = [each for each in there if each["metadata"]["store"] == store_id]
    if image.locations and store_id == WEB and (len(addresses) > 1 or len(there) == 1):
        located.remove(conn, caller, image, addresses.index(there[place]))
    else:
        caller.require("image:stores:delete", project_id=image.owner or "")
        domain.leave(conn, image, store_id, caller.now, caller)


def _replace(
    conn: Connection, caller: Caller, image: Image, there: Sequence[Any], wishes: Sequence[Location], asking: Asking
) -> None:
    """If the wishes are what there is, nothing happens."""
    if [(each.url, dict(each.metadata)) for each in wishes] == [(each["url"], each["metadata"]) for each in there]:
        return
    if there and not image.locations:
        raise Invalid("The data of the image is stored here; its location cannot be changed.")
    found = [said(each, asking, known=bool(there)) for each in wishes]
    if there:
        located.replace(conn, caller, image, found)
    else:
        located.locate(conn, caller, image, found)


@frozen
class Locations:
    routes = Routes("Locations")

    db: Database
    asking: Asking

    @routes.get("/images/<image_id>/locations", policy="image:locations:list")
    async def list(self, call: Call, image_id: str) -> Any:
        """List the locations of an image's data, for services."""
        return view(await self.db.read(domain.get, image_id), self.asking.stores)

    @routes.post("/images/<image_id>/locations", policy="image:locations:add", body=Body(AddLocation), status=202)
    async def add(self, call: Call, image_id: str, body: AddLocation) -> None:
        """Name the address of an image's data, which is fetched, checked and stored in the background."""
        await self.db.run(add, call.caller, image_id, body, self.asking)
