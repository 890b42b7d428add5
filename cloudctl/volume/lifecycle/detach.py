"""Detach: the host of an attachment cannot use the volume any more, then its record goes. volume-states.md, section 7.

`args`: `attachment_id`, `host`. The record is `detaching` until then, so nobody reconnects the host meanwhile.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages


async def disconnect(ctx: Context) -> Memo:
    host = ctx.args["host"]
    if not await ctx.read(is_needed, ctx.args["attachment_id"], host):
        await ctx.drivers.volume.disconnect(ctx.resource_id, host)
    return None


def is_needed(conn: Connection, attachment_id: str, host: str) -> bool:
    """Whether the host must stay connected. Also true without the record: nothing then protects a new connection."""
    attachment = attachments.find(conn, attachment_id)
    return attachment is None or attachments.host_is_used(conn, attachment.volume_id, host, but=attachment_id)


def finish(conn: Connection, task: Task, now: datetime) -> None:
    attachments.finish_detach(conn, task.args["attachment_id"], now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    attachment = attachments.find(conn, task.args["attachment_id"])
    if attachment is not None:
        attachments.fail(conn, attachment.id, now, attachments.ERROR_DETACHING)
        messages.record(conn, messages.DETACH_FAILED, attachment.project_id, task.request_id, task.resource_id, now)


DETACH = Workflow(
    kinds.DETACH_VOLUME,
    (
        Step("disconnect", disconnect),
        Step("finish", Transaction(finish)),
    ),
    on_failure=failed,
)
