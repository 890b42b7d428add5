"""Host aggregates, which administrators manage. Reference: compute.md, section 15."""

from __future__ import annotations

import re
from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute.api.server_bodies import ServerName, printable
from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.image import images
from cloudctl.placement import aggregates, hosts
from cloudctl.placement.aggregates import ZONE, Aggregate, InUse, NewAggregate
from cloudctl.placement.hosts import Host
from cloudctl.rest import body as bodies
from cloudctl.rest.body import MISSING, Body, BodyError, Check, Length, Missing, Pattern, Problem, Uuid
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields

# `zone:host` names a host in other calls.
Zone = Annotated[ServerName, Pattern(r"[^:]*", "the name of a zone: it has no colon")]
# A change takes off what a new name may not have around it.
NewName = Annotated[str, Length(1, 255, blank=False), Check(str.strip), Check(printable)]
Key = Annotated[str, Length(1, 255), Pattern(r"[a-zA-Z0-9\-_:. ]+", "a key of metadata")]
ACTION = "/os-aggregates/<aggregate_id>/action"


@frozen
class CreateAggregate:
    name: ServerName
    availability_zone: Zone | Missing | None = MISSING


@frozen
class ChangeAggregate:
    name: NewName | Missing = MISSING
    availability_zone: Zone | Missing | None = MISSING


@frozen
class Member:
    host: Annotated[str, Length(1, 255)]


@frozen
class Metadata:
    metadata: dict[Key, Annotated[str, Length(0, 255)] | None]


@frozen
class CachedImage:
    id: Uuid


@frozen
class Cache:
    cache: Annotated[list[CachedImage], bodies.Items(1, 1000)]


LATER = Fields[[Aggregate]]("an aggregate", {"uuid": (since(2, 41), lambda row: row.id)})


