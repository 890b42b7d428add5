"""The inventories of resource providers."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid, MethodNotAllowed, NotFound
from cloudctl.placement import providers
from cloudctl.placement.allocations import Contended
from cloudctl.placement.api import gates, queries
from cloudctl.placement.providers import NewInventory
from cloudctl.placement.tables import Inventory
from cloudctl.rest.body import MISSING, Body, Check, Length, Missing, Range
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

ALL = "/resource_providers/<provider_id>/inventories"
ONE = "/resource_providers/<provider_id>/inventories/<name>"
INTEGER_MOST = 2**31 - 1
RATIO_MOST = 3.40282e38  # of a number in single precision


def _ratio(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    if value > RATIO_MOST:
        raise ValueError(f"must be at most {RATIO_MOST}")
    return value


Count = Annotated[int, Range(1)]
Ratio = Annotated[float, Check(_ratio)]
ClassName = Annotated[str, Length(1, 255)]


@frozen(kw_only=True)
class Amounts:
    total: Count
    reserved: Annotated[int, Range(0)] = 0
    min_unit: Count = 1
    max_unit: Count = INTEGER_MOST
    step_size: Count = 1
    allocation_ratio: Ratio = 1.0


@frozen(kw_only=True)
class AddInventory(Amounts):
    resource_class: ClassName
    # It may be left out: what is added conflicts with nothing but itself.
    resource_provider_generation: Annotated[int, Range(0)] | Missing = MISSING


@frozen(kw_only=True)
class SetInventory(Amounts):
    resource_provider_generation: Annotated[int, Range(0)]


@frozen(kw_only=True)
class SetInventories:
    resource_provider_generation: Annotated[int, Range(0)]
    inventories: dict[ClassName, Amounts]


def view(row: Inventory) -> dict[str, Any]:
    return {
        "total": row.total,
        "reserved": row.reserved,
        "min_unit": row.min_unit,
        "max_unit": row.max_unit,
        "step_size": row.step_size,
        "allocation_ratio": row.allocation_ratio,
    }


def wanted(call: Call, name: str, body: Amounts) -> NewInventory:
    """Raises Invalid."""
    most = body.total if call.version in gates.ALL_RESERVED else body.total - 1
    if body.reserved > most:
        raise Invalid(f"Unable to update inventory: {body.reserved} of {body.total} {name} cannot be reserved.")
    return NewInventory(body.total, body.reserved, body.min_unit, body.max_unit, body.step_size, body.allocation_ratio)


@frozen
class Inventories:
    routes = Routes("Inventories")

    db: Database

    @routes.get(ALL, policy="placement:inventories:list")
    async def list(self, call: Call, provider_id: str) -> Reply:
        """List the inventories of a resource provider."""
        return queries.fresh(call, await self.db.scan(_all, provider_id))

    @routes.put(ALL, policy="placement:inventories:manage", body=Body(SetInventories))
    async def replace(self, call: Call, provider_id: str, body: SetInventories) -> Reply:
        """Replace the inventories of a resource provider."""
        return queries.fresh(call, await self.db.run(_replace, call, provider_id, body))

    @routes.post(ALL, policy="placement:inventories:manage", body=Body(AddInventory), status=201)
    async def create(self, call: Call, provider_id: str, body: AddInventory) -> Reply:
        """Add an inventory to a resource provider."""
        shown = await self.db.run(_create, call, provider_id, body)
        location = ("Location", f"{call.url}/{body.resource_class}")
        return queries.fresh(call, shown, headers=(location,))

    @routes.delete(ALL, policy="placement:inventories:manage")
    async def clear(self, call: Call, provider_id: str) -> None:
        """Delete all inventories of a resource provider."""
        if call.version not in gates.CLEARING:
            raise MethodNotAllowed("The method is not allowed for this path.", headers={"Allow": "GET, POST, PUT"})
        await self.db.run(_clear, call, provider_id)

    @routes.get(ONE, policy="placement:inventories:list")
    async def show(self, call: Call, provider_id: str, name: str) -> Reply:
        """Show one inventory of a resource provider."""
        return queries.fresh(call, await self.db.scan(_one, provider_id, name))

    @routes.put(ONE, policy="placement:inventories:manage", body=Body(SetInventory))
    async def update(self, call: Call, provider_id: str, name: str, body: SetInventory) -> Reply:
        """Change one inventory of a resource provider."""
        return queries.fresh(call, await self.db.run(_update, call, provider_id, name, body))

    @routes.delete(ONE, policy="placement:inventories:manage")
    async def delete(self, call: Call, provider_id: str, name: str) -> None:
        """Delete one inventory of a resource provider."""
        await self.db.run(_delete, call, provider_id, name)


def _all(conn: Connection, provider_id: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    found = {name: view(each) for name, each in providers.inventories_of(conn, row.id).items()}
    return {"resource_provider_generation": row.generation, "inventories": found}


def _found(conn: Connection, provider_id: str, name: str) -> Inventory:
    found = providers.inventories_of(conn, provider_id).get(name)
    if found is None:
        raise NotFound(f"No inventory of class {name[:255]} for {provider_id}")
    return found


def _one(conn: Connection, provider_id: str, name: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    return {"resource_provider_generation": row.generation, **view(_found(conn, row.id, name))}


def _replace(conn: Connection, call: Call, provider_id: str, body: SetInventories) -> dict[str, Any]:
    new = {name: wanted(call, name, each) for name, each in body.inventories.items()}
    providers.advance(conn, provider_id, body.resource_provider_generation, call.now)
    providers.set_inventories(conn, provider_id, new)
    return _all(conn, provider_id)


def _create(conn: Connection, call: Call, provider_id: str, body: AddInventory) -> dict[str, Any]:
    name = body.resource_class
    row = providers.get(conn, provider_id)
    generation = body.resource_provider_generation
    providers.check_classes(conn, [name], lock=True)
    new = wanted(call, name, body)
    row = providers.advance(conn, row.id, row.generation if generation is MISSING else generation, call.now)
    if name in providers.inventories_of(conn, row.id):
        raise Conflict(f"Update conflict: inventory of {name} exists already on {row.id}.", type=Contended.type)
    providers.put_inventory(conn, row.id, name, new, None)
    return _one(conn, row.id, name)


def _update(conn: Connection, call: Call, provider_id: str, name: str, body: SetInventory) -> dict[str, Any]:
    new = wanted(call, name, body)
    providers.get(conn, provider_id)
    providers.check_classes(conn, [name])
    providers.advance(conn, provider_id, body.resource_provider_generation, call.now)
    known = providers.inventories_of(conn, provider_id).get(name)
    if known is None:
        raise Invalid(f"No inventory record with resource class {name} for {provider_id} exists.")
    providers.put_inventory(conn, provider_id, name, new, known)
    return _one(conn, provider_id, name)


def _delete(conn: Connection, call: Call, provider_id: str, name: str) -> None:
    row = providers.get(conn, provider_id)
    found = providers.inventories_of(conn, row.id).get(name)
    if found is None:
        raise NotFound(f"No inventory of class {name[:255]} found for delete")
    providers.advance(conn, row.id, row.generation, call.now)
    providers.remove_inventory(conn, found)


def _clear(conn: Connection, call: Call, provider_id: str) -> None:
    row = providers.get(conn, provider_id)
    providers.advance(conn, row.id, row.generation, call.now)
    providers.set_inventories(conn, row.id, {})
