"""What this image service can do, and what a project uses of it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, NotFound
from cloudctl.image import images as domain
from cloudctl.image.imports import METHODS, STORE
from cloudctl.image.quotas import QUOTAS
from cloudctl.rest import quota
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Info:
    routes = Routes("Information")

    db: Database

    @routes.get("/info/import", policy="image:info:show")
    async def methods(self, call: Call) -> dict[str, Any]:
        """Show the import methods."""
        return {
            "import-methods": {
                "description": "Import methods available.",
                "type": "array",
                "value": list(METHODS),
            }
        }

    @routes.get("/info/stores", policy="image:info:show")
    async def stores(self, call: Call) -> dict[str, Any]:
        """List the stores."""
        return {"stores": [{"id": STORE, "description": "", "default": "true"}]}

    @routes.get("/info/stores/detail", policy="image:info:stores_detail")
    async def stores_detail(self, call: Call) -> dict[str, Any]:
        """List the stores with their types."""
        store = {"id": STORE, "type": "file", "description": "", "default": "true", "weight": 0, "properties": {}}
        return {"stores": [store]}

    @routes.get("/info/usage", policy="image:info:usage")
    async def usage(self, call: Call) -> dict[str, Any]:
        """Show the limits of the project and what it uses; sizes in MiB."""
        limits, used = await self.db.scan(_usage, call.project_id)
        return {"usage": {name: {"limit": limits[name], "usage": used[name]} for name in limits}}

    @routes.delete("/stores/<store>/<image_id>", policy="image:stores:delete")
    async def remove(self, call: Call, store: str, image_id: str) -> None:
        """Remove the copy of an image's data in one store; refused for the last copy."""
        image = await self.db.run(domain.own, call.caller, image_id, "image:stores:delete")
        if store != STORE or image.status not in domain.STORED:
            raise NotFound(f"The image {image.id} has no data in a store {store[:64]!r}.")
        raise Forbidden(f"The store {STORE} holds the only copy of the data of image {image.id}.")


def _usage(conn: Connection, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    return quota.limits(conn, QUOTAS, project_id), quota.usage(conn, QUOTAS, project_id)
