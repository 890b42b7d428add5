"""/services, /endpoints and /regions: what the catalog is made of. Reference: identity.md, section 9."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import catalog, services
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id, changes
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Endpoint, Region, Service
from cloudctl.rest.body import MISSING, Body, Length, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes

RegionId = Annotated[str, Length(1, 255)]
Url = Annotated[str, Length(1, 2048)]
Interface = Literal["public", "internal", "admin"]


@frozen
class CreateService:
    type: Name
    name: Annotated[str, Length(0, 255)] | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateService:
    type: Name | Missing = MISSING
    name: Annotated[str, Length(0, 255)] | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Services:
    db: Database

    routes = Routes("Services")

    @routes.get("/services", policy="identity:list_services", query=tuple(services.SERVICES.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List services"""
        return paged(call, "services", await self.db.scan(self._list, call), service_view)

    def _list(self, conn: Connection, call: Call) -> Page:
        return page(conn, call, services.SERVICES)

    @routes.post("/services", policy="identity:create_service", status=201, body=Body(CreateService, key="service"))
    async def create(self, call: Call, body: CreateService) -> dict[str, Any]:
        """Create a service"""
        values = {**changes(body), "name": body.name or ""}
        return {"service": service_view(call, await self.db.run(services.create_service, values, call.now))}

    @routes.get("/services/<service_id>", policy="identity:get_service")
    async def show(self, call: Call, service_id: str) -> dict[str, Any]:
        """Show a service"""
        return {"service": service_view(call, await self.db.read(services.get_service, service_id))}

    @routes.patch("/services/<service_id>", policy="identity:update_service", body=Body(UpdateService, key="service"))
    async def update(self, call: Call, service_id: str, body: UpdateService) -> dict[str, Any]:
        """Change a service"""
        check_id(body.extra, service_id)
        values = changes(body)
        if "name" in values:
            values["name"] = values["name"] or ""
        return {"service": service_view(call, await self.db.run(services.change_service, service_id, values))}

    @routes.delete("/services/<service_id>", policy="identity:delete_service")
    async def delete(self, call: Call, service_id: str) -> None:
        """Delete a service and its endpoints"""
        await self.db.run(services.remove_service, service_id)


def service_view(call: Call, row: Service) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "type": row.type,
        "name": row.name,
        "description": row.description,
        "enabled": row.enabled,
        "links": link(call, "services", row.id),
    }


