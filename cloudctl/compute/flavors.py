"""Flavors: the sizes that servers come in. Reference: compute.md, section 9."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, bindparam, delete, func, insert, or_, select, update

from cloudctl.compute.tables import Flavor, FlavorAccess
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing

# The rule for seeing private flavors without having access to them.
MANAGE = "compute:flavors:manage"

SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "flavorid": Flavor.id,
    "id": Flavor.id,
    "name": Flavor.name,
    "memory_mb": Flavor.memory_mib,
    "vcpus": Flavor.vcpus,
    "root_gb": Flavor.disk_gib,
    "ephemeral_gb": Flavor.ephemeral_gib,
    "swap": Flavor.swap_mib,
    "rxtx_factor": Flavor.rxtx_factor,
    "is_public": Flavor.is_public,
    "disabled": Flavor.disabled,
    "description": func.coalesce(Flavor.description, ""),
    "created_at": Flavor.created_at,
    "updated_at": func.coalesce(Flavor.updated_at, Flavor.created_at),
    # Nova keeps a number that the API does not show; here nothing weighs a flavor.
    "vcpu_weight": Flavor.vcpus,
}
LISTING = Listing(Flavor.table, SORT_KEYS, order=(("flavorid", "asc"),))


@frozen
class NewFlavor:
    name: str
    memory_mib: int
    vcpus: int
    disk_gib: int
    id: str | None = None  # None: a new UUID
    ephemeral_gib: int = 0
    swap_mib: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    description: str | None = None


RECORDS = ById(Flavor, "Flavor {} could not be found.", longest=255)
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found


def seen_by(caller: Caller) -> ColumnElement[bool]:
    """Public ones and those that the project was granted."""
    granted = select(FlavorAccess.flavor_id).where(FlavorAccess.project_id == caller.project_id)
    return or_(Flavor.is_public, Flavor.id.in_(granted))


# Built once: building a statement costs more than running it.
_granted = select(FlavorAccess.flavor_id).where(
    FlavorAccess.flavor_id == bindparam("flavor"), FlavorAccess.project_id == bindparam("project")
)


def visible(conn: Connection, caller: Caller, flavor_id: str) -> Flavor:
    """Raises NotFound, also for a private flavor that the project may not use."""
    flavor = get(conn, flavor_id)
    if flavor.is_public or caller.may(MANAGE):
        return flavor
    if conn.execute(_granted, {"flavor": flavor_id, "project": caller.project_id}).first() is None:
        raise not_found(flavor_id)
    return flavor


def embedded(flavor: Flavor) -> dict[str, Any]:
    """What a server keeps of its flavor."""
    return {
        "original_name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mib,
        "disk": flavor.disk_gib,
        "ephemeral": flavor.ephemeral_gib,
        "swap": flavor.swap_mib,
        "extra_specs": dict(flavor.extra_specs),
    }


def create(conn: Connection, new: NewFlavor, now: datetime) -> Flavor:
    """Raises Conflict if the name or the id is taken."""
    flavor_id = new.id or new_id()
    if find(conn, flavor_id) is not None:
        raise Conflict(f"Flavor with ID {flavor_id} already exists.")
    if conn.execute(select(Flavor.id).where(Flavor.name == new.name)).first() is not None:
        raise Conflict(f"Flavor with name {new.name} already exists.")
    flavor = Flavor(
        id=flavor_id,
        name=new.name,
        memory_mib=new.memory_mib,
        vcpus=new.vcpus,
        disk_gib=new.disk_gib,
        ephemeral_gib=new.ephemeral_gib,
        swap_mib=new.swap_mib,
        rxtx_factor=new.rxtx_factor,
        is_public=new.is_public,
        description=new.description,
        created_at=now,
    )
    with unique(conn, Conflict(f"Flavor with name {new.name} or ID {flavor_id} already exists.")):
        conn.execute(insert(Flavor), flavor._asdict())
    return flavor


def change(conn: Connection, flavor: Flavor, changes: Mapping[str, Any], now: datetime) -> Flavor:
    values = {**changes, "updated_at": now}
    conn.execute(update(Flavor).where(Flavor.id == flavor.id).values(values))
    return flavor._replace(**values)


def remove(conn: Connection, flavor_id: str) -> None:
    """Servers keep their copy. Raises NotFound."""
    # Nobody is granted access in between: that would be access to the next flavor with this id.
    get(conn, flavor_id, lock=True)
    conn.execute(delete(FlavorAccess).where(FlavorAccess.flavor_id == flavor_id))
    conn.execute(delete(Flavor).where(Flavor.id == flavor_id))


# -- extra specs


def set_extra_specs(conn: Connection, flavor_id: str, more: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Add these to the present extra specs; returns all of them. Raises NotFound."""
    flavor = get(conn, flavor_id, lock=True)
    return change(conn, flavor, {"extra_specs": {**flavor.extra_specs, **more}}, now).extra_specs


def drop_extra_spec(conn: Connection, flavor_id: str, key: str, now: datetime) -> None:
    """Raises NotFound."""
    flavor = get(conn, flavor_id, lock=True)
    if key not in flavor.extra_specs:
        raise no_extra_spec(flavor_id, key)
    specs = {name: value for name, value in flavor.extra_specs.items() if name != key}
    change(conn, flavor, {"extra_specs": specs}, now)


def no_extra_spec(flavor_id: str, key: str) -> NotFound:
    return NotFound(f"Flavor {flavor_id} has no extra specs with key {key[:255]}.")


# -- access of projects to private flavors


def access(conn: Connection, flavor_id: str) -> list[str]:
    """The projects that may use a private flavor. Raises NotFound for a public one, which has no such list."""
    if get(conn, flavor_id).is_public:
        raise NotFound("Access list not available for public flavors.")
    return _projects(conn, flavor_id)


def _projects(conn: Connection, flavor_id: str) -> list[str]:
    query = select(FlavorAccess.project_id).where(FlavorAccess.flavor_id == flavor_id)
    return list(conn.execute(query.order_by(FlavorAccess.project_id)).scalars())


def grant(conn: Connection, flavor_id: str, project_id: str, *, public_too: bool) -> list[str]:
    """`public_too`: a grant on a public flavor is accepted (and means nothing). Raises NotFound, Conflict."""
    if get(conn, flavor_id, lock=True).is_public and not public_too:
        raise Conflict("Can not add access to a public flavor.")
    projects = _projects(conn, flavor_id)
    if project_id in projects:
        raise Conflict(f"Flavor access already exists for flavor {flavor_id} and project {project_id} combination.")
    conn.execute(insert(FlavorAccess).values(flavor_id=flavor_id, project_id=project_id))
    return sorted([*projects, project_id])


def revoke(conn: Connection, flavor_id: str, project_id: str) -> list[str]:
    """Raises NotFound."""
    get(conn, flavor_id)
    mine = (FlavorAccess.flavor_id == flavor_id) & (FlavorAccess.project_id == project_id)
    if conn.execute(delete(FlavorAccess).where(mine)).rowcount == 0:
        raise NotFound(f"Flavor access not found for {flavor_id} / {project_id} combination.")
    return _projects(conn, flavor_id)
