"""JSON schemas of the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.image import definition_schemas, schemas
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Schemas:
    routes = Routes("Schemas")

    @routes.get("/schemas/<name>", policy="image:schemas:show")
    async def show(self, call: Call, name: str) -> dict[str, Any]:
        """Show a schema: image, images, member, members, task or tasks."""
        return _named(schemas.SCHEMAS, name)

    @routes.get("/schemas/metadefs/<name>", policy="image:schemas:show")
    async def definition(self, call: Call, name: str) -> dict[str, Any]:
        """Show a schema of metadata definitions: namespace, object, property, tag, resource_type, or a plural."""
        return _named(definition_schemas.SCHEMAS, name)


def _named(known: Mapping[str, schemas.Schema], name: str) -> dict[str, Any]:
    if name not in known:
        raise NotFound(f"There is no schema {name[:64]!r}.")
    return dict(known[name])