@frozen
class CreateEndpoint:
    interface: Interface
    service_id: Id
    url: Url
    region: RegionId | Missing | None = MISSING
    region_id: RegionId | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateEndpoint:
    interface: Interface | Missing = MISSING
    service_id: Id | Missing = MISSING
    url: Url | Missing = MISSING
    region: RegionId | Missing | None = MISSING
    region_id: RegionId | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Endpoints:
    db: Database
    instance_ha_url: str

    routes = Routes("Endpoints")

    @routes.get("/endpoints", policy="identity:list_endpoints", query=tuple(services.ENDPOINTS.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List endpoints"""
        return paged(call, "endpoints", await self.db.scan(self._list, call), self.view)

    def _list(self, conn: Connection, call: Call) -> Page:
        return page(conn, call, services.ENDPOINTS)

    @routes.post("/endpoints", policy="identity:create_endpoint", status=201, body=Body(CreateEndpoint, key="endpoint"))
    async def create(self, call: Call, body: CreateEndpoint) -> dict[str, Any]:
        """Create an endpoint"""
        values, make_region = regional(changes(body))
        row = await self.db.run(services.create_endpoint, values, call.now, make_region=make_region)
        return {"endpoint": self.view(call, row)}

    @routes.get("/endpoints/<endpoint_id>", policy="identity:get_endpoint")
    async def show(self, call: Call, endpoint_id: str) -> dict[str, Any]:
        """Show an endpoint"""
        return {"endpoint": self.view(call, await self.db.read(services.get_endpoint, endpoint_id))}

    @routes.patch(
        "/endpoints/<endpoint_id>", policy="identity:update_endpoint", body=Body(UpdateEndpoint, key="endpoint")
    )
    async def update(self, call: Call, endpoint_id: str, body: UpdateEndpoint) -> dict[str, Any]:
        """Change an endpoint"""
        check_id(body.extra, endpoint_id)
        values, make_region = regional(changes(body))
        arguments = (endpoint_id, values, call.now)
        row = await self.db.run(services.change_endpoint, *arguments, make_region=make_region)
        return {"endpoint": self.view(call, row)}

    @routes.delete("/endpoints/<endpoint_id>", policy="identity:delete_endpoint")
    async def delete(self, call: Call, endpoint_id: str) -> None:
        """Delete an endpoint"""
        await self.db.run(services.remove_endpoint, endpoint_id)

    def view(self, call: Call, row: Endpoint) -> dict[str, Any]:
        return endpoint_view(call, row, self.instance_ha_url)


def regional(values: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """`region`, the older name of `region_id`, makes the region if there is none. Raises Invalid if they differ."""
    if "region" not in values:
        return values, False
    region = values.pop("region")
    if values.setdefault("region_id", region) != region:
        raise Invalid("'region' and 'region_id' differ.")
    return values, True


def endpoint_view(call: Call, row: Endpoint, instance_ha_url: str) -> dict[str, Any]:
    """`instance_ha_url`: as configured; empty: as the request says."""
    ha_url = catalog.instance_ha_url(call.host_url, instance_ha_url)
    return {
        **row.extra,
        "id": row.id,
        "service_id": row.service_id,
        "interface": row.interface,
        "region": row.region_id,
        "region_id": row.region_id,
        "url": catalog.shown(row.url, call.host_url, ha_url),
        "enabled": row.enabled,
        "links": link(call, "endpoints", row.id),
    }


@frozen
class CreateRegion:
    id: RegionId | Missing = MISSING
    description: Description | Missing | None = MISSING
    parent_region_id: RegionId | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Regions:
    db: Database

    routes = Routes("Regions")

    @routes.get("/regions", policy="identity:list_regions", query=tuple(services.REGIONS.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List regions"""
        return paged(call, "regions", await self.db.scan(self._list, call), region_view)

    def _list(self, conn: Connection, call: Call) -> Page:
        return page(conn, call, services.REGIONS)

    @routes.post("/regions", policy="identity:create_region", status=201, body=Body(CreateRegion, key="region"))
    async def create(self, call: Call, body: CreateRegion) -> dict[str, Any]:
        """Create a region"""
        row = await self.db.run(services.create_region, region_values(body), call.now)
        return {"region": region_view(call, row)}

    @routes.put(
        "/regions/<region_id>", policy="identity:create_region", status=201, body=Body(CreateRegion, key="region")
    )
    async def put(self, call: Call, region_id: str, body: CreateRegion) -> dict[str, Any]:
        """Create a region with the id in the path"""
        check_region_id(body, region_id)
        values = {**region_values(body), "id": region_id}
        return {"region": region_view(call, await self.db.run(services.create_region, values, call.now))}

    @routes.get("/regions/<region_id>", policy="identity:get_region")
    async def show(self, call: Call, region_id: str) -> dict[str, Any]:
        """Show a region"""
        return {"region": region_view(call, await self.db.read(services.get_region, region_id))}

    @routes.patch("/regions/<region_id>", policy="identity:update_region", body=Body(CreateRegion, key="region"))
    async def update(self, call: Call, region_id: str, body: CreateRegion) -> dict[str, Any]:
        """Change a region"""
        check_region_id(body, region_id)
        row = await self.db.run(services.change_region, region_id, region_values(body))
        return {"region": region_view(call, row)}

    @routes.delete("/regions/<region_id>", policy="identity:delete_region")
    async def delete(self, call: Call, region_id: str) -> None:
        """Delete a region"""
        await self.db.run(services.remove_region, region_id)


def region_values(body: CreateRegion) -> dict[str, Any]:
    values = changes(body)
    if "description" in values:
        values["description"] = values["description"] or ""
    return values


def check_region_id(body: CreateRegion, region_id: str) -> None:
    if len(region_id) > 255:
        raise Invalid("A region id has at most 255 characters.")
    if body.id is not MISSING and body.id != region_id:
        raise Invalid("The id in the body does not match the one in the path.")


def region_view(call: Call, row: Region) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "description": row.description,
        "parent_region_id": row.parent_region_id,
        "links": link(call, "regions", row.id),
    }
