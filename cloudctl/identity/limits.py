"""Unified limits: the default of a resource, and limits of single projects. Reference: identity.md, section 10."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import and_, bindparam, delete, or_, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import projects, records
from cloudctl.identity.tables import Endpoint, Project, ProjectLimit, Region, RegisteredLimit, Service
from cloudctl.rest.listing import Condition, Listing, equals

T = TypeVar("T")

MODEL = {"name": "flat", "description": "Each project has its own limits, whatever those above and below it have."}

KEY = ("service_id", "region_id", "resource_name")
UNIQUE = (*KEY, "project_id", "domain_id")

REGISTERED = Listing(
    RegisteredLimit.table,
    sort_keys={"id": RegisteredLimit.id, "created_at": RegisteredLimit.created_at},
    order=(("created_at", "asc"),),
    filters={name: equals(RegisteredLimit.table.c[name]) for name in KEY},
)


def _of_registered(name: str) -> Any:
    def test(values: Any) -> Any:
        matching = select(RegisteredLimit.id).where(RegisteredLimit.table.c[name] == values[-1])
        return ProjectLimit.registered_limit_id.in_(matching)

    return test


LIMITS = Listing(
    ProjectLimit.table,
    sort_keys={"id": ProjectLimit.id, "created_at": ProjectLimit.created_at},
    order=(("created_at", "asc"),),
    filters={
        **{name: _of_registered(name) for name in KEY},
        "project_id": equals(ProjectLimit.project_id),
        "domain_id": equals(ProjectLimit.domain_id),
    },
)


def create_all(
    conn: Connection,
    create_one: Callable[[Connection, dict[str, Any], datetime], T],
    wanted: Sequence[dict[str, Any]],
    now: datetime,
) -> list[T]:
    """Registered limits, or limits, as they are asked for. Made in the order of what they are for: two clients that
    make the same ones then do not wait for each other in a circle.
    """
    in_turn = sorted(range(len(wanted)), key=lambda place: [wanted[place].get(name, "") for name in UNIQUE])
    made = {place: create_one(conn, wanted[place], now) for place in in_turn}
    return [made[place] for place in range(len(wanted))]


# -- registered limits


def get_registered(conn: Connection, id: str, *, lock: bool = False) -> RegisteredLimit:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, RegisteredLimit, id, "registered limit", lock=lock)


def create_registered(conn: Connection, values: dict[str, Any], now: datetime) -> RegisteredLimit:
    """`values`: service_id, region_id (or ""), resource_name, default_limit, description. Raises Invalid, Conflict."""
    _check_place(conn, values)
    row = {"id": new_hex_id(), **values, "created_at": now}
    records.insert_unique(conn, RegisteredLimit, row, Conflict("This registered limit already exists."))
    return get_registered(conn, row["id"])


def change_registered(conn: Connection, id: str, changes: dict[str, Any]) -> RegisteredLimit:
    """What it limits cannot change while limits refer to it. Raises NotFound, Forbidden, Invalid, Conflict."""
    get_registered(conn, id, lock=True)
    if any(name in changes for name in KEY) and _is_used(conn, id):
        raise Forbidden("The registered limit is in use: only its default and description can be changed.")
    _check_place(conn, changes)
    records.update_unique(conn, RegisteredLimit, id, changes, Conflict("This registered limit already exists."))
    return get_registered(conn, id)


def remove_registered(conn: Connection, id: str) -> None:
    """Raises NotFound, Forbidden (in use)."""
    get_registered(conn, id, lock=True)
    if _is_used(conn, id):
        raise Forbidden("The registered limit is in use by a limit.")
    conn.execute(delete(RegisteredLimit).where(RegisteredLimit.id == id))


def _is_used(conn: Connection, id: str) -> bool:
    return conn.execute(select(ProjectLimit.id).where(ProjectLimit.registered_limit_id == id)).first() is not None


def _check_place(conn: Connection, values: dict[str, Any]) -> None:
    if "service_id" in values and records.find(conn, Service, values["service_id"]) is None:
        raise Invalid(f"There is no service {values['service_id'][:64]}.")
    if values.get("region_id") and records.find(conn, Region, values["region_id"]) is None:
        raise Invalid(f"There is no region {values['region_id'][:64]}.")


# -- limits


def get(conn: Connection, id: str) -> ProjectLimit:
    """Raises NotFound."""
    return records.get(conn, ProjectLimit, id, "limit")


def are_of_domain(domain_id: str) -> Condition:
    """Limits of the domain and of the projects in it."""
    within = select(Project.id).where(Project.domain_id == domain_id)
    return or_(ProjectLimit.domain_id == domain_id, ProjectLimit.project_id.in_(within))


def domain_of(conn: Connection, limit: ProjectLimit) -> str:
    """The domain that the limit's project is in; empty if the project has just been deleted."""
    found = records.find(conn, Project, limit.project_id)
    return found.domain_id if found else ""


