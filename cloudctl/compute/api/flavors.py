"""Flavors, their extra specs and who may use them. Reference: compute.md, section 9."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import field, frozen
from sqlalchemy import ColumnElement

from cloudctl.compute import extra_specs, flavors, patterns
from cloudctl.compute.api import gates, query
from cloudctl.compute.api.server_bodies import ServerName
from cloudctl.compute.api.server_filters import matching
from cloudctl.compute.flavors import LISTING, MANAGE, NewFlavor
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Flavor
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import projects
from cloudctl.rest.body import (
    MISSING,
    Body,
    BodyError,
    Check,
    Items,
    Length,
    LooseBool,
    LooseInt,
    Missing,
    Pattern,
    Problem,
    Range,
    extra,
    gated,
    truth,
    wire,
)
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page, Paging, paging
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since, until
from cloudctl.rest.views import Fields

NAMED = since(2, 102)
KNOWN = ("is_public", "limit", "marker", "minDisk", "minRam", "sort_dir", "sort_key")
QUERY = dict.fromkeys(KNOWN, ALWAYS) | {"name": NAMED}

Size = Annotated[LooseInt, Range(0)]
Amount = Annotated[LooseInt, Range(1)]
FlavorId = Annotated[str, Length(1, 255), Pattern(r"(?! )[A-Za-z0-9._\- ]+(?<! )", "a flavor id")]
Description = Annotated[str, Length(0, 65535)]


# Numbers and booleans are accepted, and turned into text.
Specs = Annotated[dict[str, Any], Items(0, 128), Check(extra_specs.texts)]


@frozen
class CreateFlavor:
    name: ServerName
    ram: Amount
    vcpus: Amount
    disk: Size
    id: FlavorId | int | Missing | None = MISSING
    ephemeral: Size | Missing = wire("OS-FLV-EXT-DATA:ephemeral", default=MISSING)
    swap: Size | Missing = MISSING
    rxtx_factor: Annotated[Any, Check(extra_specs.factor)] | Missing = gated(until(2, 101))
    is_public: LooseBool | Missing = wire("os-flavor-access:is_public", default=MISSING)
    description: Description | Missing | None = gated(since(2, 55))


@frozen
class UpdateFlavor:
    description: Description | None


@frozen
class OneSpec:
    """`{key: value}` with the key of the path."""

    rest: dict[str, Any] = extra()


@frozen
class Access:
    tenant: Annotated[str, Length(1, 64)]


EARLIER = Fields[[Flavor]](
    "a flavor with its sizes, for the last time",
    {
        "rxtx_factor": (until(2, 101), lambda flavor: flavor.rxtx_factor),
        "OS-FLV-DISABLED:disabled": (until(2, 101), lambda flavor: flavor.disabled),
    },
)
LATER = Fields[[Flavor]]("a flavor", {"description": (since(2, 55), lambda flavor: flavor.description)})
SPECS = Fields[[Flavor]]("a flavor with its sizes", {"extra_specs": (since(2, 61), lambda flavor: flavor.extra_specs)})


def view(call: Call, row: Flavor) -> dict[str, Any]:
    """The whole record."""
    shown = {
        "id": row.id,
        "name": row.name,
        "ram": row.memory_mib,
        "vcpus": row.vcpus,
        "disk": row.disk_gib,
        "swap": row.swap_mib if row.swap_mib or call.version in gates.NO_EMPTY_SWAP else "",
        "OS-FLV-EXT-DATA:ephemeral": row.ephemeral_gib,
        "os-flavor-access:is_public": row.is_public,
        "links": query.resource_links(call, "flavors", row.id),
    }
    return shown | EARLIER.of(call.version, row) | LATER.of(call.version, row) | SPECS.of(call.version, row)


def brief(call: Call, row: Flavor) -> dict[str, Any]:
    shown = {"id": row.id, "name": row.name, "links": query.resource_links(call, "flavors", row.id)}
    return shown | LATER.of(call.version, row)


@frozen
class Flavors:
    routes = Routes("Flavors")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/flavors", policy="compute:flavors:list", pure=True, query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List flavors."""
        page = await self.db.scan(self._page, call)
        return {"flavors": [brief(call, row) for row in page.rows], **query.links(call, page, "flavors_links")}

    @routes.get("/flavors/detail", policy="compute:flavors:list", pure=True, query=QUERY)
    async def detail(self, call: Call) -> dict[str, Any]:
        """List flavors with their sizes."""
        page = await self.db.scan(self._page, call)
        return {"flavors": [view(call, row) for row in page.rows], **query.links(call, page, "flavors_links")}

    def _page(self, conn: Connection, call: Call) -> Page:
        query.only(call, QUERY)
        asked = paging(call, query.limits(self.options))
        if call.query.all("sort_key") and not call.query.all("sort_dir"):
            asked = Paging(asked.limit, asked.marker, tuple((key, "asc") for key, _ in asked.order))
        if "name" in call.query:
            patterns.install(conn)
        return query.page(conn, LISTING, asked, *_conditions(call))

    @routes.get("/flavors/<flavor_id>", policy="compute:flavors:show", pure=True)
    async def show(self, call: Call, flavor_id: str) -> dict[str, Any]:
        """Show one flavor."""
        return {"flavor": view(call, await self.db.read(flavors.visible, call.caller, flavor_id))}

    @routes.post("/flavors", policy="compute:flavors:manage", body=Body(CreateFlavor, key="flavor"))
    async def create(self, call: Call, body: CreateFlavor) -> dict[str, Any]:
        """Create a flavor."""
        automatic = body.id in (None, "auto") or body.id is MISSING
        wanted = NewFlavor(
            name=body.name,
            memory_mib=body.ram,
            vcpus=body.vcpus,
            disk_gib=body.disk,
            id=None if automatic else str(body.id),
            ephemeral_gib=body.ephemeral or 0,
            swap_mib=body.swap or 0,
            rxtx_factor=1.0 if body.rxtx_factor is MISSING else body.rxtx_factor,
            is_public=body.is_public is not False,
            description=body.description or None,
        )
        return {"flavor": view(call, await self.db.run(flavors.create, wanted, call.now))}

    @routes.put(
        "/flavors/<flavor_id>",
        policy="compute:flavors:manage",
        body=Body(UpdateFlavor, key="flavor"),
        since=(2, 55),
    )
    async def update(self, call: Call, flavor_id: str, body: UpdateFlavor) -> dict[str, Any]:
        """Change a flavor's description."""
        row = await self.db.run(_describe, call, flavor_id, body.description)
        return {"flavor": view(call, row)}

    @routes.delete("/flavors/<flavor_id>", policy="compute:flavors:manage", status=202)
    async def delete(self, call: Call, flavor_id: str) -> None:
        """Delete a flavor."""
        await self.db.run(flavors.remove, flavor_id)

    # -- extra specs

    @routes.get("/flavors/<flavor_id>/os-extra_specs", policy="compute:flavors:show")
    async def extra_specs(self, call: Call, flavor_id: str) -> dict[str, Any]:
        """List a flavor's extra specs."""
        row = await self.db.read(flavors.visible, call.caller, flavor_id)
        return {"extra_specs": row.extra_specs}

    @routes.post(
        "/flavors/<flavor_id>/os-extra_specs", policy="compute:flavors:manage", body=Body(Specs, key="extra_specs")
    )
    async def set_extra_specs(self, call: Call, flavor_id: str, body: dict[str, str]) -> dict[str, Any]:
        """Add extra specs to a flavor."""
        _check_specs(call, body)
        await self.db.run(flavors.set_extra_specs, flavor_id, body, call.now)
        return {"extra_specs": body}

    @routes.get("/flavors/<flavor_id>/os-extra_specs/<key>", policy="compute:flavors:show")
    async def extra_spec(self, call: Call, flavor_id: str, key: str) -> dict[str, str]:
        """Show one extra spec."""
        row = await self.db.read(flavors.visible, call.caller, flavor_id)
        if key not in row.extra_specs:
            raise flavors.no_extra_spec(flavor_id, key)
        return {key: row.extra_specs[key]}

    @routes.put("/flavors/<flavor_id>/os-extra_specs/<key>", policy="compute:flavors:manage", body=Body(OneSpec))
    async def set_extra_spec(self, call: Call, flavor_id: str, key: str, body: OneSpec) -> dict[str, str]:
        """Set one extra spec."""
        if list(body.rest) != [key]:
            raise Invalid("Request body and URI mismatch" if body.rest else "Malformed request body")
        try:
            specs = extra_specs.texts(body.rest)
        except ValueError as error:
            raise BodyError([Problem(f"$.{key[:64]}", str(error))]) from None
        _check_specs(call, specs)
        await self.db.run(flavors.set_extra_specs, flavor_id, specs, call.now)
        return specs

    @routes.delete("/flavors/<flavor_id>/os-extra_specs/<key>", policy="compute:flavors:manage", status=200)
    async def delete_extra_spec(self, call: Call, flavor_id: str, key: str) -> None:
        """Delete one extra spec."""
        await self.db.run(flavors.drop_extra_spec, flavor_id, key, call.now)

    # -- access

    @routes.get("/flavors/<flavor_id>/os-flavor-access", policy="compute:flavors:manage")
    async def access(self, call: Call, flavor_id: str) -> dict[str, Any]:
        """List the projects that may use a private flavor."""
        return _access(flavor_id, await self.db.read(flavors.access, flavor_id))

    @routes.action(
        "/flavors/<flavor_id>/action",
        "addTenantAccess",
        policy="compute:flavors:manage",
        body=Body(Access),
        status=200,
    )
    async def grant(self, call: Call, flavor_id: str, body: Access) -> dict[str, Any]:
        """Grant a project access to a private flavor."""
        return _access(flavor_id, await self.db.run(_grant, call, flavor_id, body.tenant))

    @routes.action(
        "/flavors/<flavor_id>/action",
        "removeTenantAccess",
        policy="compute:flavors:manage",
        body=Body(Access),
        status=200,
    )
    async def revoke(self, call: Call, flavor_id: str, body: Access) -> dict[str, Any]:
        """Revoke a project's access to a private flavor."""
        return _access(flavor_id, await self.db.run(flavors.revoke, flavor_id, body.tenant))


