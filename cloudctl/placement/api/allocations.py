"""Allocations: who has how much, written for one consumer or for many at once; usages; the reshaper."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import func, select

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.placement import allocations, providers
from cloudctl.placement.allocations import UNKNOWN, NewAllocations, Owner
from cloudctl.placement.api import gates, queries
from cloudctl.placement.api.inventories import SetInventories, wanted
from cloudctl.placement.tables import Allocation, Consumer
from cloudctl.rest import body as bodies
from cloudctl.rest.body import MISSING, Body, Length, Missing, Pattern, Range, Uuid
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.rest.views import Fields

ONE = "/allocations/<consumer_id>"
# Shown where old clients have named nobody.
NOBODY = "00000000-0000-0000-0000-000000000000"
QUERY = {"project_id": ALWAYS, "user_id": ALWAYS, "consumer_type": since(1, 38)}

OwnerId = Annotated[str, Length(1, 255)]
Resources = Annotated[dict[Annotated[str, Length(1, 255)], Annotated[int, Range(1)]], bodies.Items(1, 100)]
TYPE = r"[A-Z0-9_]+"
Type = Annotated[str, Length(1, 255), Pattern(TYPE, "a type of consumers")]
Suffix = Annotated[str, Pattern(r"[a-zA-Z0-9_-]{0,64}", "the suffix of a group")]
Mappings = Annotated[dict[Suffix, Annotated[list[Uuid], bodies.Items(1, 1000)]], bodies.Items(1, 1000)]


@frozen
class ProviderRef:
    uuid: Uuid


@frozen
class Listed:
    resource_provider: ProviderRef
    resources: Resources


@frozen
class Share:
    resources: Resources
    # As it was read; it has no effect.
    generation: int | Missing = MISSING


@frozen
class List_1_0:
    allocations: Annotated[list[Listed], bodies.Items(1, 1000)]


@frozen
class List_1_8(List_1_0):
    project_id: OwnerId
    user_id: OwnerId


@frozen(kw_only=True)
class Shares_1_12:
    allocations: dict[Uuid, Share]
    project_id: OwnerId
    user_id: OwnerId


@frozen(kw_only=True)
class Shares_1_28(Shares_1_12):
    consumer_generation: Annotated[int, Range(0)] | None


@frozen(kw_only=True)
class Shares_1_34(Shares_1_28):
    # As candidates give it; nothing depends on it.
    mappings: Mappings | Missing = MISSING


@frozen(kw_only=True)
class Shares_1_38(Shares_1_34):
    consumer_type: Type


BY_VERSION = {(1, 12): Shares_1_12, (1, 28): Shares_1_28, (1, 34): Shares_1_34, (1, 38): Shares_1_38}


def many(shares: Any) -> Any:
    return Annotated[dict[Uuid, shares], bodies.Items(1, 1000)]


@frozen(kw_only=True)
class Reshape_1_30:
    inventories: Annotated[dict[Uuid, SetInventories], bodies.Items(1, 1000)]
    allocations: dict[Uuid, Shares_1_28]


@frozen(kw_only=True)
class Reshape_1_34(Reshape_1_30):
    allocations: dict[Uuid, Shares_1_34]  # type: ignore[assignment]  # narrower: a body is never changed


@frozen(kw_only=True)
class Reshape_1_38(Reshape_1_30):
    allocations: dict[Uuid, Shares_1_38]  # type: ignore[assignment]  # narrower: a body is never changed


LATER = Fields[[Consumer]](
    "the allocations of a consumer",
    {
        "project_id": (since(1, 12), lambda consumer: consumer.project_id or NOBODY),
        "user_id": (since(1, 12), lambda consumer: consumer.user_id or NOBODY),
        "consumer_generation": (since(1, 28), lambda consumer: consumer.generation),
        "consumer_type": (since(1, 38), lambda consumer: consumer.type or UNKNOWN),
    },
)


@frozen
class Allocations:
    routes = Routes("Allocations")

    db: Database

    @routes.get(ONE, policy="placement:allocations:list")
    async def show(self, call: Call, consumer_id: str) -> Reply:
        """Show the allocations of a consumer; empty if it is unknown."""
        return queries.fresh(call, await self.db.scan(_shown, call, _as_kept(consumer_id)))

    @routes.put(
        ONE,
        policy="placement:allocations:manage",
        body={
            (1, 0): Body(List_1_0),
            (1, 8): Body(List_1_8),
            **{version: Body(shares) for version, shares in BY_VERSION.items()},
        },
        status=204,
    )
    async def update(self, call: Call, consumer_id: str, body: Any) -> None:
        """Replace the allocations of a consumer."""
        if not body.allocations and call.version not in gates.CONSUMER_GENERATIONS:
            raise Invalid("JSON does not validate: {} does not have enough properties")
        await self.db.run(_replace, call, {queries.uuid(consumer_id, "consumer_uuid"): body})

    @routes.delete(ONE, policy="placement:allocations:manage")
    async def delete(self, call: Call, consumer_id: str) -> None:
        """Delete the allocations of a consumer."""
        await self.db.run(_release, _as_kept(consumer_id))

    @routes.post(
        "/allocations",
        policy="placement:allocations:manage",
        since=(1, 13),
        body={max(version, (1, 13)): Body(many(shares)) for version, shares in BY_VERSION.items()},
        status=204,
    )
    async def update_many(self, call: Call, body: Mapping[str, Any]) -> None:
        """Replace the allocations of several consumers, all or none."""
        await self.db.run(_replace, call, body)

    @routes.post(
        "/reshaper",
        policy="placement:reshaper:reshape",
        since=(1, 30),
        body={(1, 30): Body(Reshape_1_30), (1, 34): Body(Reshape_1_34), (1, 38): Body(Reshape_1_38)},
        status=204,
    )
    async def reshape(self, call: Call, body: Reshape_1_30) -> None:
        """Move inventories of providers together with their allocations, all or none."""
        await self.db.run(_reshape, call, body)

    @routes.get("/usages", policy="placement:usages:show", since=(1, 9), query=QUERY)
    async def usages(self, call: Call) -> Reply:
        """Show the usage of a project, or of one user in it."""
        queries.only(call, QUERY)
        project_id = queries.once(call, "project_id")
        if project_id is None:
            raise Invalid("Required parameter 'project_id' is missing.", type=queries.MISSING_VALUE)
        for name in QUERY:
            queries.short(call, name)
        _check_type(queries.once(call, "consumer_type"))
        call.require(project_id=project_id)
        return queries.fresh(call, {"usages": await self.db.scan(_usages, call, project_id)})


def _check_type(name: str | None) -> None:
    """Raises Invalid for what no consumer's type can be."""
    if name not in (None, "all", UNKNOWN) and re.fullmatch(TYPE, name) is None:
        message = f"Invalid query string parameters: consumer_type {name[:64]!r} is no type of consumers."
        raise Invalid(message, type=queries.BAD_VALUE)


