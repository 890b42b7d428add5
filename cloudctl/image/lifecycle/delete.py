"""Delete: the record is gone, and its data follows. Whatever was being done with the image has stopped already."""

from __future__ import annotations

from cloudctl.image import kinds
from cloudctl.image.data import ImageData
from cloudctl.tasks import Context, Step, Transient, Workflow

# With the longest back-off between them: most of a day.
ATTEMPTS = 1000


def deletion(data: ImageData) -> Workflow:
    async def ensure_absent(ctx: Context) -> None:
        try:
            await data.forget(ctx.resource_id)
        except OSError as error:
            raise Transient(f"the data cannot be removed: {error}") from error

    return Workflow(kinds.DELETE_IMAGE, (Step("data", ensure_absent, attempts=ATTEMPTS),))


def deletion_of_copy(data: ImageData) -> Workflow:
    """Of the data in one store; the record does not name that store any more."""

    async def ensure_absent(ctx: Context) -> None:
        try:
            await data.run(data.stores.remove_from, (ctx.args["store"],), ctx.resource_id)
        except OSError as error:
            raise Transient(f"the data cannot be removed: {error}") from error

    return Workflow(kinds.DELETE_COPY, (Step("data", ensure_absent, attempts=ATTEMPTS),))
