"""Flavors: kinds of routers by name, and service profiles that say how one is made. Neutron's extension `flavors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, insert, select, true

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound, Unavailable
from cloudctl.network import standard
from cloudctl.network.extension_tables import FlavorProfile, ServiceProfile
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Flavor, Router
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition

ROUTERS = "L3_ROUTER_NAT"


@frozen
class RouterKind:
    """How a router is made."""

    distributed: bool = False
    ha: bool = False


@frozen
class NewFlavor:
    service_type: str
    name: str = ""
    description: str = ""
    enabled: bool = True
    service_profiles: Sequence[str] = ()


@frozen
class NewProfile:
    """`driver`: one of DRIVERS; "": none."""

    description: str = ""
    driver: str = ""
    metainfo: str = ""
    enabled: bool = True


# Names that clients know a kind of router by → the kind.
DRIVERS = {
    f"neutron.services.l3_router.service_providers.{name}": kind
    for name, kind in {
        "single_node.SingleNodeDriver": RouterKind(),
        "ha.HaDriver": RouterKind(ha=True),
        "dvr.DvrDriver": RouterKind(distributed=True),
        "dvrha.DvrHaDriver": RouterKind(distributed=True, ha=True),
    }.items()
}

FLAVORS = Owned(Flavor, "Flavor {} could not be found.", "FlavorNotFound")
PROFILES = Owned(ServiceProfile, "Service Profile {} could not be found.", "ServiceProfileNotFound")

# Built once: building a statement costs more than running it.
_of_flavors = (
    select(FlavorProfile)
    .where(FlavorProfile.flavor_id.in_(bindparam("flavors", expanding=True)))
    .order_by(FlavorProfile.flavor_id, FlavorProfile.service_profile_id)
)
_profiles = (
    select(ServiceProfile)
    .join_from(FlavorProfile, ServiceProfile, ServiceProfile.id == FlavorProfile.service_profile_id)
    .where(FlavorProfile.flavor_id == bindparam("flavor"), ServiceProfile.enabled.is_(True))
    .order_by(ServiceProfile.created_at, ServiceProfile.id)
)
_user = select(Router.id).where(Router.flavor_id == bindparam("flavor")).limit(1)
_holder = select(FlavorProfile.flavor_id).where(FlavorProfile.service_profile_id == bindparam("profile")).limit(1)


def seen_by_all(conn: Connection, caller: Caller) -> Condition:
    """Everything: these records belong to no project."""
    return true()


def visible(conn: Connection, caller: Caller, id: str, lock: bool = False) -> Flavor:
    """Raises NotFound. `lock`: as for `Owned.find`."""
    return FLAVORS.get(conn, id, lock=lock)


def visible_profile(conn: Connection, caller: Caller, id: str, lock: bool = False) -> ServiceProfile:
    """Raises NotFound. `lock`: as for `Owned.find`."""
    return PROFILES.get(conn, id, lock=lock)


def profiles_of(conn: Connection, flavor_ids: Sequence[str]) -> dict[str, list[str]]:
    """Flavor id → the ids of its profiles. Flavors without any are missing."""
    rows = standard.rows(conn, _of_flavors, flavors=flavor_ids)
    return standard.grouped((row.flavor_id, row.service_profile_id) for row in rows)


def kind_of(conn: Connection, flavor_id: str) -> RouterKind:
    """How a router of the flavor is made; the flavor cannot be deleted before this transaction ends.

    Raises NotFound, Unavailable (it is disabled), Invalid (it is not for routers).
    """
    flavor = FLAVORS.get(conn, flavor_id, lock=True)
    if not flavor.enabled:
        raise Unavailable(f"Flavor {flavor.id} is not enabled.", type="FlavorDisabled")
    if flavor.service_type != ROUTERS:
        raise Invalid(f"Flavor {flavor.id} is of {flavor.service_type}, not of {ROUTERS}.", type="InvalidInput")
    profile = conn.execute(_profiles, {"flavor": flavor.id}).first()
    if profile is None:
        message = f"Flavor {flavor.id} has no enabled service profile."
        raise NotFound(message, type="FlavorServiceProfileBindingNotFound")
    return DRIVERS.get(profile.driver, RouterKind())


# -- changes


def create(conn: Connection, new: NewFlavor, now: datetime) -> Flavor:
    """Raises NotFound (a profile)."""
    common = standard.new("", now, description=new.description)
    made = Flavor(**common, name=new.name, service_type=new.service_type, enabled=new.enabled)
    standard.insert(conn, made)
    _set_profiles(conn, made, new.service_profiles)
    return made


def change(
    conn: Connection, flavor: Flavor, changes: Mapping[str, Any], profiles: Sequence[str] | None, now: datetime
) -> Flavor:
    """Set columns of a locked flavor, and its profiles unless None. Raises NotFound (a profile)."""
    if profiles is not None:
        conn.execute(delete(FlavorProfile).where(FlavorProfile.flavor_id == flavor.id))
        _set_profiles(conn, flavor, profiles)
    return standard.changed(conn, flavor, now, **changes)


def remove(conn: Connection, flavor: Flavor) -> None:
    """Delete a locked flavor. Raises Conflict while a router has it."""
    if conn.scalar(_user, {"flavor": flavor.id}) is not None:
        raise Conflict(f"Flavor {flavor.id} is used by some service instance.", type="FlavorInUse")
    conn.execute(delete(FlavorProfile).where(FlavorProfile.flavor_id == flavor.id))
    FLAVORS.delete(conn, flavor)


def _set_profiles(conn: Connection, flavor: Flavor, profiles: Sequence[str]) -> None:
    for id in dict.fromkeys(profiles):
        bind(conn, flavor, id)


def bind(conn: Connection, flavor: Flavor, profile_id: str) -> None:
    """Give a locked flavor a profile. Raises NotFound, Conflict (it already has it)."""
    profile = PROFILES.get(conn, profile_id, lock=True)
    if profile.id in profiles_of(conn, [flavor.id]).get(flavor.id, ()):
        message = f"Service Profile {profile.id} is already associated with flavor {flavor.id}."
        raise Conflict(message, type="FlavorServiceProfileBindingExists")
    conn.execute(insert(FlavorProfile).values(flavor_id=flavor.id, service_profile_id=profile.id))


def unbind(conn: Connection, flavor: Flavor, profile_id: str) -> None:
    """Take a profile from a locked flavor. Raises NotFound."""
    this = FlavorProfile.flavor_id == flavor.id, FlavorProfile.service_profile_id == profile_id
    if conn.execute(delete(FlavorProfile).where(*this)).rowcount == 0:
        message = f"Service Profile {profile_id[:64]} is not associated with flavor {flavor.id}."
        raise NotFound(message, type="FlavorServiceProfileBindingNotFound")


def create_profile(conn: Connection, new: NewProfile, now: datetime) -> ServiceProfile:
    """Raises Invalid, NotFound (the driver)."""
    made = ServiceProfile(**standard.new("", now, **asdict(new)))
    _check_profile(made)
    return standard.insert(conn, made)


def change_profile(conn: Connection, row: ServiceProfile, changes: Mapping[str, Any], now: datetime) -> ServiceProfile:
    """Set columns of a locked profile. Raises Invalid, NotFound (the driver), Conflict while a flavor has it."""
    if {"driver", "metainfo"} & changes.keys():
        _check_unused(conn, row)
    _check_profile(row._replace(**changes))
    return standard.changed(conn, row, now, **changes)


def remove_profile(conn: Connection, row: ServiceProfile) -> None:
    """Delete a locked profile. Raises Conflict while a flavor has it."""
    _check_unused(conn, row)
    PROFILES.delete(conn, row)


def _check_unused(conn: Connection, row: ServiceProfile) -> None:
    if conn.scalar(_holder, {"profile": row.id}) is not None:
        raise Conflict(f"Service Profile {row.id} is used by some service flavor.", type="ServiceProfileInUse")


def _check_profile(row: ServiceProfile) -> None:
    if not row.driver and not row.metainfo:
        raise Invalid("Service Profile needs either a driver or metainfo.", type="ServiceProfileEmpty")
    if row.driver and row.driver not in DRIVERS:
        message = f"Service Profile driver {row.driver[:128]} could not be found."
        raise NotFound(message, type="ServiceProfileDriverNotFound")
