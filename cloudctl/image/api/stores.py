"""Stores in requests and in answers, and the data of one store."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.image import images as domain
from cloudctl.image import imports
from cloudctl.image.store import DEFAULT, ImageStore
from cloudctl.image.stores import Stores
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

STORE_HEADER = "x-image-meta-store"


def named_store(call: Call, stores: Stores) -> ImageStore:
    """The store that a header names, or the default one, for incoming data. Raises Invalid."""
    return stores.to_write(call.header(STORE_HEADER) or DEFAULT)


def offers(stores: Stores) -> tuple[tuple[str, str], ...]:
    """Headers that list how data may be brought, and to which stores."""
    methods = ("OpenStack-image-import-methods", ",".join(imports.methods(stores)))
    ids = ("OpenStack-image-store-ids", ",".join(stores.writable))
    return (methods, ids) if len(stores.writable) > 1 else (methods,)


def view(store: ImageStore, stores: Stores) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": store.id, "description": store.description}
    if store is stores.default:
        shown["default"] = "true"
    if store.weight:
        shown["weight"] = store.weight
    if not store.is_writable:
        shown["read-only"] = "true"
    return shown


def remove(conn: Connection, call: Call, store_id: str, image_id: str) -> None:
    image = domain.own(conn, call.caller, image_id, "image:stores:delete")
    domain.leave(conn, image, store_id, call.now, call.caller)


@frozen
class StoresInfo:
    routes = Routes("Stores")

    db: Database
    stores: Stores

    @routes.get("/info/stores", policy="image:info:show")
    async def list(self, call: Call) -> dict[str, Any]:
        """List the stores."""
        return {"stores": [view(store, self.stores) for store in self.stores]}

    @routes.get("/info/stores/detail", policy="image:info:stores_detail")
    async def detail(self, call: Call) -> dict[str, Any]:
        """List the stores with their types."""
        return {
            "stores": [
                {**view(store, self.stores), "type": store.kind, "weight": store.weight, "properties": {}}
                for store in self.stores
            ]
        }

    @routes.delete("/stores/<store>/<image_id>", policy="image:stores:delete")
    async def remove(self, call: Call, store: str, image_id: str) -> None:
        """Remove the copy of an image's data in one store; refused for the last copy."""
        await self.db.run(remove, call, store, image_id)
