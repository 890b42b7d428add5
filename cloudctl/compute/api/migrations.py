"""The list of migrations: resizes and moves of servers. Reference: compute.md, section 17."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from cloudctl.compute import migrations
from cloudctl.compute.api import query
from cloudctl.compute.api.server_filters import changed
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Migration
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest import listing
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Page, Paging, paging
from cloudctl.rest.route import Routes

ALL = "compute:migrations:list:all"
PAGED = (2, 59)
OWNED = (2, 80)

# Parameter → since when.
FILTERS = {
    "source_compute": (2, 1),
    "status": (2, 1),
    "migration_type": (2, 1),
    "instance_uuid": (2, 1),
    "user_id": OWNED,
    "project_id": OWNED,
}
# `hidden` is taken and means nothing: no migration is.
QUERY = frozenset({*FILTERS, "host", "hidden", "changes-since", "changes-before", *query.PAGING})


def view(call: Call, row: Migration) -> dict[str, Any]:
    shown = {
        "id": row.number,
        "instance_uuid": row.server_id,
        "status": row.status,
        "source_compute": row.source_host,
        "source_node": row.source_host,
        "dest_compute": row.dest_host,
        "dest_node": row.dest_host,
        "dest_host": None,
        "old_instance_type_id": row.old_flavor_id,
        "new_instance_type_id": row.new_flavor_id,
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
    }
    if call.version >= (2, 23):
        shown["migration_type"] = row.kind
    if call.version >= PAGED:
        shown["uuid"] = row.id
    if call.version >= OWNED:
        shown |= {"user_id": row.user_id, "project_id": row.project_id}
    return shown


@frozen
class Migrations:
    routes = Routes("Migrations")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-migrations", policy="compute:migrations:list", query=tuple(sorted(QUERY)))
    async def list(self, call: Call) -> dict[str, Any]:
        """List migrations, the newest first."""
        query.only(call, QUERY)
        page = await self.db.scan(self._page, call)
        links = query.links(call, page, "migrations_links") if call.version >= PAGED else {}
        return {"migrations": [view(call, row) for row in page.rows], **links}

    def _page(self, conn: Connection, call: Call) -> Page:
        limits = query.limits(self.options)
        asked = paging(call, limits) if call.version >= PAGED else Paging(limits.most)
        unknown = Invalid(f"marker [{(asked.marker or '')[:64]}] not found")
        return listing.page(conn, migrations.LISTING, asked, *_conditions(call), unknown_marker=unknown)


def _conditions(call: Call) -> list[Condition]:
    table, filters = migrations.LISTING.table, migrations.LISTING.filters
    found = [] if call.may(ALL) else [table.c.project_id == call.project_id]
    for name, since in FILTERS.items():
        if call.version >= since and (values := call.query.all(name)):
            found.append(filters[name](values))
    if (host := call.query.get("host")) is not None:
        found.append(migrations.touches(host))
    after, before = changed(call) if call.version >= PAGED else (None, None)
    if after is not None:
        found.append(table.c.updated_at >= after)
    if before is not None:
        found.append(table.c.updated_at <= before)
    return found
