"""The volumes of a server. Reference: compute.md, section 8.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import field, frozen

from cloudctl.compute import attaching, block_devices, servers
from cloudctl.compute.api import gates, query
from cloudctl.compute.api.server_bodies import DeviceTag
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import BlockDevice
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, Missing, Pattern, Uuid, gated
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since, until
from cloudctl.rest.views import Fields

PATH = "/servers/<server_id>/os-volume_attachments"

DETAILED = since(2, 85)
Device = Annotated[str, Length(1, 64), Pattern(r"/dev/[a-z]+[0-9]*", "a device such as /dev/vdb")]


@frozen
class Attach:
    volumeId: Uuid
    device: Device | Missing | None = MISSING
    tag: DeviceTag | Missing = gated(since(2, 49))
    delete_on_termination: LooseBool | Missing = gated(since(2, 79))


@frozen
class Change:
    """Everything but `delete_on_termination` must be unchanged; another `volumeId` is a swap."""

    volumeId: Uuid
    device: Annotated[str, Length(0, 255)] | Missing | None = gated(DETAILED)
    tag: Annotated[str, Length(0, 60)] | Missing | None = gated(DETAILED)
    delete_on_termination: LooseBool | Missing = gated(DETAILED)
    serverId: Uuid | Missing = gated(DETAILED)
    id: Uuid | Missing = gated(DETAILED)


LATER = Fields[[BlockDevice]](
    "a volume of a server",
    {
        "tag": (since(2, 70), lambda device: device.tag),
        "delete_on_termination": (since(2, 79), lambda device: device.delete_on_termination),
    },
)
# The answer of an attach keeps its `id`.
IDS = Fields[[BlockDevice]](
    "a volume of a server, listed or shown",
    {
        "id": (until(2, 88), lambda device: device.volume_id),
        "attachment_id": (since(2, 89), lambda device: device.attachment_id),
        "bdm_uuid": (since(2, 89), lambda device: device.id),
    },
)


def view(call: Call, row: BlockDevice) -> dict[str, Any]:
    shown: dict[str, Any] = {"volumeId": row.volume_id, "serverId": row.server_id, "device": row.device_name}
    return IDS.of(call.version, row) | shown | LATER.of(call.version, row)


@frozen
class VolumeAttachments:
    routes = Routes("Server volumes")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get(PATH, policy="compute:attachments:list", query=("limit", "offset"))
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List the volumes of a server."""
        query.only(call, ("limit", "offset"))
        limit, offset = query.offset_page(call, self.options)
        rows = await self.db.read(_rows, call, server_id)
        return {"volumeAttachments": [view(call, row) for row in query.sliced(rows, limit, offset)]}

    @routes.get(f"{PATH}/<volume_id>", policy="compute:attachments:show")
    async def show(self, call: Call, server_id: str, volume_id: str) -> dict[str, Any]:
        """Show one volume of a server."""
        server, row = await self.db.read(attaching.attached, call.caller, server_id, volume_id)
        if call.version in gates.ATTACHED_ONLY and not row.attached:
            raise attaching.not_attached(server.id, volume_id)
        return {"volumeAttachment": view(call, row)}

    @routes.post(
        PATH,
        policy="compute:attachments:create",
        body=Body(Attach, key="volumeAttachment"),
        status={(2, 1): 200, (2, 101): 202},
    )
    async def attach(self, call: Call, server_id: str, body: Attach) -> dict[str, Any] | None:
        """Attach a volume to a server."""
        row = await self.db.run(self._attach, call, server_id, body)
        if call.version in gates.ATTACHED_LATER:
            return None
        return {"volumeAttachment": _created(call, row)}

    def _attach(self, conn: Connection, call: Call, server_id: str, body: Attach) -> BlockDevice:
        return attaching.attach_volume(
            conn,
            call.caller,
            server_id,
            body.volumeId,
            self.options,
            knows_multiattach=call.version in gates.MULTIATTACH,
            knows_shelved=call.version in gates.SHELVED_VOLUMES,
            device_name=body.device or None,
            tag=body.tag or None,
            delete_on_termination=bool(body.delete_on_termination),
        )

    @routes.put(
        f"{PATH}/<volume_id>",
        policy="compute:attachments:update",
        body=Body(Change, key="volumeAttachment"),
        status=202,
    )
    async def update(self, call: Call, server_id: str, volume_id: str, body: Change) -> None:
        """Change whether a volume is deleted with its server, or swap it for another one."""
        await self.db.run(_change, call, server_id, volume_id, body)

    @routes.delete(f"{PATH}/<volume_id>", policy="compute:attachments:delete", status=202)
    async def detach(self, call: Call, server_id: str, volume_id: str) -> None:
        """Detach a volume from a server."""
        knows_shelved = call.version in gates.SHELVED_VOLUMES
        await self.db.run(attaching.detach_volume, call.caller, server_id, volume_id, knows_shelved=knows_shelved)


def _created(call: Call, row: BlockDevice) -> dict[str, Any]:
    """The answer of an attach keeps its `id` at every microversion."""
    shown: dict[str, Any] = {
        "id": row.volume_id,
        "volumeId": row.volume_id,
        "serverId": row.server_id,
        "device": row.device_name,
    }
    return shown | LATER.of(call.version, row)


def _rows(conn: Connection, call: Call, server_id: str) -> Sequence[BlockDevice]:
    server = servers.visible(conn, call.caller, server_id)
    rows = block_devices.of_server(conn, server.id)
    return [row for row in rows if row.attached or call.version not in gates.ATTACHED_ONLY]


def _change(conn: Connection, call: Call, server_id: str, volume_id: str, body: Change) -> None:
    server, row = attaching.attached(conn, call.caller, server_id, volume_id)
    if body.volumeId != row.volume_id or call.version not in DETAILED:
        attaching.swap_volume(conn, call.caller, server_id, volume_id, body.volumeId)
    kept = {
        "device": row.device_name,
        "tag": row.tag,
        "serverId": server.id,
        "id": row.volume_id,
    }
    for name, value in kept.items():
        given = getattr(body, name)
        if given is not MISSING and given != value:
            raise Invalid(f"The field {name} cannot be changed.")
    if body.delete_on_termination is not MISSING:
        attaching.keep_or_drop(conn, call.caller, server_id, volume_id, bool(body.delete_on_termination))
