"""Volumes and snapshots as compute once showed them: for clients that ask for 2.35 or less.

Reference: compute.md, section 17.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import field, frozen
from sqlalchemy import select

from cloudctl import tasks
from cloudctl.compute.api import query
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, LooseInt, Missing, Range
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.volume import attachments, creation, kinds, snapshots, volumes
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Attachment, Snapshot, Volume

LAST = (2, 35)
PAGES = ("limit", "offset")
Text = Annotated[str, Length(0, 255)]


@frozen
class CreateVolume:
    size: Annotated[LooseInt, Range(1)]
    display_name: Text | Missing | None = MISSING
    display_description: Text | Missing | None = MISSING
    volume_type: Text | Missing | None = MISSING
    availability_zone: Text | Missing | None = MISSING
    snapshot_id: Text | Missing | None = MISSING
    metadata: dict[str, Text] | Missing | None = MISSING


@frozen
class CreateSnapshot:
    volume_id: Text
    display_name: Text | Missing | None = MISSING
    display_description: Text | Missing | None = MISSING
    force: LooseBool | Missing = MISSING


def volume(row: Volume, attached: Sequence[Attachment]) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": row.status,
        "size": row.size,
        "availabilityZone": row.availability_zone,
        "createdAt": micros(row.created_at),
        "displayName": row.name,
        "displayDescription": row.description,
        "volumeType": row.volume_type_id,
        "snapshotId": row.snapshot_id,
        "metadata": row.metadata,
        # A volume that is not attached shows an empty attachment.
        "attachments": [_attachment(each) for each in attached] or [{}],
    }


def _attachment(row: Attachment) -> dict[str, str]:
    shown = {"id": row.volume_id, "volumeId": row.volume_id, "serverId": row.server_id, "device": row.device}
    return {key: value for key, value in shown.items() if value is not None}


def snapshot(row: Snapshot) -> dict[str, Any]:
    return {
        "id": row.id,
        "volumeId": row.volume_id,
        "status": row.status,
        "size": row.size,
        "createdAt": micros(row.created_at),
        "displayName": row.name,
        "displayDescription": row.description,
    }


@frozen
class Volumes:
    routes = Routes("Volumes (deprecated)")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)
    volume_options: VolumeOptions = field(factory=VolumeOptions)

    @routes.get("/os-volumes", policy="compute:volumes:list", until=LAST, query=PAGES)
    async def list(self, call: Call) -> dict[str, Any]:
        """List the project's volumes."""
        return {"volumes": await self.db.scan(_volumes, call, *query.offset_page(call, self.options))}

    @routes.get("/os-volumes/detail", policy="compute:volumes:list", until=LAST, query=PAGES)
    async def detail(self, call: Call) -> dict[str, Any]:
        """List the project's volumes: the same as without `detail`."""
        return {"volumes": await self.db.scan(_volumes, call, *query.offset_page(call, self.options))}

    @routes.get("/os-volumes/<volume_id>", policy="compute:volumes:list", until=LAST)
    async def show(self, call: Call, volume_id: str) -> dict[str, Any]:
        """Show one volume."""
        return {"volume": await self.db.scan(_volume, call, volume_id)}

    @routes.post("/os-volumes", policy="compute:volumes:manage", until=LAST, body=Body(CreateVolume, key="volume"))
    async def create(self, call: Call, body: CreateVolume) -> dict[str, Any]:
        """Create a volume."""
        wanted = NewVolume(
            body.size,
            body.display_name or None,
            body.display_description or None,
            body.volume_type or None,
            body.availability_zone or None,
            snapshot_id=body.snapshot_id or None,
            metadata=body.metadata or {},
        )
        made = await self.db.run(creation.create, call.caller, wanted, self.volume_options)
        return {"volume": volume(made, ())}

    @routes.delete("/os-volumes/<volume_id>", policy="compute:volumes:manage", until=LAST, status=202)
    async def delete(self, call: Call, volume_id: str) -> None:
        """Delete a volume."""
        await self.db.run(_delete, call, volume_id)

    @routes.get("/os-snapshots", policy="compute:volumes:list", until=LAST, query=PAGES)
    async def snapshots(self, call: Call) -> dict[str, Any]:
        """List the project's snapshots."""
        return {"snapshots": await self.db.scan(_snapshots, call, *query.offset_page(call, self.options))}

    @routes.get("/os-snapshots/detail", policy="compute:volumes:list", until=LAST, query=PAGES)
    async def snapshots_detail(self, call: Call) -> dict[str, Any]:
        """List the project's snapshots: the same as without `detail`."""
        return {"snapshots": await self.db.scan(_snapshots, call, *query.offset_page(call, self.options))}

    @routes.get("/os-snapshots/<snapshot_id>", policy="compute:volumes:list", until=LAST)
    async def show_snapshot(self, call: Call, snapshot_id: str) -> dict[str, Any]:
        """Show one snapshot."""
        return {"snapshot": snapshot(await self.db.read(snapshots.visible, call.caller, snapshot_id))}

    @routes.post(
        "/os-snapshots", policy="compute:volumes:manage", until=LAST, body=Body(CreateSnapshot, key="snapshot")
    )
    async def create_snapshot(self, call: Call, body: CreateSnapshot) -> dict[str, Any]:
        """Create a snapshot of a volume."""
        wanted = NewSnapshot(
            body.volume_id, body.display_name or None, body.display_description or None, force=bool(body.force)
        )
        return {"snapshot": snapshot(await self.db.run(_create_snapshot, call, wanted, self.volume_options))}

    @routes.delete("/os-snapshots/<snapshot_id>", policy="compute:volumes:manage", until=LAST, status=202)
    async def delete_snapshot(self, call: Call, snapshot_id: str) -> None:
        """Delete a snapshot."""
        await self.db.run(_delete_snapshot, call, snapshot_id)


