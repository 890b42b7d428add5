"""Activate: data that a driver wrote to the store (a snapshot, a volume's content) becomes the image's."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Gone
from cloudctl.image import images as domain
from cloudctl.image import kinds
from cloudctl.image.data import ImageData, Measured
from cloudctl.image.images import SAVING
from cloudctl.image.quotas import QUOTAS, mebibytes
from cloudctl.image.store import ImageStore
from cloudctl.image.tables import Image
from cloudctl.rest import quota
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Task


def activation(db: Database, data: ImageData) -> Workflow:
    """A child for tasks that made an image with `images.create(…, status=SAVING)`."""

    async def keep(ctx: Context) -> None:
        image = await ctx.read(domain.get, ctx.resource_id)
        if image.status != SAVING:
            raise Conflict(f"The image {image.id} is {image.status}, not {SAVING}.")
        try:
            path = await data.run(data.store.fetch, image.id, settled=False)
            measured = await data.measure(path, image.disk_format or "raw", image.container_format or "bare")
        except FileNotFoundError:
            raise Gone(f"The image {image.id} has no data to keep.") from None
        except OSError as error:
            raise Transient(f"the data cannot be read: {error}") from error
        await data.changed(ImageStore.remove, data.store.staged(image.id))
        await ctx.commit(_active, image, measured, ctx.now)

    async def drop(ctx: Context) -> None:
        await data.forget(ctx.resource_id)

    def failed(conn: Connection, task: Task, why: str, now: datetime) -> None:
        domain.try_move(conn, task.resource_id, "save failed", now)

    return Workflow(kinds.ACTIVATE_IMAGE, (Step("keep", keep, undo=drop),), on_failure=failed)


def _active(conn: Connection, image: Image, measured: Measured, now: datetime) -> None:
    """Raises OverQuota, Gone."""
    # How much there is was not known before.
    quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": mebibytes(measured.size)})
    if not domain.activate(conn, image.id, "saved", measured, now):
        raise Gone(f"The image {image.id} was deleted.")
