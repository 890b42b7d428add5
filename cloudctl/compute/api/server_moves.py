"""Moving servers to other hosts while they run, or because their host has died.

Calls about live migrations under way are below `/servers/ID/migrations`. Reference: compute.md, sections 7 and 8.9.
"""

from __future__ import annotations

from typing import Annotated, Any

from attrs import evolve, frozen

from cloudctl.compute import moving
from cloudctl.compute.api import gates, migrations, query
from cloudctl.compute.api.server_actions import PATH, able
from cloudctl.compute.moving import Destination
from cloudctl.compute.tables import Migration
from cloudctl.db import Database
from cloudctl.drivers.boundary import call as driver_call
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import ICrashDump, IHypervisor, ILiveMigrate
from cloudctl.drivers.specs import MigrationProgress
from cloudctl.errors import Invalid
from cloudctl.rest.body import (
    MISSING,
    Body,
    BodyError,
    Check,
    Length,
    LooseBool,
    Missing,
    Problem,
    ValueProblem,
    gated,
    truth,
)
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.standing import shown
from cloudctl.rest.versions import Span, Version, since, until
from cloudctl.rest.views import Fields

ON_ITS_WAY = "/servers/<server_id>/migrations"
PARTS = ("total", "processed", "remaining")
HostName = Annotated[str, Length(1, 255)]


def _block_migration(value: Any) -> bool | None:
    """None: the driver finds out whether disks have to go along."""
    if value == "auto":
        return None
    wanted = truth(str(value)) if isinstance(value, str | bool | int) else None
    if wanted is None:
        raise ValueProblem(f"{shown(value)} is not of type 'boolean'", "type")
    return wanted


@frozen
class LiveMigrate:
    host: HostName | None
    block_migration: Annotated[Any, Check(_block_migration)]
    disk_over_commit: LooseBool | Missing = gated(until(2, 24))
    force: LooseBool | Missing = gated(Span((2, 30), (2, 67)))


@frozen
class Evacuate:
    host: HostName | Missing | None = MISSING
    onSharedStorage: LooseBool | Missing = gated(until(2, 13))
    adminPass: Annotated[str, Length(0, 255)] | Missing = MISSING
    force: LooseBool | Missing = gated(Span((2, 29), (2, 67)))


def _destination(host: str | None, force: LooseBool | Missing) -> Destination:
    """Raises Invalid."""
    if force and not host:
        raise Invalid("Can't force to a non-provided destination")
    return Destination(host, bool(force))


def _check(body: LiveMigrate, version: Version) -> None:
    """Raises BodyError."""
    if version in gates.AUTOMATIC_BLOCKS:
        return
    if body.block_migration is None:
        raise BodyError([Problem("$.os-migrateLive.block_migration", "'auto' is not of type 'boolean'", "type")])
    if body.disk_over_commit is MISSING:
        raise BodyError([Problem("$.os-migrateLive", "'disk_over_commit' is a required property", "required")])


LATER = Fields[[Migration]](
    "a server on its way",
    {
        "uuid": (since(2, 59), lambda migration: migration.id),
        "user_id": (since(2, 80), lambda migration: migration.user_id),
        "project_id": (since(2, 80), lambda migration: migration.project_id),
    },
)


def view(call: Call, row: Migration, progress: MigrationProgress | None) -> dict[str, Any]:
    return {
        "id": row.number,
        "server_uuid": row.server_id,
        "status": row.status,
        **migrations.places(call, row),
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
        **_progress(progress),
        **LATER.of(call.version, row),
    }


def _progress(found: MigrationProgress | None) -> dict[str, int | None]:
    if found is None:
        return dict.fromkeys(f"{what}_{name}_bytes" for what in ("memory", "disk") for name in PARTS)
    return {
        "memory_total_bytes": found.memory_total,
        "memory_processed_bytes": found.memory_total - found.memory_remaining,
        "memory_remaining_bytes": found.memory_remaining,
        "disk_total_bytes": found.disk_total,
        "disk_processed_bytes": found.disk_total - found.disk_remaining,
        "disk_remaining_bytes": found.disk_remaining,
    }


