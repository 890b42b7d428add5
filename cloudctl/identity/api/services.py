"""/services, /endpoints and /regions: what the catalog is made of. Reference: identity.md, section 9."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.identity import catalog, services
from cloudctl.identity.api.fields import Description, Id
from cloudctl.identity.api.resource import CREATE, Declared, linked
from cloudctl.identity.records import flag, text_filters
from cloudctl.identity.tables import Endpoint, Region, Service
from cloudctl.rest.body import MISSING, Length, Name
from cloudctl.rest.call import Call
from cloudctl.rest.declared import Resource
from cloudctl.rest.listing import equals
from cloudctl.rest.resource import REQUIRED, Attribute, Json, View
from cloudctl.rest.route import Routes

RegionId = Annotated[str, Length(1, 255)]
Interface = Literal["public", "internal", "admin"]


# -- services


def create_service(conn: Connection, call: Call, values: Json) -> Service:
    return services.create_service(conn, {**values, "name": values.get("name") or ""}, call.now)


def change_service(conn: Connection, call: Call, service_id: str, changes: Json) -> Service:
    if "name" in changes:
        changes["name"] = changes["name"] or ""
    return services.change_service(conn, service_id, changes)


def remove_service(conn: Connection, call: Call, service_id: str) -> None:
    services.remove_service(conn, service_id)


SERVICES = Declared(
    name="service",
    record=Service,
    attributes=(
        Attribute("id", Service.id, sort=True),
        Attribute("type", Service.type, Name, post=REQUIRED, put=True, sort=True),
        Attribute("name", Service.name, Annotated[str, Length(0, 255)] | None, post=MISSING, put=True, sort=True),
        Attribute("description", Service.description, Description | None, post=MISSING, put=True),
        Attribute("enabled", Service.enabled, bool, post=MISSING, put=True, filter=flag),
        Attribute("created_at", Service.created_at, sort=True, view=None),
        linked("services"),
    ),
    filters={**text_filters("name", Service.name), **text_filters("type", Service.type)},
    create=create_service,
    change=change_service,
    remove=remove_service,
    says={"delete": "Delete a service and its endpoints"},
)


# -- endpoints


def create_endpoint(conn: Connection, call: Call, values: Json) -> Endpoint:
    make_region = regional(values)
    return services.create_endpoint(conn, values, call.now, make_region=make_region)


def change_endpoint(conn: Connection, call: Call, endpoint_id: str, changes: Json) -> Endpoint:
    make_region = regional(changes)
    return services.change_endpoint(conn, endpoint_id, changes, call.now, make_region=make_region)


def remove_endpoint(conn: Connection, call: Call, endpoint_id: str) -> None:
    services.remove_endpoint(conn, endpoint_id)


def regional(values: Json) -> bool:
    """`region`, the older name of `region_id`, makes the region if there is none. Raises Invalid if they differ."""
    if "region" not in values:
        return False
    region = values.pop("region")
    if values.setdefault("region_id", region) != region:
        raise Invalid("'region' and 'region_id' differ.")
    return True


def url_view(instance_ha_url: str) -> View:
    """`instance_ha_url`: see `catalog.instance_ha_url`."""

    def view(conn: Connection, call: Call, found: Sequence[Endpoint]) -> Iterable[str]:
        ha_url = catalog.instance_ha_url(call.host_url, instance_ha_url)
        return [catalog.shown(endpoint.url, call.host_url, ha_url) for endpoint in found]

    return view


OptionalRegion = RegionId | None
Url = Annotated[str, Length(1, 2048)]


# One for each cloud of a process that is configured differently.
@lru_cache(maxsize=64)
def endpoints(instance_ha_url: str) -> Declared[Endpoint]:
    """`instance_ha_url`: see `catalog.instance_ha_url`."""
    return Declared(
        name="endpoint",
        record=Endpoint,
        attributes=(
            Attribute("id", Endpoint.id, sort=True),
            Attribute("service_id", Endpoint.service_id, Id, post=REQUIRED, put=True, filter=equals),
            Attribute("interface", Endpoint.interface, Interface, post=REQUIRED, put=True, filter=equals, sort=True),
            Attribute(
                "region", Endpoint.region_id, OptionalRegion, post=MISSING, put=True, filter=equals, named="region"
            ),
            Attribute("region_id", Endpoint.region_id, OptionalRegion, post=MISSING, put=True, filter=equals),
            Attribute("url", Endpoint.url, Url, post=REQUIRED, put=True, view=url_view(instance_ha_url)),
            Attribute("enabled", Endpoint.enabled, bool, post=MISSING, put=True, filter=flag),
            Attribute("created_at", Endpoint.created_at, sort=True, view=None),
            linked("endpoints"),
        ),
        create=create_endpoint,
        change=change_endpoint,
        remove=remove_endpoint,
    )


# -- regions


def create_region(conn: Connection, call: Call, values: Json) -> Region:
    return services.create_region(conn, described(values), call.now)


def change_region(conn: Connection, call: Call, region_id: str, changes: Json) -> Region:
    check_region_id(region_id)
    return services.change_region(conn, region_id, described(changes))


def remove_region(conn: Connection, call: Call, region_id: str) -> None:
    services.remove_region(conn, region_id)


def described(values: Json) -> Json:
    """A region always has a description, if only an empty one."""
    return {**values, "description": values["description"] or ""} if "description" in values else values


def check_region_id(region_id: str) -> None:
    if len(region_id) > 255:
        raise Invalid("A region id has at most 255 characters.")


REGIONS = Declared(
    name="region",
    record=Region,
    attributes=(
        Attribute("id", Region.id, RegionId, post=MISSING, put=True, sort=True),
        Attribute("description", Region.description, Description | None, post=MISSING, put=True),
        Attribute("parent_region_id", Region.parent_region_id, OptionalRegion, post=MISSING, put=True, filter=equals),
        Attribute("created_at", Region.created_at, sort=True, view=None),
        linked("regions"),
    ),
    create=create_region,
    change=change_region,
    remove=remove_region,
)


@frozen
class NamedRegions:
    """Regions that are created under an id of the client's choice."""

    regions: Resource[Declared[Region]]

    routes = Routes("Regions")

    @routes.put("/regions/<region_id>", policy="identity:create_region", status=201, body=REGIONS.body(CREATE))
    async def put(self, call: Call, region_id: str, body: Any) -> Any:
        """Create a region with the id in the path"""
        check_region_id(region_id)
        return await self.regions.create(call, body, region_id=region_id)