def create(conn: Connection, values: dict[str, Any], now: datetime) -> ProjectLimit:
    """`values`: the registered limit's key, project_id or domain_id (the other empty), resource_limit, description.
    Raises NotFound (project or domain), Forbidden (nothing registered), Conflict.
    """
    key = {name: values[name] for name in KEY}
    query = select(RegisteredLimit.id).where(*(RegisteredLimit.table.c[name] == key[name] for name in KEY))
    # It stays, with this key, and so does the project.
    registered = conn.execute(query.with_for_update(read=True)).scalar()
    if registered is None:
        raise Forbidden("There is no registered limit for this service, region and resource.")
    owner = projects.get(conn, values["project_id"] or values["domain_id"], stays=True)
    if owner.is_domain is not bool(values["domain_id"]):
        raise records.not_found("project" if values["project_id"] else "domain", owner.id)
    row = {
        "id": new_hex_id(),
        "registered_limit_id": registered,
        **{name: value for name, value in values.items() if name not in KEY},
        "created_at": now,
    }
    records.insert_unique(conn, ProjectLimit, row, Conflict("This limit already exists."))
    return get(conn, str(row["id"]))


def change(conn: Connection, id: str, changes: dict[str, Any]) -> ProjectLimit:
    """Raises NotFound."""
    get(conn, id)
    records.update_by_id(conn, ProjectLimit, id, changes)
    return get(conn, id)


def remove(conn: Connection, id: str) -> None:
    """Raises NotFound."""
    get(conn, id)
    conn.execute(delete(ProjectLimit).where(ProjectLimit.id == id))


# Built once: building a statement costs more than running it. A region's limit holds where the service has an endpoint.
_in_force = (
    select(RegisteredLimit.resource_name, RegisteredLimit.default_limit, ProjectLimit.resource_limit)
    .join(Service, Service.id == RegisteredLimit.service_id)
    .outerjoin(
        ProjectLimit,
        and_(
            ProjectLimit.registered_limit_id == RegisteredLimit.id,
            ProjectLimit.project_id == bindparam("project"),
            ProjectLimit.project_id != "",
        ),
    )
    .where(
        Service.type == bindparam("service"),
        or_(
            RegisteredLimit.region_id == "",
            RegisteredLimit.region_id.in_(select(Endpoint.region_id).where(Endpoint.service_id == Service.id)),
        ),
    )
    .order_by(RegisteredLimit.region_id)  # a region's limit replaces one without a region
)


def in_force(conn: Connection, service_type: str, project_id: str) -> dict[str, int]:
    """Resource → limit of a project in the services of this type: its own, or the default; -1 is no limit."""
    found = conn.execute(_in_force, {"service": service_type, "project": project_id})
    return {name: default if own is None else own for name, default, own in found}


def registered_of(conn: Connection, rows: Iterable[ProjectLimit]) -> dict[str, RegisteredLimit]:
    """Registered limit id → its row, for the limits given."""
    ids = {row.registered_limit_id for row in rows}
    return {row.id: row for row in conn.execute(select(RegisteredLimit).where(RegisteredLimit.id.in_(ids)))}
