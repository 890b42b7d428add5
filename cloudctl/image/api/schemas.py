"""JSON schemas of the records."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.image.schemas import SCHEMAS
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Schemas:
    routes = Routes("Schemas")

    @routes.get("/schemas/<name>", policy="image:schemas:show")
    async def show(self, call: Call, name: str) -> dict[str, Any]:
        """Show a schema: image, images, member, members, task or tasks."""
        if name not in SCHEMAS:
            raise NotFound(f"There is no schema {name[:64]!r}.")
        return dict(SCHEMAS[name])
