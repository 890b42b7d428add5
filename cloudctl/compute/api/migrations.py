"""The list of migrations: resizes and moves of servers. Reference: compute.md, section 17."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from cloudctl.compute import migrations
from cloudctl.compute.api import gates, query
from cloudctl.compute.api.server_filters import changed
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Migration
from cloudctl.db import Connection, Database
from cloudctl.rest.call import Call
from cloudctl.rest.caller import forbidden
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Page, Paging, paging
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.rest.views import Fields

ALL = "compute:migrations:list:all"
HOSTS = "compute:migrations:hosts"
PAGED = since(2, 59)
OWNED = since(2, 80)

# Parameter → when it has an effect.
FILTERS = {
    "source_compute": ALWAYS,
    "status": ALWAYS,
    "migration_type": ALWAYS,
    "instance_uuid": ALWAYS,
    "user_id": OWNED,
    "project_id": OWNED,
}
# `hidden` is accepted and means nothing: no migration is hidden.
QUERY = {
    **FILTERS,
    "host": ALWAYS,
    "hidden": ALWAYS,
    "changes-since": PAGED,
    "changes-before": since(2, 66),
    "limit": PAGED,
    "marker": PAGED,
}
LATER = Fields[[Migration]](
    "a migration",
    {
        "migration_type": (since(2, 23), lambda migration: migration.kind),
        "uuid": (PAGED, lambda migration: migration.id),
        "user_id": (OWNED, lambda migration: migration.user_id),
        "project_id": (OWNED, lambda migration: migration.project_id),
    },
)


def places(call: Call, row: Migration) -> dict[str, str | None]:
    """Its source and destination; nothing for callers who may not know about hosts."""
    source, destination = (row.source_host, row.dest_host) if call.may(HOSTS) else (None, None)
    return {
        "source_compute": source,
        "source_node": source,
        "dest_compute": destination,
        "dest_node": destination,
        "dest_host": None,
    }


def view(call: Call, row: Migration) -> dict[str, Any]:
    shown = {
        "id": row.number,
        "instance_uuid": row.server_id,
        "status": row.status,
        **places(call, row),
        "old_instance_type_id": _number(row.old_flavor_id),
        "new_instance_type_id": _number(row.new_flavor_id),
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
    }
    return shown | LATER.of(call.version, row)


def _number(flavor_id: str) -> int | None:
    """Clients expect a number: the flavor's id, if that is one, or else none."""
    return int(flavor_id) if flavor_id.isascii() and flavor_id.isdigit() and len(flavor_id) < 10 else None


@frozen
class Migrations:
    routes = Routes("Migrations")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-migrations", policy="compute:migrations:list", query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List migrations, the newest first."""
        query.only(call, QUERY, gates.MIGRATION_PAGES)
        page = await self.db.scan(self._page, call)
        links = query.links(call, page, "migrations_links") if call.version in gates.MIGRATION_PAGES else {}
        return {"migrations": [view(call, row) for row in page.rows], **links}

    def _page(self, conn: Connection, call: Call) -> Page:
        limits = query.limits(self.options)
        asked = paging(call, limits) if call.version in gates.MIGRATION_PAGES else Paging(limits.most)
        return query.page(conn, migrations.LISTING, asked, *_conditions(call))


def _conditions(call: Call) -> list[Condition]:
    table, filters = migrations.LISTING.table, migrations.LISTING.filters
    if any(call.query.get(name) is not None for name in ("host", "source_compute")) and not call.may(HOSTS):
        raise forbidden(HOSTS)
    found = [] if call.may(ALL) else [table.c.project_id == call.project_id]
    for name in FILTERS:
        if values := call.query.all(name):
            found.append(filters[name](values))
    if (host := call.query.get("host")) is not None:
        found.append(migrations.touches(host))
    after, before = changed(call)
    if after is not None:
        found.append(table.c.updated_at >= after)
    if before is not None:
        found.append(table.c.updated_at <= before)
    return found
