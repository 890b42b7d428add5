"""The records behind the catalog: services, endpoints, regions. Reference: identity.md, section 9."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, insert, select, update

from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import catalog, records
from cloudctl.identity.records import flag, own_attributes, text_filters
from cloudctl.identity.tables import endpoints, project_endpoints, regions, services
from cloudctl.rest.listing import Listing, equals

SERVICES = Listing(
    services,
    sort_keys={
        "id": services.c.id,
        "name": services.c.name,
        "type": services.c.type,
        "created_at": services.c.created_at,
    },
    order=(("created_at", "asc"),),
    filters={
        **text_filters("name", services.c.name),
        **text_filters("type", services.c.type),
        "enabled": flag(services.c.enabled),
    },
)
ENDPOINTS = Listing(
    endpoints,
    sort_keys={"id": endpoints.c.id, "interface": endpoints.c.interface, "created_at": endpoints.c.created_at},
    order=(("created_at", "asc"),),
    filters={
        "interface": equals(endpoints.c.interface),
        "service_id": equals(endpoints.c.service_id),
        "region_id": equals(endpoints.c.region_id),
        "region": equals(endpoints.c.region_id),
        "enabled": flag(endpoints.c.enabled),
    },
)
REGIONS = Listing(
    regions,
    sort_keys={"id": regions.c.id, "created_at": regions.c.created_at},
    order=(("created_at", "asc"),),
    filters={"parent_region_id": equals(regions.c.parent_region_id)},
)

# -- services


def get_service(conn: Connection, service_id: str) -> Row[Any]:
    """Raises NotFound."""
    return records.get(conn, services, service_id, "service")


def create_service(conn: Connection, values: dict[str, Any], now: datetime) -> Row[Any]:
    """`values`: type, name, description, enabled, extra. Raises Invalid."""
    row = {"id": new_hex_id(), **values, "extra": own_attributes(values.get("extra", {})), "created_at": now}
    conn.execute(insert(services).values(row))
    return get_service(conn, row["id"])


def change_service(conn: Connection, service_id: str, changes: dict[str, Any]) -> Row[Any]:
    """Raises NotFound, Invalid."""
    before = get_service(conn, service_id)
    _change(conn, services, before, changes)
    return get_service(conn, service_id)


def remove_service(conn: Connection, service_id: str) -> None:
    """With its endpoints. Limits that were registered for it stay until they are deleted. Raises NotFound."""
    records.claim(conn, services, service_id)
    get_service(conn, service_id)
    own = select(endpoints.c.id).where(endpoints.c.service_id == service_id)
    conn.execute(delete(project_endpoints).where(project_endpoints.c.endpoint_id.in_(own)))
    conn.execute(delete(endpoints).where(endpoints.c.service_id == service_id))
    conn.execute(delete(services).where(services.c.id == service_id))


# -- endpoints


def get_endpoint(conn: Connection, endpoint_id: str) -> Row[Any]:
    """Raises NotFound."""
    return records.get(conn, endpoints, endpoint_id, "endpoint")


def create_endpoint(conn: Connection, values: dict[str, Any], now: datetime, *, make_region: bool) -> Row[Any]:
    """`values`: interface, service_id, url, region_id, enabled, extra. Raises Invalid (service, region, url)."""
    row = {"id": new_hex_id(), **values, "extra": own_attributes(values.get("extra", {})), "created_at": now}
    _check_endpoint(conn, row, now, make_region)
    conn.execute(insert(endpoints).values(row))
    return get_endpoint(conn, row["id"])


def change_endpoint(
    conn: Connection, endpoint_id: str, changes: dict[str, Any], now: datetime, *, make_region: bool
) -> Row[Any]:
    """Raises NotFound, Invalid (service, region, url)."""
    before = get_endpoint(conn, endpoint_id)
    _check_endpoint(conn, changes, now, make_region)
    _change(conn, endpoints, before, changes)
    return get_endpoint(conn, endpoint_id)


def _check_endpoint(conn: Connection, values: dict[str, Any], now: datetime, make_region: bool) -> None:
    if "service_id" in values:
        if not _exists(conn, services, values["service_id"]):
            raise Invalid(f"There is no service {values['service_id'][:64]}.")
        records.keep(conn, services, values["service_id"], "service")
    region_id = values.get("region_id")
    if region_id is not None and not _exists(conn, regions, region_id):
        if not make_region:
            raise Invalid(f"There is no region {region_id[:64]}.")
        create_region(conn, {"id": region_id}, now)
    if "url" in values:
        _check_url(values["url"])


def _check_url(url: str) -> None:
    try:
        catalog.check(url)
        scheme = url.startswith("{base_url}") or url.startswith("{instance_ha_url}") or urlsplit(url).scheme
    except ValueError as error:
        raise Invalid(f"The URL is not valid: {error}.") from None
    if not scheme:
        raise Invalid("The URL has no scheme.")


def remove_endpoint(conn: Connection, endpoint_id: str) -> None:
    """Raises NotFound."""
    get_endpoint(conn, endpoint_id)
    conn.execute(delete(project_endpoints).where(project_endpoints.c.endpoint_id == endpoint_id))
    conn.execute(delete(endpoints).where(endpoints.c.id == endpoint_id))


# -- regions


def get_region(conn: Connection, region_id: str) -> Row[Any]:
    """Raises NotFound."""
    return records.get(conn, regions, region_id, "region")


def create_region(conn: Connection, values: dict[str, Any], now: datetime) -> Row[Any]:
    """`values`: id (may be left out), description, parent_region_id, extra. Raises Conflict, NotFound (parent)."""
    row = {"id": new_hex_id(), **values, "extra": own_attributes(values.get("extra", {})), "created_at": now}
    if row.get("parent_region_id"):
        get_region(conn, row["parent_region_id"])
    records.insert_unique(conn, regions, row, Conflict(f"There is a region {row['id'][:64]} already."))
    return get_region(conn, row["id"])


def change_region(conn: Connection, region_id: str, changes: dict[str, Any]) -> Row[Any]:
    """Raises NotFound, Invalid (a cycle)."""
    before = get_region(conn, region_id)
    if changes.get("parent_region_id"):
        _check_no_cycle(conn, region_id, changes["parent_region_id"])
    _change(conn, regions, before, changes)
    return get_region(conn, region_id)


def _check_no_cycle(conn: Connection, region_id: str, parent_id: str) -> None:
    above: str | None = parent_id
    while above:
        if above == region_id:
            raise Invalid(f"Region {region_id[:64]} would be its own parent.")
        above = get_region(conn, above).parent_region_id


def remove_region(conn: Connection, region_id: str) -> None:
    """Raises NotFound, Forbidden (regions below it, endpoints in it)."""
    get_region(conn, region_id)
    children = select(regions.c.id).where(regions.c.parent_region_id == region_id)
    used = select(endpoints.c.id).where(endpoints.c.region_id == region_id)
    if conn.execute(children).first() is not None or conn.execute(used).first() is not None:
        raise Forbidden(f"Cannot delete region {region_id[:64]}: it has child regions or endpoints.")
    conn.execute(delete(regions).where(regions.c.id == region_id))


def has_service(conn: Connection, service_id: str) -> bool:
    return _exists(conn, services, service_id)


def has_region(conn: Connection, region_id: str) -> bool:
    return _exists(conn, regions, region_id)


def _exists(conn: Connection, table: Any, id: str) -> bool:
    return conn.execute(select(table.c.id).where(table.c.id == id)).first() is not None


def _change(conn: Connection, table: Any, before: Row[Any], changes: dict[str, Any]) -> None:
    values = dict(changes)
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    if values:
        conn.execute(update(table).where(table.c.id == before.id).values(values))
