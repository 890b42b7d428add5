"""Attachments on the wire: how newer clients attach. Reference: volume.md, section 4."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen
from sqlalchemy import update

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import ConnectionInfo
from cloudctl.errors import CloudError, Conflict, Invalid
from cloudctl.rest.body import Body, Missing, Uuid, gated
from cloudctl.rest.call import Call
from cloudctl.rest.finishing import finished
from cloudctl.rest.listing import equals
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import attachments, connections, qos_specs, search, states, volumes
from cloudctl.volume.api import lists, views
from cloudctl.volume.api.attaching import host_of
from cloudctl.volume.api.fields import Object
from cloudctl.volume.api.lists import By, always
from cloudctl.volume.tables import Attachment

SINCE = (3, 27)
MODE = since(3, 54)

FILTERS = {
    "volume_id": By(always(equals(Attachment.volume_id))),
    "status": By(always(equals(Attachment.status))),
    "instance_id": By(always(equals(Attachment.server_id))),
    "attach_status": By(always(equals(Attachment.status))),
    "id": By(always(equals(Attachment.id)), admin=True),
    "project_id": By(always(equals(Attachment.project_id)), admin=True),
}


@frozen
class CreateAttachment:
    volume_uuid: Uuid
    instance_uuid: Uuid | None = None
    connector: Object | None = None
    mode: Literal["rw", "ro"] | Missing = gated(MODE)


@frozen
class UpdateAttachment:
    connector: Object


LISTED = lists.Collection("attachments", search.ATTACHMENTS, FILTERS, attachments.not_found)


@frozen
class Attachments:
    routes = Routes("Attachments")

    db: Database
    backend: IVolumeBackend

    @routes.get("/attachments", policy="volume:attachments:list", since=SINCE)
    async def list(self, call: Call) -> Any:
        """List attachments."""
        return await LISTED.answer(self.db, call, lambda call, row: views.attachment_summary(row))

    @routes.get("/attachments/detail", policy="volume:attachments:list", since=SINCE)
    async def list_detail(self, call: Call) -> Any:
        """List attachments with all fields."""
        return await LISTED.answer(self.db, call, views.attachment)

    @routes.post(
        "/attachments",
        policy="volume:attachments:create",
        since=SINCE,
        body=Body(CreateAttachment, key="attachment"),
    )
    async def create(self, call: Call, body: CreateAttachment) -> Any:
        """Reserve a volume for a server, and connect a host if one is given."""
        host = host_of(body.connector) if body.connector else None
        attachment_id = await self.db.run(_create, call, body, host)
        if host is not None:
            await self._connect(call, attachment_id, host)
        return await self.show(call, attachment_id)

    @routes.get("/attachments/<attachment_id>", policy="volume:attachments:show", since=SINCE)
    async def show(self, call: Call, attachment_id: str) -> Any:
        """Show an attachment."""
        row = await self.db.read(attachments.visible, call.caller, attachment_id)
        return {"attachment": views.attachment(call, row)}

    @routes.put(
        "/attachments/<attachment_id>",
        policy="volume:attachments:update",
        since=SINCE,
        body=Body(UpdateAttachment, key="attachment"),
    )
    async def update(self, call: Call, attachment_id: str, body: UpdateAttachment) -> Any:
        """Connect a host for an attachment."""
        host = host_of(body.connector)
        await self.db.run(_begin_connecting, call, attachment_id, host, body.connector)
        await self._connect(call, attachment_id, host)
        return await self.show(call, attachment_id)

    @routes.delete("/attachments/<attachment_id>", policy="volume:attachments:delete", since=SINCE, status=200)
    async def delete(self, call: Call, attachment_id: str) -> Any:
        """Delete an attachment, after its host is disconnected."""
        left = await self.db.run(_delete, call, attachment_id)
        return {"attachments": [views.attachment_summary(row) for row in left]}

    @routes.action(
        "/attachments/<attachment_id>/action",
        "os-complete",
        policy="volume:attachments:update",
        since=(3, 44),
        status=204,
    )
    async def complete(self, call: Call, attachment_id: str) -> None:
        """Mark the volume as attached."""
        await self.db.run(_complete, call, attachment_id)

    async def _connect(self, call: Call, attachment_id: str, host: str) -> None:
        """If this process dies here, the host may stay connected; ending the attachment disconnects it."""
        row = await self.db.read(attachments.visible, call.caller, attachment_id)
        # The backend may connect the host even if the client hangs up and ends the attachment instead.
        await finished(self._connected(call, row, host))

    async def _connected(self, call: Call, row: Attachment, host: str) -> None:
        try:
            info = await connections.connect(self.backend, row.volume_id, host)
        except CloudError:
            await self.db.run(attachments.fail, row.id, call.now)
            raise
        if not await self.db.run(_keep, row, host, info):
            await connections.disconnect(self.backend, row.volume_id, host)


def _create(conn: Connection, call: Call, body: CreateAttachment, host: str | None) -> str:
    volume = volumes.visible(conn, call.caller, body.volume_uuid, lock=True)
    attachments.check_server(conn, call.caller, body.instance_uuid)
    mode: str | None = body.mode or None
    if body.connector is not None and body.connector.get("mode") in ("rw", "ro"):
        mode = mode or body.connector["mode"]
    if mode is not None and volumes.forced_mode(volume) not in (None, mode):
        raise Invalid(f"Invalid attaching mode '{mode}' for volume {volume.id}.")
    if mode is None and call.version in MODE:
        mode = "rw"
    attachment_id = attachments.reserve(
        conn, volume.id, body.instance_uuid, project_id=None, now=call.now, mode=mode, managed=False
    )
    if host is not None:
        _connecting(conn, call, attachment_id, host, body.connector or {})
    return attachment_id


def _begin_connecting(conn: Connection, call: Call, attachment_id: str, host: str, connector: Object) -> None:
    attachment = attachments.visible(conn, call.caller, attachment_id)
    attachments.demand_own(call.caller, attachment)
    volume = volumes.get(conn, attachment.volume_id, lock=True)
    if "error" in volume.status or volume.status == states.DELETING:
        raise Conflict(f"Resource conflict: Volume {volume.id} is in status {volume.status}.")
    others = attachments.of_volume(conn, [volume.id]).get(volume.id, [])
    # One that failed does not hold the volume any more.
    held = (row for row in others if row.host and row.status not in volumes.BROKEN)
    if not volume.multiattach and any(row.server_id != attachment.server_id for row in held):
        raise Conflict(f"Resource conflict: duplicate connectors detected on volume {volume.id}")
    _connecting(conn, call, attachment_id, host, connector)


def _connecting(conn: Connection, call: Call, attachment_id: str, host: str, connector: Object) -> None:
    mountpoint = connector.get("mountpoint")
    device = mountpoint if isinstance(mountpoint, str) and 0 < len(mountpoint) <= 255 else None
    attachments.connect(conn, attachment_id, host, call.now, device)
    if connector.get("mode") in ("rw", "ro"):
        mine = (Attachment.id == attachment_id) & Attachment.mode.is_(None)
        conn.execute(update(Attachment).where(mine).values(mode=connector["mode"]))


def _keep(conn: Connection, before: Attachment, host: str, info: ConnectionInfo) -> bool:
    """Store the backend's answer. Returns whether the host stays connected.

    An attachment that was ended meanwhile may have been disconnected before the backend connected it.
    """
    volumes.find(conn, before.volume_id, lock=True)
    attachment = attachments.find(conn, before.id)
    if attachment is None or attachment.status == attachments.DETACHING:
        return attachments.host_is_used(conn, before.volume_id, host, but=before.id)
    paces = qos_specs.of_volume(conn, before.volume_id)
    attachments.connected(conn, attachment.id, {**info, "data": {**info["data"], "qos_specs": paces}})
    return True


def _delete(conn: Connection, call: Call, attachment_id: str) -> list[Attachment]:
    """The attachments that the volume still has."""
    volume_id = attachments.visible(conn, call.caller, attachment_id).volume_id
    volumes.get(conn, volume_id, lock=True)
    # As they are now that nobody else changes them: a host may have been connected meanwhile.
    present = {row.id: row for row in attachments.of_volume(conn, [volume_id]).get(volume_id, [])}
    attachment = present.pop(attachment_id, None)
    if attachment is None:
        raise attachments.not_found(attachment_id)
    attachments.end(conn, call.caller, attachment)
    return list(present.values())


def _complete(conn: Connection, call: Call, attachment_id: str) -> None:
    attachment = attachments.visible(conn, call.caller, attachment_id)
    attachments.demand_own(call.caller, attachment)
    if attachment.status == attachments.RESERVED:
        raise Conflict(f"Resource conflict: attachment {attachment_id} has no connector yet.")
    if attachment.status not in (attachments.ATTACHING, attachments.ATTACHED):
        raise Conflict(f"Resource conflict: attachment {attachment_id} is {attachment.status}.")
    attachments.complete(conn, attachment_id, None, None, call.now)