@frozen
class ServerMoves:
    routes = Routes("Server moves")

    db: Database
    hypervisor: IHypervisor

    @routes.action(PATH, "os-migrateLive", policy="compute:servers:live_migrate", body=Body(LiveMigrate))
    async def migrate(self, call: Call, server_id: str, body: LiveMigrate) -> None:
        """Move a server to another host while it runs."""
        _check(body, call.version)
        wanted = evolve(_destination(body.host, body.force), disks=body.block_migration)
        move = able(self.hypervisor, ILiveMigrate, moving.migrate)
        checked = call.version not in gates.LATE_CHECKS
        await self.db.run(move, call.caller, server_id, wanted, checked=checked)

    @routes.action(PATH, "evacuate", policy="compute:servers:evacuate", body=Body(Evacuate), status=200)
    async def evacuate(self, call: Call, server_id: str, body: Evacuate) -> Reply:
        """Recreate a server on another host because its own has died."""
        told = call.version not in gates.EVACUATED_UNTOLD
        if told and body.onSharedStorage is MISSING:
            raise BodyError([Problem("$.evacuate", "'onSharedStorage' is a required property", "required")])
        wanted = _destination(body.host or None, body.force)
        stopped = call.version in gates.EVACUATED_OFF
        password = await self.db.run(
            moving.evacuate, call.caller, server_id, wanted, body.adminPass or None, stopped=stopped
        )
        return Reply({"adminPass": password} if told else None)

    @routes.action(PATH, "trigger_crash_dump", policy="compute:servers:crash_dump", since=(2, 17))
    async def crash(self, call: Call, server_id: str) -> None:
        """Make a guest dump its memory."""
        await self.db.run(able(self.hypervisor, ICrashDump, moving.crash), call.caller, server_id)

    # -- live migrations under way

    @routes.get(ON_ITS_WAY, policy="compute:servers:migrations:show", since=(2, 23))
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List the live migrations of a server that are under way."""
        query.only(call, ())
        rows = await self.db.read(moving.visible, call.caller, server_id)
        progress = await self._progress(server_id) if rows else None
        return {"migrations": [view(call, row, progress) for row in rows]}

    @routes.get(f"{ON_ITS_WAY}/<migration_id>", policy="compute:servers:migrations:show", since=(2, 23))
    async def show(self, call: Call, server_id: str, migration_id: str) -> dict[str, Any]:
        """Show the progress of a live migration."""
        row = await self.db.read(moving.one, call.caller, server_id, migration_id)
        return {"migration": view(call, row, await self._progress(server_id))}

    async def _progress(self, server_id: str) -> MigrationProgress | None:
        """None if the driver cannot tell."""
        if not ILiveMigrate.providedBy(self.hypervisor):
            return None
        try:
            return await driver_call(self.hypervisor.migration_progress, server_id)
        except DriverError:
            return None

    @routes.delete(f"{ON_ITS_WAY}/<migration_id>", policy="compute:servers:migrations:abort", since=(2, 24), status=202)
    async def abort(self, call: Call, server_id: str, migration_id: str) -> None:
        """Abort a live migration."""
        early = call.version in gates.EARLY_ABORTS
        await self.db.run(moving.abort, call.caller, server_id, migration_id, before_it_runs=early)

    @routes.action(
        f"{ON_ITS_WAY}/<migration_id>/action",
        "force_complete",
        policy="compute:servers:migrations:force",
        since=(2, 22),
    )
    async def force(self, call: Call, server_id: str, migration_id: str) -> None:
        """Force a live migration to complete soon, at the price of a pause."""
        await self.db.run(moving.force, call.caller, server_id, migration_id)
