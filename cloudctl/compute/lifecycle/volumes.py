"""Attaching volumes to an existing guest, and detaching them. Reference: compute.md, section 8.4.

`args`: `device_id`, the row of `block_devices`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import select

from cloudctl.compute import block_devices, guests, kinds, servers
from cloudctl.compute.lifecycle import evacuate
from cloudctl.compute.tables import BlockDevice
from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task
from cloudctl.volume import attachments


@frozen
class Use:
    """A volume of a server, and the host where it is used."""

    device: BlockDevice
    attachment_id: str
    host: str | None
    shared: bool  # somebody else needs the host's connection
    mode: str | None  # rw, ro


def find(conn: Connection, device_id: str) -> BlockDevice | None:
    return conn.execute(select(BlockDevice).where(BlockDevice.id == device_id)).first()


def use(conn: Connection, server_id: str, device_id: str) -> Use | None:
    """None once the volume is no longer the server's."""
    device, server = find(conn, device_id), servers.find(conn, server_id)
    if device is None or device.attachment_id is None or server is None:
        return None
    attachment = attachments.find(conn, device.attachment_id)
    host = server.host if attachment is None else attachment.host or server.host
    shared = host is not None and attachments.host_is_used(conn, device.volume_id, host, device.attachment_id)
    return Use(device, device.attachment_id, host, shared, None if attachment is None else attachment.mode)


# -- attach


async def attach(ctx: Context) -> Memo:
    found = await ctx.read(use, ctx.resource_id, ctx.args["device_id"])
    if found is None:
        raise Cancelled("the volume is no longer the server's")
    device, host = found.device, found.host
    if host is None:
        # A shelved server: the volume is its own, and is connected once there is a host.
        await ctx.commit(attached, device.id, found.attachment_id, None, None, ctx.now)
        return None
    await ctx.write(attachments.connect, found.attachment_id, host, ctx.now, device.device_name)
    info = dict(await ctx.drivers.volume.connect(device.volume_id, host))
    connection = guests.connection(device, info, found.mode)
    await ctx.drivers.hypervisor.ensure_volume_attached(ctx.resource_id, connection)
    await ctx.commit(attached, device.id, found.attachment_id, info, host, ctx.now)
    return None


def attached(
    conn: Connection, device_id: str, attachment_id: str, info: dict[str, Any] | None, host: str | None, now: datetime
) -> None:
    device = find(conn, device_id)
    if device is None:
        raise Cancelled("the volume is no longer the server's")
    attachments.complete(conn, attachment_id, info, host, now, device.device_name)
    block_devices.change(conn, device, {"attached": True})


async def let_go(ctx: Context) -> None:
    """Remove the volume from the guest and its host, and then its record."""
    found = await ctx.read(use, ctx.resource_id, ctx.args["device_id"])
    if found is None:
        return
    async with evacuate.sparing_dead_hosts(ctx):
        await ctx.drivers.hypervisor.ensure_volume_detached(ctx.resource_id, found.device.volume_id)
    if found.host is not None and not found.shared:
        await ctx.drivers.volume.disconnect(found.device.volume_id, found.host)
    await ctx.commit(detached, found.device.id, found.attachment_id, ctx.now)


def detached(conn: Connection, device_id: str, attachment_id: str, now: datetime) -> None:
    device = find(conn, device_id)
    if device is not None:
        attachments.finish_detach(conn, attachment_id, now)
        block_devices.remove(conn, device)


def attach_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server continues without the volume; what failed is in its actions, and in a fault for administrators."""
    servers.fail(conn, task.resource_id, "fault", error, now)


# -- detach


async def detach(ctx: Context) -> Memo:
    await let_go(ctx)
    return None


def detach_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The guest still has the volume: it is in use again."""
    roll_back(conn, task, now)
    servers.fail(conn, task.resource_id, "fault", error, now)


def roll_back(conn: Connection, task: Task, now: datetime) -> None:
    device = find(conn, task.args["device_id"])
    if device is not None and device.attachment_id is not None:
        attachments.roll_detach(conn, device.attachment_id, now)


ATTACH = Workflow(
    kinds.ATTACH_VOLUME,
    (Step("attach", attach, let_go),),
    on_failure=attach_failed,
)

DETACH = Workflow(
    kinds.DETACH_VOLUME,
    (Step("detach", detach, attempts=20),),
    on_failure=detach_failed,
    on_cancel=roll_back,
)
