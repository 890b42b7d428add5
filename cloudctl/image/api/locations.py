"""Where the data of an image is, for services that read it there. Reference: image.md, section 3."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any
from urllib.parse import quote

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Invalid
from cloudctl.image import images as domain
from cloudctl.image import imports
from cloudctl.image.data import Hash
from cloudctl.image.imports import URI_LENGTH
from cloudctl.image.options import ImageOptions
from cloudctl.image.store import ImageStore
from cloudctl.image.stores import WEB, Stores
from cloudctl.image.tables import Image
from cloudctl.rest.body import MISSING, Body, Length, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.outgoing import Permitted
from cloudctl.rest.route import Routes

HASHES = ("sha1", "sha256", "sha384", "sha512")


@frozen
class ValidationData:
    os_hash_algo: str
    os_hash_value: Annotated[str, Length(1, 128)]


@frozen
class AddLocation:
    url: Annotated[str, Length(1, URI_LENGTH)]
    validation_data: ValidationData | Missing = MISSING


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


def expectation(data: ValidationData) -> Hash:
    """Raises Invalid for what is no hash."""
    if data.os_hash_algo not in HASHES:
        raise Invalid(f"os_hash_algo is one of {', '.join(HASHES)}.")
    length = hashlib.new(data.os_hash_algo).digest_size * 2
    if len(data.os_hash_value) != length or any(digit not in "0123456789abcdef" for digit in data.os_hash_value):
        raise Invalid(f"os_hash_value of {data.os_hash_algo} has {length} hexadecimal digits, in lower case.")
    return Hash(data.os_hash_algo, data.os_hash_value)


@frozen
class Locations:
    routes = Routes("Locations")

    db: Database
    stores: Stores
    options: ImageOptions
    permitted: Permitted

    @routes.get("/images/<image_id>/locations", policy="image:locations:list")
    async def list(self, call: Call, image_id: str) -> Any:
        """List where the data of an image is, for services."""
        return view(await self.db.read(domain.get, image_id), self.stores)

    @routes.post("/images/<image_id>/locations", policy="image:locations:add", body=Body(AddLocation), status=202)
    async def add(self, call: Call, image_id: str, body: AddLocation) -> None:
        """Say at which address the data of an image is; it is fetched, looked at and kept, in the background."""
        expected = expectation(body.validation_data) if body.validation_data else None
        if not self.options.web_store:
            raise Invalid("This cloud has no store of what is at addresses; import it by web-download instead.")
        imports.check(body.url, self.options, self.permitted)
        await self.db.run(imports.add_location, call.caller, image_id, body.url, expected, self.options)
