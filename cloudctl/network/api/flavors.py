"""`/flavors` and `/service_profiles`. Neutron's extension `flavors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import flavors
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import NAMED_OWNER, Flag, Id, Json, LongText, Text
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import ServiceProfile
from cloudctl.network.flavors import FLAVORS, PROFILES, NewFlavor, NewProfile
from cloudctl.network.tables import Flavor
from cloudctl.rest.body import Body, Items, Length
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes

Driver = Annotated[str, Length(0, 1024)]
Meta = Annotated[str, Length(0, 4096)]
Service = Literal["L3_ROUTER_NAT", "CORE", "FLAVORS", "METERING", "QOS", "TRUNK"]
Profiles = Annotated[list[Id], Items(0, 100)]
# What a null means in the domain.
NULLS = {"description": "", "enabled": True}


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """A body as the domain takes it."""
    return {name: NULLS[name] if value is None else value for name, value in values.items()}


# -- flavors


def profiles(conn: Connection, call: Call, records: Sequence[Flavor]) -> list[list[str]]:
    found = flavors.profiles_of(conn, [flavor.id for flavor in records])
    return [found.get(flavor.id, []) for flavor in records]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Flavor:
    return flavors.create(conn, NewFlavor(**_said(values)), call.now)


def change(conn: Connection, call: Call, flavor: Flavor, changes: dict[str, Any]) -> Flavor:
    wanted = changes.pop("service_profiles", None)
    return flavors.change(conn, flavor, _said(changes), wanted, call.now)


def remove(conn: Connection, call: Call, flavor: Flavor) -> None:
    flavors.remove(conn, flavor)


def may_remove(call: Call, record: Flavor | ServiceProfile) -> None:
    """They belong to no project: the Operation's own rule has been checked."""


_c = Flavor
FLAVORS_OF_ROUTERS = Declared(
    name="flavor",
    title="Network flavors",
    record=Flavor,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("description", _c.description, LongText | None, post="", put=True, filter=any_of, sort=True),
        Attribute("service_type", _c.service_type, Service, post=REQUIRED, filter=any_of, sort=True),
        Attribute("enabled", _c.enabled, Flag | None, post=True, put=True, filter=lists.truths, sort=True),
        Attribute("service_profiles", None, Profiles, post=(), put=True, view=profiles),
        *NAMED_OWNER,
    ),
    visible=flavors.visible,
    visible_to=flavors.seen_by_all,
    not_found=FLAVORS.not_found,
    create=create,
    change=change,
    may_remove=may_remove,
    remove=remove,
    says={"delete": "Delete a flavor that no router is of."},
)


@frozen
class Chosen:
    id: Id


@frozen
class ProfilesOfFlavor:
    routes = Routes("Network flavors")

    db: Database

    @routes.get("/flavors/<flavor_id>/service_profiles", policy="network:flavors:show", pure=True)
    async def list(self, call: Call, flavor_id: str) -> Json:
        """List the service profiles of a flavor."""
        return {"service_profiles": await self.db.scan(self._list, flavor_id)}

    def _list(self, conn: Connection, flavor_id: str) -> Sequence[Json]:
        flavor = FLAVORS.get(conn, flavor_id)
        return [{"id": id} for id in flavors.profiles_of(conn, [flavor.id]).get(flavor.id, ())]

    @routes.post(
        "/flavors/<flavor_id>/service_profiles",
        policy="network:flavors:update",
        status=201,
        body=Body(Chosen, "service_profile"),
    )
    async def bind(self, call: Call, flavor_id: str, body: Chosen) -> Json:
        """Add a service profile to a flavor."""
        await self.db.run(self._bind, flavor_id, body.id)
        return {"service_profile": {"id": body.id}}

    def _bind(self, conn: Connection, flavor_id: str, profile_id: str) -> None:
        flavors.bind(conn, FLAVORS.get(conn, flavor_id, lock=True), profile_id)

    @routes.delete("/flavors/<flavor_id>/service_profiles/<service_profile_id>", policy="network:flavors:update")
    async def unbind(self, call: Call, flavor_id: str, service_profile_id: str) -> None:
        """Remove a service profile from a flavor."""
        await self.db.run(self._unbind, flavor_id, service_profile_id)

    def _unbind(self, conn: Connection, flavor_id: str, profile_id: str) -> None:
        flavors.unbind(conn, FLAVORS.get(conn, flavor_id, lock=True), profile_id)


# -- service profiles


def create_profile(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> ServiceProfile:
    return flavors.create_profile(conn, NewProfile(**_said(values)), call.now)


def change_profile(conn: Connection, call: Call, row: ServiceProfile, changes: dict[str, Any]) -> ServiceProfile:
    return flavors.change_profile(conn, row, _said(changes), call.now)


def remove_profile(conn: Connection, call: Call, row: ServiceProfile) -> None:
    flavors.remove_profile(conn, row)


_p = ServiceProfile
SERVICE_PROFILES = Declared(
    name="service_profile",
    title="Network flavors",
    sight="network:service_profiles:see",
    record=ServiceProfile,
    attributes=(
        Attribute("id", _p.id, filter=any_of, sort=True),
        Attribute("description", _p.description, LongText | None, post="", put=True, filter=any_of, sort=True),
        Attribute("driver", _p.driver, Driver, post="", put=True, filter=any_of, sort=True),
        Attribute("metainfo", _p.metainfo, Meta, post="", put=True, filter=any_of, sort=True),
        Attribute("enabled", _p.enabled, Flag | None, post=True, put=True, filter=lists.truths, sort=True),
        *NAMED_OWNER,
    ),
    visible=flavors.visible_profile,
    visible_to=flavors.seen_by_all,
    not_found=PROFILES.not_found,
    create=create_profile,
    change=change_profile,
    may_remove=may_remove,
    remove=remove_profile,
    says={"delete": "Delete a service profile that no flavor has."},
)
