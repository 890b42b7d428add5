"""Actions that change a server's size, disk, image or password. Reference: compute.md, section 7."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import field, frozen

from cloudctl.compute import rebuilding, rescue, resizing, snapshots
from cloudctl.compute.api import gates, query, server_views
from cloudctl.compute.api.server_actions import PATH, able
from cloudctl.compute.api.server_bodies import (
    Address4,
    Address6,
    DiskConfig,
    FlavorRef,
    Hostname,
    ImageRef,
    Metadata,
    Personality,
    ServerName,
    TrustedCerts,
    UserData,
)
from cloudctl.compute.api.server_create import checked_hostname, files
from cloudctl.compute.rebuilding import Rebuild
from cloudctl.compute.snapshots import NewBackup
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IHypervisor, IPassword, IRescue, ISnapshot
from cloudctl.errors import Forbidden
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, LooseInt, Missing, Range, gated, wire
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since, until
from cloudctl.rest.views import Fields
from cloudctl.volume.options import VolumeOptions

TO_HOST = "compute:servers:migrate:host"
Password = Annotated[str, Length(0, 255)]


@frozen
class CreateImage:
    name: ServerName
    metadata: Metadata | Missing = MISSING


@frozen
class CreateBackup:
    name: ServerName
    backup_type: Annotated[str, Length(0, 255)]
    rotation: Annotated[LooseInt, Range(0)]
    metadata: Metadata | Missing = MISSING


@frozen
class Resize:
    flavorRef: FlavorRef
    disk_config: DiskConfig | Missing = wire("OS-DCF:diskConfig", default=MISSING)


@frozen
class Migrate:
    host: Annotated[str, Length(1, 255)] | Missing | None = MISSING


@frozen
class Rescue:
    adminPass: Password | Missing = MISSING
    rescue_image_ref: Annotated[ImageRef, Length(1, 2048)] | Missing = MISSING


@frozen
class ChangePassword:
    adminPass: Password


@frozen
class RebuildServer:
    imageRef: Annotated[ImageRef, Length(1, 2048)]
    name: ServerName | Missing = MISSING
    adminPass: Password | Missing = MISSING
    metadata: Metadata | Missing = MISSING
    # Ephemeral disks are recreated: no driver can keep them.
    preserve_ephemeral: LooseBool | Missing = MISSING
    disk_config: DiskConfig | Missing = wire("OS-DCF:diskConfig", default=MISSING)
    accessIPv4: Address4 | Missing = MISSING
    accessIPv6: Address6 | Missing = MISSING
    personality: Personality | Missing = gated(until(2, 56))
    description: Annotated[str, Length(0, 255)] | Missing | None = gated(since(2, 19))
    key_name: Annotated[str, Length(1, 255)] | Missing | None = gated(since(2, 54))
    user_data: UserData | Missing | None = gated(since(2, 57))
    trusted_image_certificates: TrustedCerts | Missing | None = gated(since(2, 63))
    hostname: Hostname | Missing = gated(since(2, 90))


REBUILT = Fields[[Server]](
    "a server that is rebuilt",
    {
        "key_name": (since(2, 54), lambda server: server.key_name),
        "user_data": (since(2, 57), lambda server: server.user_data),
    },
)

# Field of a rebuild → column of the server.
COLUMNS = {
    "name": "name",
    "disk_config": "disk_config",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "description": "description",
    "user_data": "user_data",
    "trusted_image_certificates": "trusted_certs",
    "hostname": "hostname",
}


def wanted(body: RebuildServer, call: Call) -> Rebuild:
    """Raises BodyError."""
    if body.hostname:
        checked_hostname(body.hostname, call.version, "rebuild")
    given = {column: getattr(body, name) for name, column in COLUMNS.items() if getattr(body, name) is not MISSING}
    if "trusted_certs" in given:
        given["trusted_certs"] = list(given["trusted_certs"] or ())
    if "user_data" in given:
        given["user_data"] = given["user_data"] or None
    return Rebuild(
        image_id=body.imageRef,
        password=body.adminPass or None,
        key_name="" if body.key_name is MISSING else body.key_name or None,
        metadata=None if body.metadata is MISSING else body.metadata,
        personality=files(body.personality),
        changes=given,
    )


@frozen
class ServerChanges:
    routes = Routes("Server actions")

    db: Database
    hypervisor: IHypervisor
    volume_options: VolumeOptions = field(factory=VolumeOptions)

    @routes.action(PATH, "createImage", policy="compute:servers:create_image", body=Body(CreateImage))
    async def create_image(self, call: Call, server_id: str, body: CreateImage) -> Reply:
        """Create an image of a server's root disk, or of its volumes if it boots from one."""
        make = able(self.hypervisor, ISnapshot, snapshots.create_image)
        image_id = await self.db.run(make, call.caller, server_id, body.name, body.metadata or {}, self.volume_options)
        return _image(call, image_id)

    @routes.action(PATH, "createBackup", policy="compute:servers:create_backup", body=Body(CreateBackup))
    async def create_backup(self, call: Call, server_id: str, body: CreateBackup) -> Reply:
        """Create a backup image of a server's root disk, and delete the oldest ones of its type."""
        wanted = NewBackup(body.name, body.backup_type, body.rotation, body.metadata or {})
        make = able(self.hypervisor, ISnapshot, snapshots.create_backup)
        return _image(call, await self.db.run(make, call.caller, server_id, wanted))

    @routes.action(PATH, "resize", policy="compute:servers:resize", body=Body(Resize))
    async def resize(self, call: Call, server_id: str, body: Resize) -> None:
        """Change the flavor of a server, to be confirmed or reverted."""
        await self.db.run(resizing.resize, call.caller, server_id, body.flavorRef, body.disk_config or None)

    @routes.action(PATH, "migrate", policy="compute:servers:migrate", body={(2, 56): Body(Migrate | None)})
    async def migrate(self, call: Call, server_id: str, body: Migrate | None = None) -> None:
        """Move a server to another host, to be confirmed or reverted."""
        host = body.host or None if body is not None else None
        if host is not None and not call.may(TO_HOST):
            raise Forbidden(f"Policy doesn't allow {TO_HOST} to be performed.")
        await self.db.run(resizing.migrate, call.caller, server_id, host)

    @routes.action(PATH, "confirmResize", policy="compute:servers:resize", status=204)
    async def confirm_resize(self, call: Call, server_id: str) -> None:
        """Confirm a resize or a move."""
        await self.db.run(resizing.confirm, call.caller, server_id)

    @routes.action(PATH, "revertResize", policy="compute:servers:resize")
    async def revert_resize(self, call: Call, server_id: str) -> None:
        """Revert a resize or a move."""
        await self.db.run(resizing.revert, call.caller, server_id)

    @routes.action(PATH, "rebuild", policy="compute:servers:rebuild", body=Body(RebuildServer))
    async def rebuild(self, call: Call, server_id: str, body: RebuildServer) -> Reply:
        """Recreate a server's root disk from an image."""
        shown = await self.db.run(_rebuild, call, server_id, wanted(body, call))
        links = query.resource_links(call, "servers", shown["id"])
        return Reply({"server": shown}, headers=(("Location", links[0]["href"]),))

    @routes.action(PATH, "rescue", policy="compute:servers:rescue", body=Body(Rescue | None), status=200)
    async def rescue(self, call: Call, server_id: str, body: Rescue | None) -> dict[str, str]:
        """Run a server from another image, with its root disk as a second disk."""
        asked = body or Rescue()
        run = able(self.hypervisor, IRescue, rescue.rescue)
        image_id = asked.rescue_image_ref or None
        knows_volumes = call.version in gates.RESCUED_VOLUMES
        password = await self.db.run(
            run, call.caller, server_id, asked.adminPass or None, image_id, knows_volumes=knows_volumes
        )
        return {"adminPass": password}

    @routes.action(PATH, "unrescue", policy="compute:servers:rescue")
    async def unrescue(self, call: Call, server_id: str) -> None:
        """Run a rescued server from its own root disk again."""
        await self.db.run(able(self.hypervisor, IRescue, rescue.unrescue), call.caller, server_id)

    @routes.action(PATH, "changePassword", policy="compute:servers:change_password", body=Body(ChangePassword))
    async def change_password(self, call: Call, server_id: str, body: ChangePassword) -> None:
        """Set the admin password of a guest."""
        await self.db.run(able(self.hypervisor, IPassword, rescue.set_password), call.caller, server_id, body.adminPass)


def _image(call: Call, image_id: str) -> Reply:
    if call.version in gates.IMAGE_ID:
        return Reply({"image_id": image_id})
    return Reply(None, headers=(("Location", f"{call.host_url}/image/v2/images/{image_id}"),))


def _rebuild(conn: Connection, call: Call, server_id: str, asked: Rebuild) -> dict[str, Any]:
    knows_volumes = call.version in gates.REBUILT_VOLUMES
    row, password = rebuilding.rebuild(conn, call.caller, server_id, asked, knows_volumes=knows_volumes)
    shown = server_views.updated(server_views.gather(conn, call, [row]), row)
    # It has a name of its own here.
    shown.pop(server_views.USER_DATA_KEY, None)
    return {**shown, "adminPass": password, **REBUILT.of(call.version, row)}
