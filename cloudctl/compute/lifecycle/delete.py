"""Delete: at the end nothing that the server had is left, wherever a boot or anything else stopped.

A host that is down keeps its copy of the guest until it returns; the audit then has it removed.
Reference: compute-states.md, section 4.2.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cloudctl.compute import block_devices, deletion, guests, kinds
from cloudctl.compute.lifecycle import defining
from cloudctl.db import Connection
from cloudctl.network import plugging
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments


async def remove(ctx: Context) -> Memo:
    """One step, because everything in it is an ensure and each boundary between steps costs a transaction."""
    # The ports of one that is left behind are removed by tasks of their own, which try for longer.
    all_left = await defining.undefine(ctx)
    port_ids, devices = await ctx.write(leaving, ctx.resource_id, ctx.now)
    for port_id in port_ids:
        await ctx.drivers.network.ensure_port_absent(port_id, None)
    for volume_id, host in devices:
        await ctx.drivers.volume.disconnect(volume_id, host)
    await ctx.commit(deletion.finish, ctx.resource_id, ctx.now, ctx.task, ports_have_left=all_left)
    return None


def leaving(conn: Connection, server_id: str, now: datetime) -> tuple[list[str], list[tuple[str, str]]]:
    """The ids of the server's ports, and (volume, host) of the connections that nobody else needs."""
    found: list[tuple[str, str]] = []
    devices = block_devices.of_server(conn, server_id)
    if devices:
        mine: dict[str, Any] = {row.id: row for row in attachments.of_server(conn, [server_id]).get(server_id, [])}
        for device in devices:
            attachment = mine.get(device.attachment_id or "")
            if attachment is None or attachment.host is None:
                continue
            if not attachments.host_is_used(conn, device.volume_id, attachment.host, attachment.id):
                found.append((device.volume_id, attachment.host))
    port_ids = list(guests.plugged(conn, server_id))
    if port_ids:
        plugging.leaving(conn, port_ids, now)
    return port_ids, found


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    deletion.failed(conn, task.resource_id, error, now)


DELETE, FORCE_DELETE = (
    Workflow(kind, (Step("remove", remove, aliases=("guest", "release")),), on_failure=failed)
    for kind in (kinds.DELETE, kinds.FORCE_DELETE)
)