def _volumes(conn: Connection, call: Call, limit: int, offset: int) -> list[dict[str, Any]]:
    mine = select(Volume).where(Volume.project_id == call.project_id)
    page = mine.order_by(Volume.created_at.desc(), Volume.id.desc()).limit(limit).offset(offset)
    rows = conn.execute(page).all()
    attached = attachments.of_volume(conn, [row.id for row in rows])
    return [volume(row, attached.get(row.id, ())) for row in rows]


def _volume(conn: Connection, call: Call, volume_id: str) -> dict[str, Any]:
    row = volumes.visible(conn, call.caller, volume_id)
    return volume(row, attachments.of_volume(conn, [row.id]).get(row.id, ()))


def _delete(conn: Connection, call: Call, volume_id: str) -> None:
    volumes.visible(conn, call.caller, volume_id)
    try:
        volumes.begin_delete(conn, volume_id, call.now)
    except Conflict as error:
        raise Invalid(error.message) from None
    tasks.supersede(conn, kinds.DELETE_VOLUME, volume_id, call.caller, keep=kinds.LENT)


def _snapshots(conn: Connection, call: Call, limit: int, offset: int) -> list[dict[str, Any]]:
    mine = select(Snapshot).where(Snapshot.project_id == call.project_id)
    page = mine.order_by(Snapshot.created_at.desc(), Snapshot.id.desc()).limit(limit).offset(offset)
    return [snapshot(row) for row in conn.execute(page)]


def _create_snapshot(conn: Connection, call: Call, wanted: NewSnapshot, options: VolumeOptions) -> Snapshot:
    try:
        return snapshots.create(conn, call.caller, wanted, options)
    except Conflict as error:
        raise Invalid(error.message) from None


def _delete_snapshot(conn: Connection, call: Call, snapshot_id: str) -> None:
    try:
        snapshots.remove(conn, call.caller, snapshot_id, False)
    except Conflict as error:
        raise Invalid(error.message) from None
