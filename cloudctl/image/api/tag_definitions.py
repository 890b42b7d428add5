"""Tags of a namespace of metadata definitions: made by name, or many at once."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.image import definitions, namespaces
from cloudctl.image.api.definitions import NAMESPACES, TAGS, Name, within
from cloudctl.image.tables import TagDefinition
from cloudctl.rest.body import Body, Items, structure, truth
from cloudctl.rest.call import Call
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes

ALL = f"{NAMESPACES}/<namespace>/tags"
APPEND = "x-openstack-append"


@frozen
class NewTag:
    name: Name


@frozen
class NewTags:
    tags: Annotated[list[NewTag], Items(0, 1000)]


def append(call: Call) -> bool:
    """Whether tags are added to the existing ones. Raises Invalid."""
    value = call.header(APPEND)
    found = truth(value) if value else False
    if found is None:
        raise Invalid(f"The header {APPEND} is true or false.")
    return found


@frozen
class TagDefinitions:
    routes = Routes(TAGS.title)

    db: Database

    @routes.post(
        f"{NAMESPACES}/<namespace>/tags", policy="image:tag_definitions:create", body=Body(NewTags), status=201
    )
    async def create(self, call: Call, namespace: str, body: NewTags) -> Json:
        """Define these tags in place of the existing ones, or, with `X-Openstack-Append: true`, in addition to them."""
        wanted = [tag.name for tag in body.tags]
        await self.db.run(self._create, call, namespace, wanted, append(call))
        return {"tags": [{"name": name} for name in wanted]}

    def _create(self, conn: Connection, call: Call, name: str, wanted: list[str], append: bool) -> None:
        namespace = within(conn, call, name, lock=True)
        if not append:
            namespaces.check_open(namespace)
            definitions.remove_all(conn, TagDefinition, namespace)
        for tag in wanted:
            definitions.create(conn, TagDefinition, namespace, {"name": tag}, call.now)

    @routes.post(f"{ALL}/<definition>", policy="image:tag_definitions:create", status=201)
    async def create_one(self, call: Call, namespace: str, definition: str) -> Json:
        """Define one tag."""
        return await self.db.run(self._create_one, call, namespace, structure(definition, Name, "$.name"))

    def _create_one(self, conn: Connection, call: Call, name: str, wanted: str) -> Json:
        namespace = within(conn, call, name, lock=True)
        made = definitions.create(conn, TagDefinition, namespace, {"name": wanted}, call.now)
        return TAGS.views(conn, call, [made])[0]
