"""Resize and cold migration: another flavor, another host, or both. Reference: compute-states.md, section 4.4.

The root disk goes along and is never shrunk: after a revert the guest keeps the disk size it had grown to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cloudctl import tasks
from cloudctl.compute import flavors, kinds, migrations, networking, power, quotas, servers
from cloudctl.compute.creation import check_size, wanted_flavor
from cloudctl.compute.migrations import NewMigration
from cloudctl.compute.tables import Flavor, Migration, Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.image import images
from cloudctl.placement import hosts
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Kind, Unasked


def resize(conn: Connection, caller: Caller, server_id: str, flavor_id: str, disk_config: str | None) -> None:
    """Raises NotFound, Conflict, Invalid, OverQuota."""
    row = power.on_a_living_host(conn, servers.begin(conn, caller, server_id, "resize"))
    flavor = wanted_flavor(conn, caller, flavor_id)
    if flavor.id == row.flavor_id:
        raise Invalid("When resizing, instances must change flavor!")
    if row.image_id and not flavor.disk_gib and row.flavor["disk"]:
        raise Invalid("Cannot resize to zero disk flavor.")
    _check_image(conn, row, flavor)
    new = {**flavors.embedded(flavor), "ephemeral": flavor.ephemeral_gib, "swap": flavor.swap_mib}
    more_vcpus, more_memory = new["vcpus"] - row.vcpus, new["ram"] - row.memory_mib
    quotas.take_growth(conn, row.project_id, row.user_id, max(0, more_vcpus), max(0, more_memory))
    counted = {"vcpus": max(row.vcpus, new["vcpus"]), "memory_mib": max(row.memory_mib, new["ram"])}
    if disk_config is not None:
        counted["disk_config"] = disk_config
    servers.change(conn, row, counted, caller.now)
    _submit(conn, caller, kinds.RESIZE, NewMigration(row, migrations.RESIZE, flavor.id, new))


def migrate(conn: Connection, caller: Caller, server_id: str, host: str | None) -> None:
    """To any other host, or to `host`. Raises NotFound, Conflict, Invalid."""
    row = power.on_a_living_host(conn, servers.begin(conn, caller, server_id, "migrate"))
    if host is not None and hosts.find(conn, host) is None:
        raise Invalid(f"Compute host {host[:255]} could not be found.")
    if host == row.host:
        raise Invalid("The target host can't be the same one.")
    _submit(conn, caller, kinds.MIGRATE, NewMigration(row, migrations.COLD, row.flavor_id, row.flavor, host))


def confirm(conn: Connection, caller: Caller, server_id: str) -> None:
    """Give up the old place. Raises NotFound, Conflict."""
    row = servers.allowed(conn, caller, server_id, "confirmResize", lock=True)
    found = migrations.take(conn, row.id, caller.now, "confirm")
    tasks.submit(conn, kinds.CONFIRM_RESIZE, row.id, caller, args={"migration_id": found.id})


def overdue(conn: Connection, row: Server, now: datetime) -> None:
    """Confirm a resize that has waited long enough for its user, unless something is under way already."""
    host = hosts.find(conn, row.host or "")
    if host is None or not hosts.is_alive(host) or tasks.has_open(conn, kinds.SERVER, row.id):
        return
    try:
        found = migrations.take(conn, row.id, now, "confirm")
    except Conflict:
        return  # an earlier confirm is held, for an operator; the others of this round are not
    by = Unasked(row.project_id)
    tasks.submit(conn, kinds.CONFIRM_RESIZE, row.id, by, args={"migration_id": found.id})


def revert(conn: Connection, caller: Caller, server_id: str) -> None:
    """Back to the old place and flavor. Raises NotFound, Conflict."""
    row = power.on_a_living_host(conn, servers.begin(conn, caller, server_id, "revertResize"))
    found = migrations.take(conn, row.id, caller.now, "revert")
    power.on_a_living_host(conn, row._replace(host=found.source_host))
    tasks.submit(conn, kinds.REVERT_RESIZE, row.id, caller, args={"migration_id": found.id})


def _check_image(conn: Connection, row: Server, flavor: Flavor) -> None:
    if not row.image_id:
        return
    try:
        image = images.get(conn, row.image_id)
    except NotFound:
        # The server has outlived the image; its disk is what counts.
        return
    check_size(image, flavor.memory_mib, flavor.disk_gib)


def _submit(conn: Connection, caller: Caller, kind: Kind, wanted: NewMigration) -> None:
    migration = migrations.create(conn, caller, wanted)
    tasks.submit(conn, kind, migration.server_id, caller, args={"migration_id": migration.id})


# -- what the workflows write


def point(conn: Connection, migration: Migration, now: datetime, *, forward: bool) -> None:
    """Record the server and its ports at the new place with the new flavor, or at the old ones. May be repeated."""
    host = hosts.find(conn, migration.new_host if forward else migration.source_host)
    if host is None:
        raise Conflict("Service is unavailable at this time.")
    flavor_id = migration.new_flavor_id if forward else migration.old_flavor_id
    flavor = migration.new_flavor if forward else migration.old_flavor
    place = {"host": host.name, "zone": host.zone, "flavor_id": flavor_id, "flavor": flavor}
    server = servers.get(conn, migration.server_id)
    servers.change(conn, server, place, now)
    networking.bind(conn, server, host.name, host.zone, now)


def end_all(
    conn: Connection, server_id: str, now: datetime, statuses: Sequence[str] = migrations.OPEN, *, keep: str = ""
) -> None:
    """A resize that was to be confirmed or reverted counts as confirmed: neither can be requested any more.

    `keep`: the id of the migration that takes their place.
    """
    if migrations.close_all(conn, server_id, now, statuses, keep=keep):
        count_one(conn, server_id, now)


def count_one(conn: Connection, server_id: str, now: datetime) -> None:
    """From now on count only the flavor that the server has towards the quota."""
    row = servers.find(conn, server_id)
    if row is not None and row.deleted_at is None:
        servers.change(conn, row, {"vcpus": row.flavor["vcpus"], "memory_mib": row.flavor["ram"]}, now)
