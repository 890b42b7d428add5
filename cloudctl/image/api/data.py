"""The data of images: upload, staging, download."""

from __future__ import annotations

import re
from functools import partial

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Conflict, Forbidden, Invalid, RangeNotSatisfiable, Unavailable, UnsupportedMediaType
from cloudctl.image import cache
from cloudctl.image import images as domain
from cloudctl.image.api.stores import named_store, offers
from cloudctl.image.data import ImageData
from cloudctl.image.images import SAVING, UPLOADING
from cloudctl.image.looking import Looking
from cloudctl.image.tables import Image
from cloudctl.image.uploads import Intake
from cloudctl.rest.call import Call, Download, Reply
from cloudctl.rest.outgoing import FetchError
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

DATA_TYPE = "application/octet-stream"
SIZE_HEADERS = ("x-openstack-image-size", "x-image-meta-size")

ONE_RANGE = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})", re.ASCII)
# The older form, as a request header Content-Range.
OLD_RANGE = re.compile(r"bytes\s+(\d{1,19})-(\d{1,19})/(?:\*|\d{1,19})", re.ASCII)


def byte_range(text: str, form: re.Pattern[str], size: int) -> tuple[int, int]:
    """(offset, length) of the one range that a header requests. Raises RangeNotSatisfiable."""
    wrong = RangeNotSatisfiable(
        f"The range is not one within the {size} bytes of the data.", headers={"Content-Range": f"bytes */{size}"}
    )
    match = form.fullmatch(text.strip())
    if match is None or match.groups() == ("", ""):
        raise wrong
    first, last = match.groups()
    if first == "":
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(int(last) + 1, size) if last else size
    if start >= stop:
        raise wrong
    return start, stop - start


def announced_size(call: Call) -> int | None:
    """The size that the client says its data has. Raises Invalid."""
    for name in SIZE_HEADERS:
        value = call.header(name)
        if value is not None:
            if re.fullmatch(r"\d{1,19}", value.strip(), re.ASCII) is None:
                raise Invalid(f"The header {name} is not a number of bytes.")
            return int(value)
    return None


def known_size(call: Call) -> int:
    """Bytes to expect, as far as the headers say. Raises Invalid."""
    length = call.header("content-length") or "0"
    return max(announced_size(call) or 0, int(length) if length.isdecimal() else 0)


def check_upload(call: Call) -> None:
    """Raises UnsupportedMediaType."""
    media = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media != DATA_TYPE:
        raise UnsupportedMediaType(f"The content type {media[:64]!r} is not supported; use {DATA_TYPE}.")


@frozen
class Data:
    routes = Routes("Image data")

    db: Database
    looking: Looking
    intake: Intake

    @property
    def data(self) -> ImageData:
        return self.looking.data

    @routes.put("/images/<image_id>/file", policy="image:images:upload", raw=True, status=204, admits="may_upload")
    async def upload(self, call: Call, image_id: str) -> Reply:
        """Upload the data of an image."""
        check_upload(call)
        store = named_store(call, self.data.stores)
        await self.intake.save(call.caller, image_id, call.content, announced_size(call), store)
        return Reply(None, headers=offers(self.data.stores))

    @routes.put("/images/<image_id>/stage", policy="image:images:stage", raw=True, status=204, admits="may_stage")
    async def stage(self, call: Call, image_id: str) -> Reply:
        """Upload data for a later import."""
        check_upload(call)
        await self.intake.stage(call.caller, image_id, call.content, announced_size(call))
        return Reply(None, headers=offers(self.data.stores))

    async def may_upload(self, call: Call, image_id: str) -> Admitted:
        check_upload(call)
        named_store(call, self.data.stores)
        return await self.intake.admit(call.caller, image_id, known_size(call), SAVING)

    async def may_stage(self, call: Call, image_id: str) -> Admitted:
        check_upload(call)
        return await self.intake.admit(call.caller, image_id, known_size(call), UPLOADING)

    @routes.get("/images/<image_id>/file", policy="image:images:download")
    async def download(self, call: Call, image_id: str) -> Reply:
        """Download the data of an image, or one range of it."""
        image = await self.db.read(domain.visible, call.caller, image_id)
        if image.status == domain.DEACTIVATED and not call.may("image:images:download_deactivated"):
            raise Forbidden(f"The image {image.id} is deactivated; its data cannot be read.")
        if image.locations:
            image = await self._looked_at(image)
        size = image.size
        if image.status not in domain.STORED or size is None:
            return Reply(None, 204)
        path = await self.data.run(self.data.stores.fetch, image.id)
        if not await self.data.run(path.exists):
            if size == 0:
                # It consists of properties only: the image of a server whose disks are volumes.
                return Reply(None, 204)
            # Deleted since the record was read, or lost: either way it cannot be read.
            raise Unavailable(f"The data of the image {image.id} cannot be read now.")
        if self.data.stores.cache is not None and await self.db.read(cache.is_cached, image.id):
            await self.db.run(cache.was_read, image.id, call.now)
        opened = partial(self.data.stores.open_near, image.id)
        headers = [("Content-Type", DATA_TYPE), ("Accept-Ranges", "bytes")]
        for name, form in (("range", ONE_RANGE), ("content-range", OLD_RANGE)):
            text = call.header(name)
            if text is not None:
                offset, length = byte_range(text, form, size)
                headers.append(("Content-Range", f"bytes {offset}-{offset + length - 1}/{size}"))
                return Reply(Download(opened, offset, length), 206, tuple(headers))
        if image.checksum is not None:
            headers.append(("Content-MD5", image.checksum))
        return Reply(Download(opened, 0, size), 200, tuple(headers))

    async def _looked_at(self, image: Image) -> Image:
        """The image, once its data is here. Raises Unavailable, and Conflict for data that is not the image's."""
        try:
            await self.looking.look(image.id)
        except (FetchError, OSError) as error:
            raise Unavailable(f"The data of the image {image.id} cannot be read now: {error}") from error
        except (Invalid, UnsupportedMediaType) as error:
            raise Conflict(f"What is at the address of image {image.id} is not its data: {error}") from error
        return await self.db.read(domain.get, image.id)
