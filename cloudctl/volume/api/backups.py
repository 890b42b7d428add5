"""Backups on the wire. Reference: volume.md, section 6."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend, IVolumeData, IVolumeSnapshots
from cloudctl.errors import Invalid, Unavailable
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, Missing, Text, Uuid, gated, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page, equals
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import backups, restoring, search, states
from cloudctl.volume.api import gates, lists, views
from cloudctl.volume.api.fields import Label, Metadata, Word, resettable
from cloudctl.volume.api.lists import By, always
from cloudctl.volume.backups import NewBackup
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Backup

ACTION = "/backups/<backup_id>/action"

FILTERS = {
    "name": lists.text(Backup.name),
    "status": lists.text(Backup.status),
    "volume_id": By(always(equals(Backup.volume_id))),
    "created_at": lists.moment(Backup.created_at, span=since(3, 60)),
    "updated_at": lists.moment(Backup.updated_at, span=since(3, 60)),
    "id": By(always(equals(Backup.id)), admin=True),
    "project_id": By(always(equals(Backup.project_id)), admin=True),
    "user_id": By(always(equals(Backup.user_id)), admin=True),
    "snapshot_id": By(always(equals(Backup.snapshot_id)), admin=True),
    "container": By(always(equals(Backup.container)), admin=True),
    "availability_zone": By(always(equals(Backup.availability_zone)), admin=True),
    "size": By(always(search.whole(Backup.size)), admin=True),
}


LISTED = lists.Collection("backups", backups.LISTING, FILTERS, backups.not_found)


@frozen
class CreateBackup:
    volume_id: Uuid
    name: Label | None = None
    description: Label | None = None
    container: Annotated[str, Length(0, 255)] | None = None
    incremental: LooseBool = False
    force: LooseBool = False
    snapshot_id: Uuid | None = None
    metadata: Metadata | Missing | None = gated(gates.BACKUP_METADATA)
    availability_zone: Text | Missing | None = gated(since(3, 51))

    def wanted(self) -> NewBackup:
        return NewBackup(**{**given(self), "metadata": self.metadata or {}})


@frozen
class UpdateBackup:
    name: Label | Missing | None = MISSING
    description: Label | Missing | None = MISSING
    # Ignored before 3.43.
    metadata: Metadata | Missing | None = MISSING

    def values(self, call: Call) -> dict[str, Any]:
        """Column → value. Raises Invalid if there is none."""
        sent = given(self)
        if "metadata" in sent:
            sent["metadata"] = sent["metadata"] or {}
            if call.version not in gates.BACKUP_METADATA:
                del sent["metadata"]
        if not sent:
            raise Invalid("Must specify at least one of name, description, metadata for update.")
        return sent


@frozen
class Restore:
    name: Label | None = None
    volume_id: Uuid | None = None


@frozen
class ResetBackup:
    status: Word


@frozen
class Backups:
    routes = Routes("Backups")

    db: Database
    backend: IVolumeBackend
    options: VolumeOptions

    @routes.get("/backups", policy="volume:backups:list", pure=True, query=lists.names(FILTERS))
    async def list(self, call: Call) -> Any:
        """List backups."""
        return await LISTED.answer(self.db, call, views.backup_summary)

    @routes.get("/backups/detail", policy="volume:backups:list", pure=True, query=lists.names(FILTERS))
    async def details(self, call: Call) -> Any:
        """List backups with all their fields."""
        found, total, needed = await self.db.scan(_details, call)
        items = [views.backup(call, row, row.id in needed) for row in found.rows]
        return lists.answer(call, "backups", items, found, total)

    @routes.post(
        "/backups",
        policy="volume:backups:create",
        status=202,
        body=Body(CreateBackup, key="backup"),
    )
    async def create(self, call: Call, body: CreateBackup) -> Any:
        """Back up a volume or a snapshot."""
        self._demand_data()
        row = await self.db.run(backups.create, call.caller, body.wanted(), self.options)
        return {"backup": views.backup_summary(call, row)}

    @routes.get("/backups/<backup_id>", policy="volume:backups:show", pure=True)
    async def show(self, call: Call, backup_id: str) -> Any:
        """Show a backup."""
        row, is_needed = await self.db.read(_visible, call, backup_id)
        return {"backup": views.backup(call, row, is_needed)}

    @routes.put(
        "/backups/<backup_id>",
        policy="volume:backups:update",
        since=(3, 9),
        body=Body(UpdateBackup, key="backup"),
    )
    async def update(self, call: Call, backup_id: str, body: UpdateBackup) -> Any:
        """Change the name, description or metadata of a backup."""
        row = await self.db.run(_update, call, backup_id, body.values(call))
        return {"backup": views.backup_summary(call, row)}

    @routes.delete("/backups/<backup_id>", policy="volume:backups:delete", status=202)
    async def delete(self, call: Call, backup_id: str) -> None:
        """Delete a backup."""
        await self.db.run(backups.remove, call.caller, backup_id, False)

    @routes.post(
        "/backups/<backup_id>/restore",
        policy="volume:backups:restore",
        status=202,
        body=Body(Restore, key="restore"),
    )
    async def restore(self, call: Call, backup_id: str, body: Restore) -> Any:
        """Restore a backup into a new volume or over an existing one."""
        self._demand_data()
        row = await self.db.run(restoring.restore, call.caller, backup_id, body.volume_id, body.name, self.options)
        return {"restore": {"backup_id": backup_id, "volume_id": row.id, "volume_name": row.name}}

    @routes.action(ACTION, "os-reset_status", policy="volume:backups:reset_status", body=Body(ResetBackup))
    async def reset_status(self, call: Call, backup_id: str, body: ResetBackup) -> None:
        """Set the status manually; the backup itself stays as it is."""
        await self.db.run(_update, call, backup_id, {"status": resettable(body.status, states.BACKUP_RESETTABLE)})

    @routes.action(ACTION, "os-force_delete", policy="volume:backups:force_delete")
    async def force_delete(self, call: Call, backup_id: str) -> None:
        """Delete a backup whatever its status."""
        await self.db.run(backups.remove, call.caller, backup_id, True)

    def _demand_data(self) -> None:
        """Raises Unavailable if the backend cannot export and import content."""
        if not (IVolumeData.providedBy(self.backend) and IVolumeSnapshots.providedBy(self.backend)):
            raise Unavailable(backups.NO_SERVICE)


def _update(conn: Connection, call: Call, backup_id: str, values: dict[str, Any]) -> Backup:
    return backups.change(conn, backups.visible(conn, call.caller, backup_id), values, call.now)


def _visible(conn: Connection, call: Call, backup_id: str) -> tuple[Backup, bool]:
    """The backup, and whether others build on it."""
    row = backups.visible(conn, call.caller, backup_id)
    return row, bool(backups.having_dependents(conn, [row.id]))


def _details(conn: Connection, call: Call) -> tuple[Page, int | None, frozenset[str]]:
    """A page, and the ids of those on it that others build on."""
    page, total = LISTED.found(conn, call)
    return page, total, backups.having_dependents(conn, [row.id for row in page.rows])
