"""Snapshots on the wire. Reference: volume.md, section 5."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import exists, select

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend, IVolumeSnapshots
from cloudctl.errors import Invalid, NotImplementedHere
from cloudctl.rest.body import MISSING, Body, Check, LooseBool, Missing, Uuid, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import equals
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import search, snapshots, states
from cloudctl.volume.api import gates, lists, views
from cloudctl.volume.api.actions import ACTION as VOLUME_ACTION
from cloudctl.volume.api.fields import Label, Metadata, Word, resettable
from cloudctl.volume.api.lists import By, always
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Snapshot, Volume

ACTION = "/snapshots/<snapshot_id>/action"


def _in_zone(values: Any) -> Any:
    # Looked up for each snapshot: a zone has far more volumes.
    volume = Volume.id == Snapshot.volume_id
    return exists(select(Volume.id).where(volume, Volume.availability_zone == values[-1]))


FILTERS = {
    "name": lists.text(Snapshot.name),
    "status": lists.text(Snapshot.status),
    "volume_id": By(always(equals(Snapshot.volume_id))),
    "metadata": By(always(search.holds(Snapshot.metadata)), span=since(3, 22)),
    "availability_zone": By(always(_in_zone)),
    "consumes_quota": By(always(search.constant(True)), span=since(3, 65)),
    "created_at": lists.moment(Snapshot.created_at, span=since(3, 60)),
    "updated_at": lists.moment(Snapshot.updated_at, span=since(3, 60)),
    "id": By(always(equals(Snapshot.id)), admin=True),
    "project_id": By(always(equals(Snapshot.project_id)), admin=True),
    "user_id": By(always(equals(Snapshot.user_id)), admin=True),
    "description": lists.text(Snapshot.description, admin=True),
}


LISTED = lists.Collection("snapshots", snapshots.LISTING, FILTERS, snapshots.not_found)


@frozen
class CreateSnapshot:
    volume_id: Uuid | None  # null is looked up, too, and not found
    name: Label | None = None
    description: Label | None = None
    display_name: Label | None = None
    display_description: Label | None = None
    force: LooseBool | Missing = MISSING
    metadata: Metadata | None = None

    def wanted(self, call: Call) -> NewSnapshot:
        """Raises Invalid."""
        force = self.force or False
        if call.version in gates.FREEZE_IN_USE:
            if self.force is False:
                raise Invalid(
                    "Invalid volume: The 'force' flag is no longer needed: since microversion 3.66 it is always on, "
                    "and false is refused."
                )
            force = True
        return NewSnapshot(
            volume_id=self.volume_id or "None",
            name=self.name if self.name is not None else self.display_name,
            description=self.description if self.description is not None else self.display_description,
            metadata=self.metadata or {},
            force=bool(force),
        )


@frozen
class UpdateSnapshot:
    name: Label | Missing | None = MISSING
    description: Label | Missing | None = MISSING
    display_name: Label | Missing | None = MISSING
    display_description: Label | Missing | None = MISSING

    def values(self) -> dict[str, Any]:
        """Column → value. Raises Invalid if there is none."""
        sent = given(self)
        found = {name.removeprefix("display_"): sent[name] for name in sorted(sent)}
        if not found:
            raise Invalid("At least one of name, description, display_name, display_description is needed.")
        return found


@frozen
class ResetSnapshot:
    status: Word


def percent(value: str) -> str:
    """`0%` to `100%`. Raises ValueError."""
    number = value.removesuffix("%")
    if not (value.endswith("%") and number.isascii() and number.isdigit() and len(number) < 4 and int(number) <= 100):
        raise ValueError("a progress is 0% to 100%")
    return value


Progress = Annotated[str, Check(percent)]


@frozen
class ReportSnapshot:
    status: Word
    progress: Progress | Missing = MISSING


@frozen
class Revert:
    snapshot_id: Uuid


@frozen
class Snapshots:
    routes = Routes("Snapshots")

    db: Database
    backend: IVolumeBackend
    options: VolumeOptions

    @routes.get("/snapshots", policy="volume:snapshots:list", pure=True, query=lists.names(FILTERS))
    async def list(self, call: Call) -> Any:
        """List snapshots."""
        return await LISTED.answer(self.db, call, views.snapshot)

    @routes.get("/snapshots/detail", policy="volume:snapshots:list", pure=True, query=lists.names(FILTERS))
    async def details(self, call: Call) -> Any:
        """List snapshots with all their fields."""
        return await LISTED.answer(self.db, call, views.snapshot_detail)

    @routes.post("/snapshots", policy="volume:snapshots:create", status=202, body=Body(CreateSnapshot, key="snapshot"))
    async def create(self, call: Call, body: CreateSnapshot) -> Any:
        """Make a snapshot of a volume."""
        demand_snapshots(self.backend)
        row = await self.db.run(snapshots.create, call.caller, body.wanted(call), self.options)
        return {"snapshot": views.snapshot(call, row)}

    @routes.get("/snapshots/<snapshot_id>", policy="volume:snapshots:show", pure=True)
    async def show(self, call: Call, snapshot_id: str) -> Any:
        """Show a snapshot."""
        row = await self.db.read(snapshots.visible, call.caller, snapshot_id)
        return {"snapshot": views.snapshot_detail(call, row)}

    @routes.put("/snapshots/<snapshot_id>", policy="volume:snapshots:update", body=Body(UpdateSnapshot, key="snapshot"))
    async def update(self, call: Call, snapshot_id: str, body: UpdateSnapshot) -> Any:
        """Change the name or description of a snapshot."""
        row = await self.db.run(_update, call, snapshot_id, body.values())
        return {"snapshot": views.snapshot(call, row)}

    @routes.delete("/snapshots/<snapshot_id>", policy="volume:snapshots:delete", status=202)
    async def delete(self, call: Call, snapshot_id: str) -> None:
        """Delete a snapshot."""
        await self.db.run(snapshots.remove, call.caller, snapshot_id, False)

    # -- actions

    @routes.action(ACTION, "os-reset_status", policy="volume:snapshots:reset_status", body=Body(ResetSnapshot))
    async def reset_status(self, call: Call, snapshot_id: str, body: ResetSnapshot) -> None:
        """Set the status manually; the snapshot itself stays as it is."""
        await self.db.run(
            snapshots.reset, call.caller, snapshot_id, resettable(body.status, states.SNAPSHOT_RESETTABLE)
        )

    @routes.action(ACTION, "os-force_delete", policy="volume:snapshots:force_delete")
    async def force_delete(self, call: Call, snapshot_id: str) -> None:
        """Delete a snapshot whatever its status."""
        await self.db.run(snapshots.remove, call.caller, snapshot_id, True)

    @routes.action(ACTION, "os-update_snapshot_status", policy="volume:snapshots:report", body=Body(ReportSnapshot))
    async def report(self, call: Call, snapshot_id: str, body: ReportSnapshot) -> None:
        """Report the progress of a snapshot that another service makes."""
        await self.db.run(snapshots.report, call.caller, snapshot_id, body.status, body.progress or None)

    @routes.action(VOLUME_ACTION, "revert", policy="volume:volumes:revert", since=(3, 40), body=Body(Revert))
    async def revert(self, call: Call, volume_id: str, body: Revert) -> None:
        """Revert a volume to its latest snapshot."""
        demand_snapshots(self.backend)
        await self.db.run(snapshots.revert, call.caller, volume_id, body.snapshot_id)


def demand_snapshots(backend: IVolumeBackend) -> None:
    """Raises NotImplementedHere if the backend has no snapshots."""
    if not IVolumeSnapshots.providedBy(backend):
        raise NotImplementedHere("The volume backend does not support snapshots.")


def _update(conn: Connection, call: Call, snapshot_id: str, values: dict[str, Any]) -> Snapshot:
    return snapshots.change(conn, snapshots.visible(conn, call.caller, snapshot_id), values, call.now)
