"""The course of an upload: a body that has arrived → checked data in its place, and the image active.

The file is held (see `store`) from before the record shows the upload until it shows how that ended, so a record whose
upload died with its process is recognized by a file that nobody holds. Reference: image.md, sections 7 and 9.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import IO

from attrs import frozen
from sqlalchemy import select
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Gone, Invalid, TooLarge, Unavailable
from cloudctl.image import images as domain
from cloudctl.image import properties, signatures
from cloudctl.image.data import ImageData
from cloudctl.image.images import QUEUED, SAVING, UPLOADING
from cloudctl.image.quotas import MIB, QUOTAS, begun, begun_count, mebibytes
from cloudctl.image.store import ImageStore, held
from cloudctl.image.tables import Image
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.finishing import finished
from cloudctl.rest.quota import UNLIMITED
from cloudctl.rest.uploads import Admitted, Uploads

log = Logger()

RULES = {SAVING: "image:images:upload", UPLOADING: "image:images:stage"}
TOTALS = {SAVING: "image_size_total", UPLOADING: "image_stage_total"}
COUNT = "image_count_uploading"
# The moves that lead there; `… failed` leads back.
BEGINS = {SAVING: "save", UPLOADING: "stage"}

Work = Callable[[Caller, str, str, int | None], Awaitable[None]]


def begin(conn: Connection, caller: Caller, image_id: str, upload_id: str, size: int, status: str) -> Image:
    """The image is in `status` (SAVING or UPLOADING) from now on. Raises NotFound, Forbidden, Conflict, OverQuota."""
    image = domain.own(conn, caller, image_id, RULES[status])
    quota.take(conn, QUOTAS, image.owner or "", _wanted(conn, image, size, status))
    if not domain.try_move(conn, image.id, BEGINS[status], caller.now, upload_id=upload_id, staged_size=size):
        raise Conflict(f"The image {image.id} is not queued any more.")
    return image


def check(
    conn: Connection, caller: Caller, image_id: str, size: int, status: str, under_way: Callable[[str], int]
) -> Admitted:
    """Whether `begin` would succeed, beside the uploads of the image's project that are `under_way`. Changes nothing.

    Raises what `begin` raises.
    """
    image = domain.visible(conn, caller, image_id)
    owner = image.owner or ""
    caller.require(RULES[status], project_id=owner)
    wanted = _wanted(conn, image, size, status)
    limits = quota.check(conn, QUOTAS, owner, wanted)
    # Those that have begun are counted already, and flow until they are answered.
    if limits[COUNT] != UNLIMITED and (flowing := under_way(owner) - begun_count(conn, owner)) > 0:
        quota.check(conn, QUOTAS, owner, {COUNT: wanted[COUNT] + flowing})
    total = TOTALS[status]
    if limits[total] == UNLIMITED:
        return Admitted(owner, total)
    used = quota.used(conn, QUOTAS, total, owner)
    room = max(0, limits[total] - used) * MIB
    # These, too, must not be held against it twice.
    most = room + begun(conn, owner, status)
    return Admitted(owner, total, most, QUOTAS.told(total, mebibytes(room) + 1, used, limits[total]))


def _wanted(conn: Connection, image: Image, size: int, status: str) -> dict[str, int]:
    """What an upload takes of the quota. Raises Conflict, Invalid if the image takes no data now."""
    if image.status != QUEUED:
        raise Conflict(f"The image {image.id} is {image.status}; data can be uploaded while it is queued.")
    signatures.refuse(properties.of(conn, [image.id])[image.id])
    if status == SAVING:
        domain.formats(image)
    return {TOTALS[status]: mebibytes(size), COUNT: 1}


def end_staging(conn: Connection, image_id: str, upload_id: str, now: datetime) -> bool:
    """The staged data is in its place; False if the image is gone."""
    row = under_way(conn, image_id, upload_id, lock=True)
    if row is not None:
        domain.change(conn, row, {"upload_id": None}, now)
    return row is not None


def abandon(conn: Connection, image_id: str, upload_id: str, now: datetime) -> bool:
    """Back to queued, without data; False if the upload has ended already, or the image is gone."""
    row = under_way(conn, image_id, upload_id, lock=True)
    if row is None:
        return False
    return domain.try_move(conn, image_id, f"{BEGINS[row.status]} failed", now, upload_id=None, staged_size=None)


def under_way(conn: Connection, image_id: str, upload_id: str, *, lock: bool = False) -> Image | None:
    """The image, while this upload has not ended."""
    query = select(Image).where(Image.id == image_id, Image.upload_id == upload_id)
    return conn.execute(query.with_for_update() if lock else query).first()


@frozen
class Intake:
    """Takes the bodies of requests into the store."""

    db: Database
    data: ImageData
    max_size: int  # bytes
    uploads: Uploads

    async def admit(self, caller: Caller, image_id: str, size: int, status: str) -> Admitted:
        """Whether data of `size` bytes (0: not known yet) may be sent for `status`, SAVING or UPLOADING.

        Raises NotFound, Forbidden, Conflict, Invalid, OverQuota, TooLarge.
        """
        self._check_size(size)
        return await self.db.read(check, caller, image_id, size, status, self.uploads.under_way)

    async def save(
        self, caller: Caller, image_id: str, content: IO[bytes], expected: int | None, store: ImageStore
    ) -> None:
        """`content` becomes the image's data, in `store`. `expected`: its size as the client announced it.

        Raises NotFound, Forbidden, Conflict, Invalid, OverQuota, TooLarge, UnsupportedMediaType, Gone, Unavailable.
        """
        upload_id = await self._take(content)
        await finished(self._run(partial(self._save, store), caller, image_id, upload_id, expected))

    async def stage(self, caller: Caller, image_id: str, content: IO[bytes], expected: int | None) -> None:
        """`content` waits for an import. Raises as `save`."""
        upload_id = await self._take(content)
        await finished(self._run(self._stage, caller, image_id, upload_id, expected))

    async def _take(self, content: IO[bytes]) -> str:
        """Take over the body: afterwards nothing depends on the request any more. Returns the upload's id."""
        upload_id = new_id()
        try:
            if not self.data.store.take(content, upload_id):
                await self.data.changed(ImageStore.copy, content, upload_id)
        except Exception as error:  # also CancelledError: the client has hung up
            await self.data.changed(ImageStore.remove, self.data.store.incoming(upload_id))
            if isinstance(error, OSError):
                raise unwritable(error) from error
            raise
        return upload_id

    async def _run(self, work: Work, caller: Caller, image_id: str, upload_id: str, expected: int | None) -> None:
        path = self.data.store.incoming(upload_id)
        try:
            try:
                with held(path):
                    await work(caller, image_id, upload_id, expected)
            finally:
                await self.data.changed(ImageStore.remove, path)
        except OSError as error:
            raise unwritable(error) from error

    def _size(self, upload_id: str, expected: int | None) -> int:
        size = self.data.store.incoming(upload_id).stat().st_size
        self._check_size(size)
        if expected is not None and size != expected:
            raise Invalid(f"The data has {size} bytes; {expected} were announced.")
        return size

    def _check_size(self, size: int) -> None:
        if size > self.max_size:
            raise TooLarge(f"The data has {size} bytes; an image has at most {self.max_size}.")

    async def _save(
        self, store: ImageStore, caller: Caller, image_id: str, upload_id: str, expected: int | None
    ) -> None:
        size = self._size(upload_id, expected)
        image = await self.db.run(begin, caller, image_id, upload_id, size, SAVING)
        source = self.data.store.incoming(upload_id)
        try:
            measured = await self.data.measure(source, *domain.formats(image))
            await self.data.run(store.receive, source, image.id)
            same = Image.upload_id == upload_id
            kept = await self.db.run(domain.activate, image.id, "saved", measured, caller.now, same, stores=(store.id,))
        except Exception:  # also CancelledError: the client has hung up
            await self._abandon(image.id, upload_id, caller.now, store.drop)
            raise
        await self._unless_gone(kept, image.id)

    async def _stage(self, caller: Caller, image_id: str, upload_id: str, expected: int | None) -> None:
        size = self._size(upload_id, expected)
        image = await self.db.run(begin, caller, image_id, upload_id, size, UPLOADING)
        store = self.data.store
        try:
            await self.data.run(store.stage, store.incoming(upload_id), image.id)
            kept = await self.db.run(end_staging, image.id, upload_id, caller.now)
        except Exception:  # also CancelledError: the client has hung up
            await self._abandon(image.id, upload_id, caller.now, store.drop_staged)
            raise
        await self._unless_gone(kept, image.id)

    async def _abandon(self, image_id: str, upload_id: str, now: datetime, drop: Callable[[str], None]) -> None:
        """The data goes first: once the image is queued, what has its name may be that of another upload."""
        if await self.db.read(under_way, image_id, upload_id) is None:
            return
        try:
            await self.data.run(drop, image_id)
        finally:
            await self.db.run(abandon, image_id, upload_id, now)

    async def _unless_gone(self, kept: bool, image_id: str) -> None:
        if not kept:
            # The task that removes the data of a deleted image may have run before the data was in its place.
            await self.data.forget(image_id)
            raise Gone(f"The image {image_id} was deleted while its data was uploaded.")


def unwritable(error: OSError) -> Unavailable:
    log.error("the image store cannot be written: {error}", error=str(error))
    return Unavailable("The image store cannot be written now.")
