"""The volumes of a server that boots: they exist, are reserved for it, and its host can use them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from cloudctl.compute import block_devices, guests, servers
from cloudctl.compute.tables import BlockDevice
from cloudctl.db import Connection
from cloudctl.errors import CloudError, NotFound
from cloudctl.tasks import Context, Wait
from cloudctl.tasks.tables import DONE, OPEN
from cloudctl.tasks.workflow import Cancelled, Memo
from cloudctl.volume import attachments
from cloudctl.volume.kinds import CREATE_VOLUME


def go_on(conn: Connection, server_id: str, name: str, now: datetime, **values: Any) -> None:
    """Make the next move of a booting server. Raises Cancelled if a deletion has changed it."""
    if not servers.try_move(conn, server_id, name, now, **values):
        raise Cancelled(f"server {server_id} cannot be {name} any more")


async def connect(ctx: Context) -> Memo | Wait:
    devices = await ctx.read(block_devices.of_server, ctx.resource_id)
    if not await made(ctx, devices):
        return Wait(poll=5.0)
    host = (await ctx.read(servers.get, ctx.resource_id)).host
    if host is None:
        raise Cancelled("the server has no host")
    await ctx.write(keep, ctx.resource_id, host, ctx.now)
    connections = {}
    for device in devices:
        connections[device.id] = dict(await ctx.drivers.volume.connect(device.volume_id, host))
    await ctx.commit(connected, ctx.resource_id, host, connections, ctx.now)
    return None


async def made(ctx: Context, devices: Iterable[BlockDevice]) -> bool:
    """Whether all volumes made for the server exist by now. Raises CloudError if one could not be made."""
    missing = [device for device in devices if device.attachment_id is None]
    states = [await ctx.child(child_key(device), CREATE_VOLUME, device.volume_id) for device in missing]
    for device, state in zip(missing, states, strict=True):
        if state not in (*OPEN, DONE):
            why = await ctx.child_error(child_key(device))
            raise CloudError(f"Volume {device.volume_id} did not finish being created: {why or state}")
    return all(state == DONE for state in states)


def child_key(device: BlockDevice) -> str:
    return f"volume {device.id}"


def keep(conn: Connection, server_id: str, host: str, now: datetime) -> None:
    """Reserve the volumes that were made, and record that the host is about to use all of them. Raises Conflict."""
    for device in block_devices.of_server(conn, server_id):
        attachment_id = attachments.reserve(
            conn,
            device.volume_id,
            server_id,
            project_id=None,
            now=now,
            device=device.device_name,
            # The device's own id: a repeat finds the same attachment.
            attachment_id=device.attachment_id or device.id,
        )
        attachments.connect(conn, attachment_id, host, now, device.device_name)
        if device.attachment_id is None:
            block_devices.change(conn, device, {"attachment_id": attachment_id})


def connected(conn: Connection, server_id: str, host: str, connections: dict[str, Any], now: datetime) -> None:
    """Raises Cancelled."""
    for device in block_devices.of_server(conn, server_id):
        info = connections[device.id]
        assert device.attachment_id is not None, "`keep` has seen to it"
        attachments.complete(conn, device.attachment_id, info, host, now, device.device_name)
    go_on(conn, server_id, "connected", now)


async def disconnect(ctx: Context) -> Wait | None:
    """Take them from the host; they stay the server's. The making of those that must not outlive it is cancelled."""
    devices = await ctx.read(block_devices.of_server, ctx.resource_id)
    for device in devices:
        doomed = device.attachment_id is None and device.delete_on_termination
        if doomed and await ctx.cancel_child(child_key(device)) in OPEN:
            return Wait(poll=1.0)
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is None or server.host is None:
        return None
    for device in devices:
        if device.attachment_id is None:
            continue
        used = await ctx.read(attachments.host_is_used, device.volume_id, server.host, device.attachment_id)
        if not used:
            await ctx.drivers.volume.disconnect(device.volume_id, server.host)
    await ctx.write(keep_for_another_host, ctx.resource_id, ctx.now)
    return None


def keep_for_another_host(conn: Connection, server_id: str, now: datetime) -> None:
    for _, attachment in guests.volumes_of(conn, server_id):
        attachments.leave_host(conn, attachment.id, now)


# -- servers that move


async def join(ctx: Context, host: str) -> None:
    """Let the host use the server's volumes. May be repeated. Raises Conflict, and the driver's errors."""
    await ctx.write(_joining, ctx.resource_id, host, ctx.now)
    for device, attachment in await ctx.read(guests.volumes_of, ctx.resource_id):
        info = dict(await ctx.drivers.volume.connect(device.volume_id, host))
        await ctx.write(_joined, attachment.id, device.device_name, info, host, ctx.now)


def _joining(conn: Connection, server_id: str, host: str, now: datetime) -> None:
    for device, attachment in guests.volumes_of(conn, server_id):
        if attachment.status in (attachments.RESERVED, attachments.ATTACHING):
            attachments.connect(conn, attachment.id, host, now, device.device_name)


def _joined(
    conn: Connection, attachment_id: str, name: str | None, info: dict[str, Any], host: str, now: datetime
) -> None:
    # An administrator may have declared the volume detached meanwhile.
    with suppress(NotFound):
        attachments.complete(conn, attachment_id, info, host, now, name)


async def leave(ctx: Context, host: str) -> None:
    """Take the server's volumes from the host; they stay the server's. May be repeated."""
    for device, attachment in await ctx.read(guests.volumes_of, ctx.resource_id):
        if attachment.host != host:
            continue
        if not await ctx.read(attachments.host_is_used, device.volume_id, host, attachment.id):
            await ctx.drivers.volume.disconnect(device.volume_id, host)
        await ctx.write(attachments.leave_host, attachment.id, ctx.now)
