"""What this image service can do, and what a project uses of it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.image.imports import methods
from cloudctl.image.quotas import QUOTAS
from cloudctl.image.stores import Stores
from cloudctl.rest import quota
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Info:
    routes = Routes("Information")

    db: Database
    stores: Stores

    @routes.get("/info/import", policy="image:info:show")
    async def methods(self, call: Call) -> dict[str, Any]:
        """Show the import methods."""
        return {
            "import-methods": {
                "description": "Import methods available.",
                "type": "array",
                "value": list(methods(self.stores)),
            }
        }

    @routes.get("/info/usage", policy="image:info:usage")
    async def usage(self, call: Call) -> dict[str, Any]:
        """Show the project's limits and usage; sizes in MiB."""
        limits, used = await self.db.scan(_usage, call.project_id)
        return {"usage": {name: {"limit": limits[name], "usage": used[name]} for name in limits}}


def _usage(conn: Connection, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    return quota.limits(conn, QUOTAS, project_id), quota.usage(conn, QUOTAS, project_id)
