"""Resource providers, and what is said about them."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any
from urllib.parse import urlsplit

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.placement import aggregates, allocations, candidates, providers
from cloudctl.placement.api import gates, queries
from cloudctl.placement.providers import NewProvider
from cloudctl.placement.tables import NAME_MOST, Consumer, Provider
from cloudctl.rest.body import MISSING, Body, Items, Length, Missing, Pattern, Range, Uuid, gated
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.rest.views import Fields

PATH = "/resource_providers"
QUERY = {
    "name": ALWAYS,
    "uuid": ALWAYS,
    "member_of": since(1, 3),
    "resources": since(1, 4),
    "in_tree": since(1, 14),
    "required": since(1, 18),
}
# What a provider links to, and since when.
LINKS = {
    "inventories": ALWAYS,
    "usages": ALWAYS,
    "aggregates": since(1, 1, "a provider links to its aggregates"),
    "traits": since(1, 6, "a provider links to its traits"),
    "allocations": since(1, 11, "a provider links to its allocations"),
}

ProviderName = Annotated[str, Length(1, NAME_MOST)]
Generation = Annotated[int, Range(0)]
# An aggregate is shown as it was written, with dashes or without.
AggregateId = Annotated[str, Pattern(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", "a 'uuid'")]
Ids = Annotated[list[AggregateId], Items(0, 1000)]


@frozen
class CreateProvider:
    name: ProviderName
    uuid: Uuid | Missing = MISSING
    parent_provider_uuid: Uuid | Missing | None = gated(since(1, 14))


@frozen
class ChangeProvider:
    name: ProviderName
    parent_provider_uuid: Uuid | Missing | None = gated(since(1, 14))


@frozen
class Traits:
    traits: Annotated[list[Annotated[str, Length(1, 255)]], Items(0, 1000)]
    resource_provider_generation: Generation


@frozen
class Aggregates:
    aggregates: Ids
    resource_provider_generation: Generation


LATER = Fields[[Provider]](
    "a resource provider",
    {
        "parent_provider_uuid": (since(1, 14), lambda row: row.parent_id),
        "root_provider_uuid": (since(1, 14), lambda row: row.root_id),
    },
)


def link(call: Call, *segments: str) -> str:
    return "/".join((urlsplit(call.root_url).path, *segments))


def view(call: Call, row: Provider) -> dict[str, Any]:
    links = [{"rel": "self", "href": link(call, "resource_providers", row.id)}]
    links += [
        {"rel": rel, "href": link(call, "resource_providers", row.id, rel)}
        for rel, span in LINKS.items()
        if call.version in span
    ]
    shown = {"uuid": row.id, "name": row.name, "generation": row.generation, "links": links}
    return shown | LATER.of(call.version, row)


@frozen
class Providers:
    routes = Routes("Resource providers")

    db: Database

    @routes.get(PATH, policy="placement:providers:list", query=QUERY)
    async def list(self, call: Call) -> Reply:
        """List resource providers."""
        queries.only(call, QUERY)
        found = await self.db.scan(_matching, call)
        return queries.fresh(call, {"resource_providers": [view(call, row) for row in found]})

    @routes.post(
        PATH, policy="placement:providers:manage", body=Body(CreateProvider), status={(1, 0): 201, (1, 20): 200}
    )
    async def create(self, call: Call, body: CreateProvider) -> Reply:
        """Create a resource provider."""
        new = NewProvider(body.name, body.uuid or None, body.parent_provider_uuid or None)
        row = await self.db.run(providers.create, new, call.now)
        location = ("Location", f"{call.root_url}{PATH}/{row.id}")
        shown = view(call, row) if call.version in gates.SHOWN_WHEN_MADE else None
        return queries.fresh(call, shown, headers=(location,))

    @routes.get(f"{PATH}/<provider_id>", policy="placement:providers:list")
    async def show(self, call: Call, provider_id: str) -> Reply:
        """Show one resource provider."""
        return queries.fresh(call, view(call, await self.db.read(providers.get, provider_id)))

    @routes.put(f"{PATH}/<provider_id>", policy="placement:providers:manage", body=Body(ChangeProvider))
    async def update(self, call: Call, provider_id: str, body: ChangeProvider) -> Reply:
        """Change the name or the parent of a resource provider."""
        return queries.fresh(call, view(call, await self.db.run(_change, call, provider_id, body)))

    @routes.delete(f"{PATH}/<provider_id>", policy="placement:providers:manage")
    async def delete(self, call: Call, provider_id: str) -> None:
        """Delete a resource provider without allocations."""
        await self.db.run(_remove, provider_id)

    @routes.get(f"{PATH}/<provider_id>/usages", policy="placement:providers:list")
    async def usages(self, call: Call, provider_id: str) -> Reply:
        """Show how much of a resource provider is used."""
        return queries.fresh(call, await self.db.scan(_usages, provider_id))

    @routes.get(f"{PATH}/<provider_id>/allocations", policy="placement:providers:list")
    async def allocations(self, call: Call, provider_id: str) -> Reply:
        """Show the allocations of a resource provider."""
        return queries.fresh(call, await self.db.scan(_allocations, call, provider_id))

    @routes.get(f"{PATH}/<provider_id>/aggregates", policy="placement:providers:list", since=(1, 1))
    async def aggregates(self, call: Call, provider_id: str) -> Reply:
        """List the aggregates that a resource provider is in."""
        return queries.fresh(call, await self.db.scan(_aggregates, call, provider_id))

    @routes.put(
        f"{PATH}/<provider_id>/aggregates",
        policy="placement:providers:manage",
        since=(1, 1),
        body={(1, 1): Body(Ids), (1, 19): Body(Aggregates)},
    )
    async def set_aggregates(self, call: Call, provider_id: str, body: Any) -> Reply:
        """Set the aggregates that a resource provider is in."""
        return queries.fresh(call, await self.db.run(_set_aggregates, call, provider_id, body))

    @routes.get(f"{PATH}/<provider_id>/traits", policy="placement:providers:list", since=(1, 6))
    async def traits(self, call: Call, provider_id: str) -> Reply:
        """List the traits of a resource provider."""
        return queries.fresh(call, await self.db.scan(_traits, provider_id))

    @routes.put(f"{PATH}/<provider_id>/traits", policy="placement:providers:manage", since=(1, 6), body=Body(Traits))
    async def set_traits(self, call: Call, provider_id: str, body: Traits) -> Reply:
        """Set the traits of a resource provider."""
        return queries.fresh(call, await self.db.run(_set_traits, call, provider_id, body))

    @routes.delete(f"{PATH}/<provider_id>/traits", policy="placement:providers:manage", since=(1, 6))
    async def clear_traits(self, call: Call, provider_id: str) -> None:
        """Remove all traits from a resource provider."""
        await self.db.run(_clear_traits, call, provider_id)


def _matching(conn: Connection, call: Call) -> list[Provider]:
    wanted = queries.group(call)
    providers.check_classes(conn, wanted.resources)
    known_traits = set(providers.traits(conn))
    asked = wanted.forbidden.union(*wanted.required)
    if unknown := sorted(asked - known_traits):
        raise Invalid(f"No such trait(s): {', '.join(unknown)[:255]}.", type=queries.BAD_VALUE)
    known = candidates.nodes(conn)
    tree_of = candidates.root_of(known, wanted)
    name, id = queries.once(call, "name"), queries.once(call, "uuid")
    wanted_id = None if id is None else queries.uuid(id, "uuid")
    return [
        node.provider
        for node in known.values()
        if name in (None, node.provider.name)
        and wanted_id in (None, node.id)
        and candidates.suits(node, node, wanted, tree_of)
    ]


def _change(conn: Connection, call: Call, provider_id: str, body: ChangeProvider) -> Provider:
    row = providers.get(conn, provider_id)
    changes: dict[str, Any] = {"name": body.name}
    if body.parent_provider_uuid is not MISSING:
        changes["parent_id"] = body.parent_provider_uuid
    return providers.change(conn, row, changes, call.now, call.version in gates.MOVING)


def _remove(conn: Connection, provider_id: str) -> None:
    providers.remove(conn, providers.get(conn, provider_id))


def _usages(conn: Connection, provider_id: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    used = {name: each.used for name, each in providers.inventories_of(conn, row.id).items()}
    return {"resource_provider_generation": row.generation, "usages": used}


def _allocations(conn: Connection, call: Call, provider_id: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    resources: dict[str, dict[str, int]] = defaultdict(dict)
    for each in providers.consumers_of(conn, row.id):
        resources[each.consumer_id][each.resource_class] = each.amount
    # One that is missing has just given everything back.
    owners = allocations.of_consumers(conn, resources)
    shown = {
        id: {"resources": amounts, **CONSUMER.of(call.version, owners[id])}
        for id, amounts in resources.items()
        if id in owners
    }
    return {"resource_provider_generation": row.generation, "allocations": shown}


CONSUMER = Fields[[Consumer]](
    "who has a share of a resource provider",
    {"consumer_generation": (since(1, 28), lambda consumer: consumer.generation)},
)
OF_AGGREGATES = Fields[[Provider]](
    "the aggregates of a resource provider",
    {"resource_provider_generation": (since(1, 19), lambda row: row.generation)},
)


def _aggregates(conn: Connection, call: Call, provider_id: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    return {"aggregates": providers.aggregates_of(conn, row.id), **OF_AGGREGATES.of(call.version, row)}


def _set_aggregates(conn: Connection, call: Call, provider_id: str, body: Any) -> dict[str, Any]:
    aggregates.lock_host(conn, provider_id)
    if call.version in gates.AGGREGATE_GENERATIONS:
        providers.advance(conn, provider_id, body.resource_provider_generation, call.now)
        wanted = body.aggregates
    else:
        providers.get(conn, provider_id, lock=True)
        wanted = body
    if len(set(wanted)) < len(wanted):
        raise Invalid("The aggregates of a resource provider are given once each.")
    providers.set_aggregates(conn, provider_id, wanted)
    return _aggregates(conn, call, provider_id)


def _traits(conn: Connection, provider_id: str) -> dict[str, Any]:
    row = providers.get(conn, provider_id)
    return {"traits": providers.traits_of(conn, row.id), "resource_provider_generation": row.generation}


def _set_traits(conn: Connection, call: Call, provider_id: str, body: Traits) -> dict[str, Any]:
    providers.advance(conn, provider_id, body.resource_provider_generation, call.now)
    providers.set_traits(conn, provider_id, body.traits)
    return _traits(conn, provider_id)


def _clear_traits(conn: Connection, call: Call, provider_id: str) -> None:
    row = providers.get(conn, provider_id)
    providers.advance(conn, row.id, row.generation, call.now)
    providers.set_traits(conn, row.id, ())
