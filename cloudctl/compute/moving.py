"""Moving servers without stopping them, and servers whose host has died. Cold migration is in `resizing`.

Reference: compute-states.md, sections 3 and 4.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cloudctl import tasks
from cloudctl.compute import kinds, migrations, placing, power, servers
from cloudctl.compute.creation import password as new_password
from cloudctl.compute.migrations import EVACUATION, LIVE, RUNNING, NewMigration
from cloudctl.compute.states import STOPPED
from cloudctl.compute.tables import Migration, Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.placement import claims, hosts
from cloudctl.placement.filters import passing
from cloudctl.rest.caller import Caller

TO_HOST = "compute:servers:live_migrate:host"
NO_HOST = "No valid host was found. There are not enough hosts available."


@frozen
class Destination:
    """`host`: the only one the server may go to. `forced`: whatever the filters say about it.

    `disks`: whether a running guest takes its own along; None: the driver finds out whether it must.
    """

    host: str | None = None
    forced: bool = False
    disks: bool | None = None


# -- live migration


def migrate(conn: Connection, caller: Caller, server_id: str, wanted: Destination, *, checked: bool) -> None:
    """`checked`: make sure at once that there is a host for it. Raises NotFound, Conflict, Invalid, Forbidden."""
    row = power.placed(servers.begin(conn, caller, server_id, "os-migrateLive"))
    if wanted.host is not None:
        caller.require(TO_HOST)
        if wanted.host == row.host:
            raise Invalid(f"Unable to migrate instance ({row.id}) to current host ({row.host}).")
        _alive(conn, wanted.host)
    _alive(conn, row.host or "")
    if checked and not wanted.forced:
        wish = placing.moved(conn, row, wanted.host, forced=False)
        if not passing(claims.host_states(conn, wish), wish):
            raise Invalid(NO_HOST)
    new = NewMigration(row, LIVE, row.flavor_id, row.flavor, wanted.host)
    migration = migrations.create(conn, caller, new)
    args = {"migration_id": migration.id, "forced": wanted.forced, "disks": wanted.disks}
    tasks.submit(conn, kinds.LIVE_MIGRATE, row.id, caller, args=args)


def _alive(conn: Connection, name: str) -> None:
    host = hosts.find(conn, name)
    if host is None:
        raise Invalid(f"Compute host {name[:255]} could not be found.")
    if not hosts.is_alive(host):
        raise Invalid(f"Compute service of {name} is unavailable at this time.")


def visible(conn: Connection, caller: Caller, server_id: str) -> Sequence[Migration]:
    """The server's live migrations that are under way. Raises NotFound."""
    return migrations.on_its_way(conn, servers.visible(conn, caller, server_id).id)


def one(conn: Connection, caller: Caller, server_id: str, named: str) -> Migration:
    """`named`: its number, or its UUID, which clients know as well. Raises NotFound."""
    for migration in visible(conn, caller, server_id):
        if named in (str(migration.number), migration.id):
            return migration
    raise NotFound(f"Migration {named[:64]} not found for instance {server_id}")


def abort(conn: Connection, caller: Caller, server_id: str, number: str, *, before_it_runs: bool) -> None:
    """`before_it_runs`: abort even one that has not begun to copy. Raises NotFound, Conflict, Invalid."""
    row = servers.allowed(conn, caller, server_id, "abort live migration", lock=True)
    migration = one(conn, caller, row.id, number)
    if migration.status != RUNNING and not before_it_runs:
        raise _wrong(row, migration, "abort live migration")
    tasks.cancel_open(conn, kinds.SERVER, row.id)
    tasks.submit_once(conn, kinds.ABORT_MIGRATION, migration.id, caller, args={"server_id": row.id})


def force(conn: Connection, caller: Caller, server_id: str, number: str) -> None:
    """Raises NotFound, Conflict, Invalid."""
    row = servers.allowed(conn, caller, server_id, "force_complete", lock=True)
    migration = one(conn, caller, row.id, number)
    if migration.status != RUNNING:
        raise _wrong(row, migration, "force complete")
    tasks.submit_once(conn, kinds.FORCE_MIGRATION, migration.id, caller, args={"server_id": row.id})


def _wrong(row: Server, migration: Migration, what: str) -> Invalid:
    return Invalid(
        f"Migration {migration.number} state of instance {row.id} is {migration.status}. "
        f"Cannot {what} while the migration is in this state."
    )


# -- evacuation


def evacuate(
    conn: Connection, caller: Caller, server_id: str, wanted: Destination, password: str | None, *, stopped: bool
) -> str:
    """Returns the new admin password. `stopped`: the server stays off. Raises NotFound, Conflict, Invalid."""
    row = power.placed(servers.begin(conn, caller, server_id, "evacuate"))
    source = hosts.find(conn, row.host or "")
    if source is not None and hosts.is_alive(source):
        raise Invalid(f"Compute service of {source.name} is still in use.")
    if wanted.host is not None:
        if hosts.find(conn, wanted.host) is None:
            raise NotFound(f"Compute host {wanted.host[:255]} not found.")
        if wanted.host == row.host:
            raise Invalid("The target host can't be the same one.")
    chosen = password or new_password()
    args = leave_dead_host(conn, caller, row, wanted, chosen, stopped=stopped)
    tasks.submit(conn, kinds.EVACUATE, row.id, caller, args=args)
    return chosen


def leave_dead_host(
    conn: Connection, caller: Caller, server: Server, wanted: Destination, password: str | None, *, stopped: bool
) -> dict[str, Any]:
    """The arguments of an evacuation's task, which the caller submits. `server`: its row from before the request.

    `password` None: the new guest gets none.
    """
    servers.change(conn, server, {"admin_password": password}, caller.now)
    new = NewMigration(server, EVACUATION, server.flavor_id, server.flavor, wanted.host)
    migration = migrations.create(conn, caller, new)
    # Whatever was being done to it on its host will never finish.
    tasks.cancel_open(conn, kinds.SERVER, server.id)
    return {
        "migration_id": migration.id,
        "forced": wanted.forced,
        "stopped": stopped or server.vm_state == STOPPED,
    }


# -- crash dumps


def crash(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = power.placed(servers.allowed(conn, caller, server_id, "trigger_crash_dump", lock=True))
    tasks.submit(conn, kinds.CRASH_DUMP, row.id, caller)