def _conditions(call: Call) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name, column in (("minRam", Flavor.memory_mib), ("minDisk", Flavor.disk_gib)):
        least = call.query.integer(name)
        if least is not None:
            found.append(column >= least)
    if (pattern := call.query.get("name")) is not None:
        found.append(matching(Flavor.name)([pattern]))
    if not call.may(MANAGE):
        found.append(flavors.seen_by(call.caller))
        return found
    wanted = call.query.get("is_public")
    if wanted is None:
        # Administrators see private flavors only if they ask for them.
        found.append(Flavor.is_public.is_(True))
    elif wanted.strip().lower() != "none":
        public = truth(wanted)
        if public is None:
            raise Invalid(f"Invalid is_public filter [{wanted[:64]}]")
        found.append(Flavor.is_public.is_(public))
    return found


def _grant(conn: Connection, call: Call, flavor_id: str, project_id: str) -> list[str]:
    flavors.get(conn, flavor_id)
    if not projects.exists(conn, project_id):
        raise Invalid(f"Project ID {project_id} is not a valid project.")
    return flavors.grant(conn, flavor_id, project_id, public_too=call.version not in gates.PUBLIC_ACCESS)


def _check_specs(call: Call, specs: dict[str, str]) -> None:
    if call.version in gates.CHECKED_SPECS:
        extra_specs.check(specs)


def _access(flavor_id: str, projects: list[str]) -> dict[str, Any]:
    return {"flavor_access": [{"flavor_id": flavor_id, "tenant_id": project} for project in projects]}


def _describe(conn: Connection, call: Call, flavor_id: str, description: str | None) -> Flavor:
    return flavors.change(conn, flavors.get(conn, flavor_id), {"description": description}, call.now)