def brief(call: Call, row: Aggregate) -> dict[str, Any]:
    shown = {
        "id": row.number,
        "name": row.name,
        "availability_zone": row.metadata.get(ZONE),
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    return shown | LATER.of(call.version, row)


def view(call: Call, row: Aggregate, names: list[str]) -> dict[str, Any]:
    return {**brief(call, row), "hosts": names, "metadata": row.metadata}


@frozen
class Aggregates:
    routes = Routes("Aggregates")

    db: Database

    @routes.get("/os-aggregates", policy="compute:aggregates:list")
    async def list(self, call: Call) -> dict[str, Any]:
        """List host aggregates."""
        return {"aggregates": await self.db.scan(_every, call)}

    @routes.post("/os-aggregates", policy="compute:aggregates:manage", body=Body(CreateAggregate, key="aggregate"))
    async def create(self, call: Call, body: CreateAggregate) -> dict[str, Any]:
        """Create an aggregate without hosts."""
        metadata = {ZONE: body.availability_zone} if body.availability_zone else {}
        row = await self.db.run(aggregates.create, NewAggregate(body.name, metadata), call.now)
        return {"aggregate": brief(call, row)}

    @routes.get("/os-aggregates/<aggregate_id>", policy="compute:aggregates:list")
    async def show(self, call: Call, aggregate_id: str) -> dict[str, Any]:
        """Show one aggregate with its hosts."""
        return {"aggregate": await self.db.scan(_one, call, aggregate_id)}

    @routes.put(
        "/os-aggregates/<aggregate_id>",
        policy="compute:aggregates:manage",
        body=Body(ChangeAggregate, key="aggregate"),
    )
    async def update(self, call: Call, aggregate_id: str, body: ChangeAggregate) -> dict[str, Any]:
        """Change the name or zone of an aggregate."""
        return {"aggregate": await self.db.run(_change, call, aggregate_id, body)}

    @routes.delete("/os-aggregates/<aggregate_id>", policy="compute:aggregates:manage", status=200)
    async def delete(self, call: Call, aggregate_id: str) -> None:
        """Delete an aggregate that has no hosts."""
        await self.db.run(_remove, aggregate_id)

    @routes.action(ACTION, "add_host", policy="compute:aggregates:manage", body=Body(Member), status=200)
    async def add_host(self, call: Call, aggregate_id: str, body: Member) -> dict[str, Any]:
        """Add a host to an aggregate."""
        return {"aggregate": await self.db.run(_add_host, call, aggregate_id, body.host)}

    @routes.action(ACTION, "remove_host", policy="compute:aggregates:manage", body=Body(Member), status=200)
    async def remove_host(self, call: Call, aggregate_id: str, body: Member) -> dict[str, Any]:
        """Remove a host from an aggregate."""
        return {"aggregate": await self.db.run(_remove_host, call, aggregate_id, body.host)}

    @routes.action(ACTION, "set_metadata", policy="compute:aggregates:manage", body=Body(Metadata), status=200)
    async def set_metadata(self, call: Call, aggregate_id: str, body: Metadata) -> dict[str, Any]:
        """Add to the metadata of an aggregate; null removes a key."""
        return {"aggregate": await self.db.run(_set_metadata, call, aggregate_id, body.metadata)}

    @routes.post(
        "/os-aggregates/<aggregate_id>/images",
        policy="compute:aggregates:cache",
        body=Body(Cache),
        since=(2, 81),
        status=202,
    )
    async def cache(self, call: Call, aggregate_id: str, body: Cache) -> None:
        """Cache images on the hosts of an aggregate: does nothing, as hosts read images where they are stored."""
        await self.db.scan(_check_images, call, aggregate_id, [each.id for each in body.cache])


def _get(conn: Connection, aggregate_id: str, *, lock: bool = False) -> Aggregate:
    """Raises Invalid, NotFound."""
    if re.fullmatch(r"-?\d{1,18}", aggregate_id, re.ASCII) is None:
        raise Invalid(f"Invalid value for the id of an aggregate: {aggregate_id[:64]!r} is not an integer.")
    return aggregates.get(conn, int(aggregate_id), lock=lock)


def _host(conn: Connection, name: str) -> Host:
    found = hosts.find(conn, name)
    if found is None:
        raise NotFound(f"Compute host {name} could not be found.")
    return found


def _every(conn: Connection, call: Call) -> list[dict[str, Any]]:
    rows = aggregates.every(conn)
    names = aggregates.host_names(conn, rows)
    return [view(call, row, names[row.id]) for row in rows]


def _shown(conn: Connection, call: Call, row: Aggregate) -> dict[str, Any]:
    return view(call, row, aggregates.host_names(conn, [row])[row.id])


def _one(conn: Connection, call: Call, aggregate_id: str) -> dict[str, Any]:
    return _shown(conn, call, _get(conn, aggregate_id))


def _change(conn: Connection, call: Call, aggregate_id: str, body: ChangeAggregate) -> dict[str, Any]:
    row = _get(conn, aggregate_id, lock=True)
    changes: dict[str, Any] = {}
    if body.name is not MISSING:
        changes["name"] = body.name
    if body.availability_zone is not MISSING:
        others = {key: value for key, value in row.metadata.items() if key != ZONE}
        changes["metadata"] = {**others, ZONE: body.availability_zone} if body.availability_zone else others
    if not changes:
        raise BodyError([Problem("$.aggregate", "{} does not have enough properties")])
    try:
        return _shown(conn, call, aggregates.change(conn, row, changes, call.now))
    except InUse as error:
        raise Invalid(error.message) from None


def _remove(conn: Connection, aggregate_id: str) -> None:
    aggregates.remove(conn, _get(conn, aggregate_id, lock=True))


def _add_host(conn: Connection, call: Call, aggregate_id: str, name: str) -> dict[str, Any]:
    aggregates.add_host(conn, _get(conn, aggregate_id, lock=True), _host(conn, name), call.now)
    return _one(conn, call, aggregate_id)


def _remove_host(conn: Connection, call: Call, aggregate_id: str, name: str) -> dict[str, Any]:
    aggregates.remove_host(conn, _get(conn, aggregate_id, lock=True), _host(conn, name), call.now)
    return _one(conn, call, aggregate_id)


def _set_metadata(conn: Connection, call: Call, aggregate_id: str, metadata: dict[str, str | None]) -> dict[str, Any]:
    try:
        row = _get(conn, aggregate_id, lock=True)
        return _shown(conn, call, aggregates.set_metadata(conn, row, metadata, call.now))
    except Conflict as error:
        raise Invalid(error.message) from None


def _check_images(conn: Connection, call: Call, aggregate_id: str, image_ids: list[str]) -> None:
    """Raises Invalid, NotFound."""
    _get(conn, aggregate_id)
    if len(set(image_ids)) < len(image_ids):
        raise Invalid("Duplicate images in request")
    for image_id in image_ids:
        try:
            images.visible(conn, call.caller, image_id)
        except NotFound:
            raise Invalid(f"Image {image_id} could not be found.") from None