def _as_kept(consumer_id: str) -> str:
    """The form in which the id is written; nobody is called by what is no UUID."""
    try:
        return bodies.uuid(consumer_id)
    except ValueError:
        return consumer_id


def _shown(conn: Connection, call: Call, consumer_id: str) -> dict[str, Any]:
    consumer = allocations.find_consumer(conn, consumer_id)
    if consumer is None:
        return {"allocations": {}}
    held = allocations.held(conn, consumer_id)
    # In the order in which the providers were created.
    given = sorted((providers.get(conn, provider_id) for provider_id in held), key=lambda row: row.number)
    found = {row.id: {"generation": row.generation, "resources": held[row.id]} for row in given}
    return {"allocations": found, **LATER.of(call.version, consumer)}


def _release(conn: Connection, consumer_id: str) -> None:
    if not allocations.held(conn, consumer_id):
        raise NotFound(f"No allocations for consumer '{consumer_id[:64]}'")
    allocations.release(conn, consumer_id)


def _replace(conn: Connection, call: Call, wishes: Mapping[str, Any]) -> None:
    new = [_wanted(call, consumer_id, body) for consumer_id, body in wishes.items()]
    providers.check_classes(conn, {name for each in new for amounts in each.shares.values() for name in amounts})
    allocations.replace(conn, new)


def _wanted(call: Call, consumer_id: str, body: Any) -> NewAllocations:
    """Raises Invalid."""
    if isinstance(body, List_1_0):
        shares: dict[str, dict[str, int]] = defaultdict(dict)
        for each in body.allocations:
            shares[each.resource_provider.uuid] |= each.resources
        named = body if isinstance(body, List_1_8) else None
        # Old clients name no owner.
        owner = Owner(consumer_id, named.project_id, named.user_id, "") if named else Owner(consumer_id, "", "", "")
        return NewAllocations(owner, shares, checked=False)
    checked = isinstance(body, Shares_1_28)
    kind = body.consumer_type if isinstance(body, Shares_1_38) else ""
    return NewAllocations(
        Owner(consumer_id, body.project_id, body.user_id, kind),
        {provider_id: share.resources for provider_id, share in body.allocations.items()},
        body.consumer_generation if isinstance(body, Shares_1_28) else None,
        checked,
    )


def _reshape(conn: Connection, call: Call, body: Reshape_1_30) -> None:
    """First what is new, then who has it, then what is gone: at no time does anybody have what does not exist."""
    final = {
        id: {name: wanted(call, name, each) for name, each in to.inventories.items()}
        for id, to in body.inventories.items()
    }
    for provider_id, to in sorted(body.inventories.items()):
        try:
            providers.advance(conn, provider_id, to.resource_provider_generation, call.now)
        except NotFound as error:
            raise Invalid(error.message, type=error.type) from None
        known = providers.inventories_of(conn, provider_id)
        providers.check_classes(conn, final[provider_id])
        for name, new in final[provider_id].items():
            providers.put_inventory(conn, provider_id, name, new, known.get(name))
    _replace(conn, call, body.allocations)
    for provider_id, inventories in final.items():
        providers.set_inventories(conn, provider_id, inventories)


def _usages(conn: Connection, call: Call, project_id: str) -> dict[str, Any]:
    where = [Allocation.consumer_id == Consumer.id, Consumer.project_id == project_id]
    if (user_id := queries.once(call, "user_id")) is not None:
        where.append(Consumer.user_id == user_id)
    total = func.sum(Allocation.amount)
    if call.version not in gates.CONSUMER_TYPES:
        by_class = select(Allocation.resource_class, total).where(*where).group_by(Allocation.resource_class)
        return {name: int(amount) for name, amount in conn.execute(by_class)}
    kind = queries.once(call, "consumer_type")
    by_type = select(Consumer.type, Allocation.resource_class, total).where(*where)
    counts = select(Consumer.type, func.count()).where(*where[1:]).group_by(Consumer.type)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for name, count in conn.execute(counts):
        found[_type(name, kind)]["consumer_count"] = found[_type(name, kind)].get("consumer_count", 0) + count
    for name, resource, amount in conn.execute(by_type.group_by(Consumer.type, Allocation.resource_class)):
        mine = found[_type(name, kind)]
        mine[resource] = mine.get(resource, 0) + int(amount)
    return dict(found) if kind in (None, "all") else {each: found[each] for each in found if each == kind}


def _type(name: str, asked: str | None) -> str:
    return "all" if asked == "all" else name or UNKNOWN
