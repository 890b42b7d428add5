"""The records behind the catalog: services, endpoints, regions. Reference: identity.md, section 9."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import delete, or_, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import catalog, endpoint_policies, epoch, records
from cloudctl.identity.records import own_attributes
from cloudctl.identity.tables import Endpoint, PolicyAssociation, ProjectEndpoint, Region, Service

# -- services


def create_service(conn: Connection, values: dict[str, Any], now: datetime) -> Service:
    """`values`: type, name, description, enabled, extra. Raises Invalid."""
    epoch.changed(conn)
    return records.create(conn, Service, values, now)


def change_service(conn: Connection, service_id: str, changes: dict[str, Any]) -> Service:
    """Raises NotFound, Invalid."""
    before = records.get(conn, Service, service_id, "service", lock=True)
    epoch.changed(conn)
    return records.change(conn, Service, before, changes)


def remove_service(conn: Connection, service_id: str) -> None:
    """With its endpoints. Limits registered for it stay until they are deleted. Raises NotFound."""
    records.get(conn, Service, service_id, "service", lock=True)
    locked = select(Endpoint.id).where(Endpoint.service_id == service_id).order_by(Endpoint.id).with_for_update()
    own = conn.execute(locked).scalars().all()
    conn.execute(delete(ProjectEndpoint).where(ProjectEndpoint.endpoint_id.in_(own)))
    of_any = or_(PolicyAssociation.service_id == service_id, PolicyAssociation.endpoint_id.in_(own))
    endpoint_policies.drop(conn, of_any)
    conn.execute(delete(Endpoint).where(Endpoint.service_id == service_id))
    conn.execute(delete(Service).where(Service.id == service_id))
    epoch.changed(conn)


# -- endpoints


def get_endpoint(conn: Connection, endpoint_id: str, *, lock: bool = False) -> Endpoint:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, Endpoint, endpoint_id, "endpoint", lock=lock)


def create_endpoint(conn: Connection, values: dict[str, Any], now: datetime, *, make_region: bool) -> Endpoint:
    """`values`: interface, service_id, url, region_id, enabled, extra. Raises Invalid (service, region, url)."""
    _check_endpoint(conn, values, now, make_region)
    epoch.changed(conn)
    return records.create(conn, Endpoint, values, now)


def change_endpoint(
    conn: Connection, endpoint_id: str, changes: dict[str, Any], now: datetime, *, make_region: bool
) -> Endpoint:
    """Raises NotFound, Invalid (service, region, url)."""
    get_endpoint(conn, endpoint_id)
    _check_endpoint(conn, changes, now, make_region)
    # After its service, as where that is deleted, and before the epoch.
    before = get_endpoint(conn, endpoint_id, lock=True)
    epoch.changed(conn)
    return records.change(conn, Endpoint, before, changes)


def _check_endpoint(conn: Connection, values: dict[str, Any], now: datetime, make_region: bool) -> None:
    if "service_id" in values and records.find(conn, Service, values["service_id"], stays=True) is None:
        raise Invalid(f"There is no service {values['service_id'][:64]}.")
    region_id = values.get("region_id")
    if region_id is not None and records.find(conn, Region, region_id, stays=True) is None:
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
    get_endpoint(conn, endpoint_id, lock=True)
    conn.execute(delete(ProjectEndpoint).where(ProjectEndpoint.endpoint_id == endpoint_id))
    endpoint_policies.drop(conn, PolicyAssociation.endpoint_id == endpoint_id)
    conn.execute(delete(Endpoint).where(Endpoint.id == endpoint_id))
    epoch.changed(conn)


# -- regions


def get_region(conn: Connection, region_id: str, *, lock: bool = False, stays: bool = False) -> Region:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, Region, region_id, "region", lock=lock, stays=stays)


def create_region(conn: Connection, values: dict[str, Any], now: datetime) -> Region:
    """`values`: id (may be left out), description, parent_region_id, extra. Raises Conflict, NotFound (parent)."""
    row = {"id": new_hex_id(), **values, "extra": own_attributes(values.get("extra", {})), "created_at": now}
    if row.get("parent_region_id"):
        get_region(conn, row["parent_region_id"], stays=True)
    records.insert_unique(conn, Region, row, Conflict(f"There is a region {row['id'][:64]} already."))
    return get_region(conn, row["id"])


def change_region(conn: Connection, region_id: str, changes: dict[str, Any]) -> Region:
    """Raises NotFound, Invalid (a cycle)."""
    before = get_region(conn, region_id, lock=True)
    if changes.get("parent_region_id"):
        _check_no_cycle(conn, region_id, changes["parent_region_id"])
    return records.change(conn, Region, before, changes)


def _check_no_cycle(conn: Connection, region_id: str, parent_id: str) -> None:
    """Those above it stay where they are until this transaction ends."""
    above: str | None = parent_id
    below = {region_id}
    while above:
        if above in below:
            raise Invalid(f"Region {above[:64]} would be its own parent.")
        below.add(above)
        above = get_region(conn, above, stays=True).parent_region_id


def remove_region(conn: Connection, region_id: str) -> None:
    """Raises NotFound, Forbidden (regions below it, endpoints in it)."""
    get_region(conn, region_id, lock=True)
    children = select(Region.id).where(Region.parent_region_id == region_id)
    used = select(Endpoint.id).where(Endpoint.region_id == region_id)
    if conn.execute(children).first() is not None or conn.execute(used).first() is not None:
        raise Forbidden(f"Cannot delete region {region_id[:64]}: it has child regions or endpoints.")
    endpoint_policies.drop(conn, PolicyAssociation.region_id == region_id)
    conn.execute(delete(Region).where(Region.id == region_id))
