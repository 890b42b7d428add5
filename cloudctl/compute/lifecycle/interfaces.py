"""Attaching interfaces to an existing guest, and detaching them. Reference: compute.md, section 8.5.

`args`: `port_id`.
"""

from __future__ import annotations

from datetime import datetime

from twisted.logger import Logger

from cloudctl import tasks
from cloudctl.compute import kinds, networking, servers
from cloudctl.compute.lifecycle import evacuate
from cloudctl.compute.states import CAN_LOSE_PORTS
from cloudctl.db import Connection
from cloudctl.drivers.errors import DriverError
from cloudctl.network import plugging, ports
from cloudctl.tasks import Context, Origin, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task

log = Logger()


async def attach(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.host is None:
        raise Cancelled("the server is not on any host")
    port = await plugging.plug(ctx, ctx.args["port_id"], server.host)
    await ctx.drivers.hypervisor.ensure_port_attached(ctx.resource_id, port)
    return None


async def let_go(ctx: Context) -> None:
    """Remove the interface from the guest and its host, and then its record."""
    port_id = ctx.args["port_id"]
    async with evacuate.sparing_dead_hosts(ctx):
        await ctx.drivers.hypervisor.ensure_port_detached(ctx.resource_id, port_id)
    await plugging.unplug(ctx, port_id)
    await ctx.commit(gone, ctx.resource_id, port_id, ctx.now, ctx.task)


def gone(conn: Connection, server_id: str, port_id: str, now: datetime, by: Origin) -> None:
    row = networking.find(conn, server_id, port_id)
    if row is not None:
        networking.let_go(conn, row, now, by)


async def detach(ctx: Context) -> Memo:
    await let_go(ctx)
    return None


def lost(conn: Connection, task: Task, now: datetime) -> None:
    server_id = networking.holder(conn, task.resource_id)
    if server_id is not None:
        tasks.submit(conn, kinds.LOSE_PORT, server_id, task, args={"port_id": task.resource_id})


async def lose_port(ctx: Context) -> Memo:
    """The guest gives up a port that does not exist any more. If it cannot now, the audit will request it again."""
    port_id = ctx.args["port_id"]
    if await ctx.read(_may_lose, ctx.resource_id, port_id):
        try:
            await ctx.drivers.hypervisor.ensure_port_detached(ctx.resource_id, port_id)
        except DriverError as error:
            # The server's other work does not wait for that.
            log.info("server {id} keeps port {port} for now: {why}", id=ctx.resource_id, port=port_id, why=error)
            return None
        await ctx.commit(gone, ctx.resource_id, port_id, ctx.now, ctx.task)
    return None


def _may_lose(conn: Connection, server_id: str, port_id: str) -> bool:
    server = servers.find(conn, server_id)
    can = server is not None and server.host is not None and server.vm_state in CAN_LOSE_PORTS
    return can and networking.find(conn, server_id, port_id) is not None and ports.find(conn, port_id) is None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    servers.fail(conn, task.resource_id, "fault", error, now)


ATTACH = Workflow(
    kinds.ATTACH_INTERFACE,
    (Step("attach", attach, let_go),),
    on_failure=failed,
)

PORT_LOST = Workflow(kinds.PORT_LOST, (Step("tell", Transaction(lost)),))

LOSE_PORT = Workflow(kinds.LOSE_PORT, (Step("lose", lose_port),))

DETACH = Workflow(
    kinds.DETACH_INTERFACE,
    (Step("detach", detach, attempts=20),),
    on_failure=failed,
)
