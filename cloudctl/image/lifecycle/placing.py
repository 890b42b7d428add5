"""Putting data into several stores, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from cloudctl.image.data import ImageData
from cloudctl.tasks import Context, Transient


@frozen
class Placed:
    """Ids of the stores that have the data now, and of those that cannot be written."""

    there: Sequence[str]
    failed: Sequence[str]


async def ensure_placed(ctx: Context, data: ImageData, source: Path, *, anew: bool = False) -> Placed:
    """Put the data of the task's image, the file `source`, into the stores that the task names.

    `anew`: what is there already is not taken for it, since an upload that died may have left it.
    Raises Transient if one of them cannot be written and all must be; or if none can.
    """
    there, failed, trouble = [], [], ""
    # The store where it arrived comes last: there the file is renamed.
    wanted = ctx.args.get("stores", (data.store.id,))  # an older task does not say
    for store_id in sorted(wanted, key=lambda store_id: store_id == data.store.id):
        store = data.stores[store_id]
        try:
            if anew or not await data.run(store.has, ctx.resource_id):
                await data.run(store.receive, source, ctx.resource_id)
            there.append(store_id)
        except OSError as error:
            trouble = f"the image store {store_id} does not work: {error}"
            if ctx.args.get("all_must", True):
                raise Transient(trouble) from error
            failed.append(store_id)
    if not there and failed:
        raise Transient(trouble)
    return Placed(data.stores.ordered(there), data.stores.ordered(failed))
