"""The classic way to attach a volume: one action per step. Reference: volume.md, section 3."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.body import Body, Length, Uuid
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.volume import attachments, connections, operations, qos_specs, states, volumes
from cloudctl.volume.api import views
from cloudctl.volume.api.actions import ACTION
from cloudctl.volume.api.fields import HostName, Object
from cloudctl.volume.tables import Attachment


@frozen
class Attach:
    mountpoint: Annotated[str, Length(1, 255)]
    instance_uuid: Uuid | None = None
    host_name: HostName | None = None
    mode: Literal["rw", "ro"] = "rw"


@frozen
class Detach:
    attachment_id: Uuid | None = None


@frozen
class InitializeConnection:
    connector: Object


@frozen
class TerminateConnection:
    connector: Object | None


@frozen
class ForceDetach:
    attachment_id: Uuid | None = None
    connector: Object | None = None


# The backend keeps every host that was connected until it is disconnected.
MOST_HOSTS = 32
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}")


def host_of(connector: Object) -> str:
    """Raises Invalid unless a connector names its host."""
    host = connector.get("host")
    if not isinstance(host, str) or HOST.fullmatch(host) is None:
        raise Invalid("Invalid input received: the connector needs the key 'host', a name of 1 to 255 characters.")
    return host


@frozen
class Attaching:
    routes = Routes("Volume actions")

    db: Database
    backend: IVolumeBackend

    @routes.action(ACTION, "os-reserve", policy="volume:volumes:attach")
    async def reserve(self, call: Call, volume_id: str) -> None:
        """Reserve a volume for a later attachment."""
        await self.db.run(operations.reserve, call.caller, volume_id)

    @routes.action(ACTION, "os-unreserve", policy="volume:volumes:attach")
    async def unreserve(self, call: Call, volume_id: str) -> None:
        """Give up a reservation."""
        await self.db.run(operations.unreserve, call.caller, volume_id)

    @routes.action(ACTION, "os-begin_detaching", policy="volume:volumes:attach")
    async def begin_detaching(self, call: Call, volume_id: str) -> None:
        """Mark a volume as about to be detached."""
        await self.db.run(operations.begin_detaching, call.caller, volume_id)

    @routes.action(ACTION, "os-roll_detaching", policy="volume:volumes:attach")
    async def roll_detaching(self, call: Call, volume_id: str) -> None:
        """Mark a volume as not being detached after all."""
        await self.db.run(operations.roll_detaching, call.caller, volume_id)

    @routes.action(ACTION, "os-attach", policy="volume:volumes:attach", body=Body(Attach))
    async def attach(self, call: Call, volume_id: str, body: Attach) -> None:
        """Mark a volume as attached."""
        if body.instance_uuid is None and body.host_name is None:
            raise Invalid(
                "Invalid request to attach volume to an invalid target: instance_uuid or host_name is needed."
            )
        await self.db.run(
            operations.attach, call.caller, volume_id, body.instance_uuid, body.host_name, body.mountpoint, body.mode
        )

    @routes.action(ACTION, "os-detach", policy="volume:volumes:attach", body=Body(Detach | None))
    async def detach(self, call: Call, volume_id: str, body: Detach | None) -> None:
        """Mark a volume as detached."""
        await self.db.run(operations.detach, call.caller, volume_id, body.attachment_id if body else None)

    @routes.action(ACTION, "os-force_detach", policy="volume:volumes:force_detach", body=Body(ForceDetach))
    async def force_detach(self, call: Call, volume_id: str, body: ForceDetach) -> None:
        """End an attachment whose server or host is gone, and disconnect the host."""
        if body.connector is not None:
            host = host_of(body.connector)
            if (kept := (await self.db.read(_managed, call, volume_id)).get(host)) is not None:
                raise attachments.managed(kept)
            await connections.disconnect(self.backend, volume_id, host)
        await self.db.run(operations.detach, call.caller, volume_id, body.attachment_id, force=True)

    @routes.action(
        ACTION,
        "os-initialize_connection",
        policy="volume:volumes:attach",
        status=200,
        body=Body(InitializeConnection),
    )
    async def initialize_connection(self, call: Call, volume_id: str, body: InitializeConnection) -> Any:
        """Connect a host to a volume, and return how it reaches it."""
        host = host_of(body.connector)
        mode, paces = await self.db.read(_use, call, volume_id)
        present = await connections.hosts(self.backend, volume_id)
        if host not in present and len(present) >= MOST_HOSTS:
            raise Conflict(f"Invalid volume: {len(present)} hosts are connected to volume {volume_id} already.")
        info = await connections.connect(self.backend, volume_id, host)
        return {
            "connection_info": {
                "driver_volume_type": info["driver_volume_type"],
                "data": views.connection_data(info, mode) | {"qos_specs": paces},
                "enforce_multipath": False,
            }
        }

    @routes.action(ACTION, "os-terminate_connection", policy="volume:volumes:attach", body=Body(TerminateConnection))
    async def terminate_connection(self, call: Call, volume_id: str, body: TerminateConnection) -> None:
        """Disconnect a host from a volume, or all hosts but those of the compute service."""
        kept = await self.db.read(_managed, call, volume_id)
        # Without a host this would end what the compute service has: answer that, not what a connector needs.
        if body.connector is not None and kept and "host" not in body.connector:
            raise attachments.managed(next(iter(kept.values())))
        host = None if body.connector is None else host_of(body.connector)
        if host is not None and host in kept:
            raise attachments.managed(kept[host])
        leaving = await connections.hosts(self.backend, volume_id) if host is None else (host,)
        for each in leaving:
            if each not in kept:
                await connections.disconnect(self.backend, volume_id, each)


def _use(conn: Connection, call: Call, volume_id: str) -> tuple[str | None, dict[str, Any] | None]:
    """The mode in which the host is to use the volume, and its QoS specs.

    Raises NotFound, Conflict for one that no host may be connected to now.
    """
    volume = volumes.visible(conn, call.caller, volume_id)
    if volume.status == states.MAINTENANCE:
        raise Conflict("Invalid volume: The volume connection cannot be initialized in maintenance mode.")
    # Of an offered one, whoever accepts it is sure that no host of its owner has it.
    if volume.status in states.GONE or volume.status == states.AWAITING_TRANSFER:
        raise Conflict(f"Invalid volume: Volume {volume_id} is in status {volume.status}.")
    return volume.attached_mode or volumes.forced_mode(volume), qos_specs.of_volume(conn, volume.id)


def _managed(conn: Connection, call: Call, volume_id: str) -> dict[str, Attachment]:
    """What the compute service has connected, by host; nothing if the caller is that service. Raises NotFound."""
    volumes.visible(conn, call.caller, volume_id)
    if call.may("volume:volumes:use_managed"):
        return {}
    present = attachments.of_volume(conn, [volume_id]).get(volume_id, [])
    return {row.host: row for row in present if row.managed and row.host and row.status not in volumes.BROKEN}
