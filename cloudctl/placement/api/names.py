"""Resource classes and traits."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.placement import names, providers
from cloudctl.placement.api import queries
from cloudctl.placement.api.providers import link
from cloudctl.placement.tables import ResourceClass, Trait
from cloudctl.rest.body import Body, Length, Pattern
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

CLASSES, CLASS = "/resource_classes", "/resource_classes/<name>"
TRAITS, TRAIT = "/traits", "/traits/<name>"


@frozen
class CreateClass:
    name: Annotated[str, Length(1, 255), Pattern(names.CUSTOM.pattern, f"a name such as {names.CUSTOM.pattern}")]


def view(call: Call, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": link(call, "resource_classes", name)}]}


@frozen
class Names:
    routes = Routes("Resource classes and traits")

    db: Database

    @routes.get(CLASSES, policy="placement:names:list", since=(1, 2))
    async def classes(self, call: Call) -> Reply:
        """List resource classes."""
        found = await self.db.scan(providers.classes)
        return queries.fresh(call, {"resource_classes": [view(call, name) for name in found]})

    @routes.post(CLASSES, policy="placement:names:manage", since=(1, 2), body=Body(CreateClass), status=201)
    async def create_class(self, call: Call, body: CreateClass) -> Reply:
        """Create a resource class."""
        if not await self.db.run(providers.make_name, ResourceClass, body.name):
            raise Conflict(f"Conflicting resource class already exists: {body.name}")
        return Reply(None, headers=(("Location", f"{call.url}/{body.name}"),))

    @routes.get(CLASS, policy="placement:names:list", since=(1, 2))
    async def show_class(self, call: Call, name: str) -> Reply:
        """Show a resource class."""
        if not await self.db.scan(providers.known_class, name):
            raise NotFound(f"No such resource class {name[:255]}.")
        return queries.fresh(call, view(call, name))

    @routes.put(CLASS, policy="placement:names:manage", since=(1, 2), until=(1, 6), body=Body(CreateClass))
    async def rename_class(self, call: Call, name: str, body: CreateClass) -> Reply:
        """Rename a resource class that no provider has."""
        await self.db.run(_rename, name, body.name)
        return Reply(view(call, body.name))

    @routes.put(CLASS, policy="placement:names:manage", since=(1, 7), status=201)
    async def ensure_class(self, call: Call, name: str) -> Reply:
        """Create a resource class unless it exists."""
        is_new = await self.db.run(providers.make_name, ResourceClass, name)
        return Reply(None, 201 if is_new else 204, (("Location", call.url),))

    @routes.delete(CLASS, policy="placement:names:manage", since=(1, 2))
    async def delete_class(self, call: Call, name: str) -> None:
        """Delete a resource class that no provider has."""
        await self.db.run(providers.remove_class, name)

    @routes.get(TRAITS, policy="placement:names:list", since=(1, 6), query=("name", "associated"))
    async def traits(self, call: Call) -> Reply:
        """List traits."""
        queries.only(call, ("name", "associated"))
        return queries.fresh(call, {"traits": await self.db.scan(_traits, call)})

    @routes.get(TRAIT, policy="placement:names:list", since=(1, 6), status=204)
    async def show_trait(self, call: Call, name: str) -> Reply:
        """Check whether a trait exists."""
        if not await self.db.scan(providers.known_trait, name):
            raise NotFound(f"No such trait {name[:255]}.")
        return queries.fresh(call, None)

    @routes.put(TRAIT, policy="placement:names:manage", since=(1, 6), status=201)
    async def ensure_trait(self, call: Call, name: str) -> Reply:
        """Create a trait unless it exists."""
        is_new = await self.db.run(providers.make_name, Trait, name)
        return queries.fresh(call, None, 201 if is_new else 204, (("Location", call.url),))

    @routes.delete(TRAIT, policy="placement:names:manage", since=(1, 6))
    async def delete_trait(self, call: Call, name: str) -> None:
        """Delete a trait that no provider has."""
        await self.db.run(providers.remove_trait, name)


def _rename(conn: Connection, name: str, new: str) -> None:
    """Raises NotFound, Invalid, Conflict."""
    if name in names.RESOURCE_CLASSES:
        raise Invalid(f"Cannot update standard resource class {name}.")
    providers.remove_class(conn, name)
    if not providers.make_name(conn, ResourceClass, new):
        raise Conflict(f"Resource class already exists: {new}")


def _traits(conn: Connection, call: Call) -> list[str]:
    """Raises Invalid."""
    associated = queries.once(call, "associated")
    if associated is not None and associated.lower() not in ("true", "false"):
        raise Invalid("The query parameter 'associated' is true or false.", type=queries.BAD_VALUE)
    found = providers.traits(conn, None if associated is None else associated.lower() == "true")
    name = queries.once(call, "name")
    if name is None:
        return found
    if name.startswith("in:"):
        return [each for each in found if each in name.removeprefix("in:").split(",")]
    if name.startswith("startswith:"):
        return [each for each in found if each.startswith(name.removeprefix("startswith:"))]
    raise Invalid("Badly formatted name parameter. Expected name=in:… or name=startswith:….", type=queries.BAD_VALUE)
