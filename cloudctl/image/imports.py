"""Imports: staged data, or what is at an address → the image's data, in the background. Reference: image.md, section 9.

The engine's task does the work; a row of `image_tasks` shows it to users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, delete, insert, or_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Gone, Invalid
from cloudctl.image import images as domain
from cloudctl.image import kinds, properties, regions, signatures
from cloudctl.image.data import Hash, Measured
from cloudctl.image.images import ACTIVE, IMPORTING, QUEUED, STORED, UPLOADING, NewImage
from cloudctl.image.options import ImageOptions
from cloudctl.image.quotas import QUOTAS, mebibytes
from cloudctl.image.regions import Elsewhere
from cloudctl.image.store import DEFAULT, WEB
from cloudctl.image.stores import Stores
from cloudctl.image.tables import Image, ImageTask
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing, equals
from cloudctl.tasks import Kind, Origin

GLANCE_DIRECT, WEB_DOWNLOAD, COPY_IMAGE = "glance-direct", "web-download", "copy-image"
GLANCE_DOWNLOAD = "glance-download"


def methods(stores: Stores) -> tuple[str, ...]:
    """There is something to copy only where there are several stores."""
    return (GLANCE_DIRECT, WEB_DOWNLOAD, GLANCE_DOWNLOAD, *((COPY_IMAGE,) if len(stores.writable) > 1 else ()))


PENDING_TASK, PROCESSING, SUCCESS, FAILURE = "pending", "processing", "success", "failure"
# Types of tasks: of POST /images/{id}/import, of POST /images/{id}/locations, and of POST /tasks.
BY_METHOD, BY_LOCATION, BY_TASK = "api_image_import", "location_import", "import"

URI_LENGTH = 2048


@frozen
class Address:
    """Where a download comes from."""

    scheme: str
    host: str
    port: int


def address(uri: str, ports: tuple[int, ...]) -> Address:
    """Raises Invalid unless it is http or https, without credentials, to one of `ports`."""
    allowed = f"http or https to the ports {', '.join(map(str, ports))}"
    wrong = Invalid(f"The uri {uri[:128]!r} does not pass filtering, which lets through {allowed}.")
    if len(uri) > URI_LENGTH or not uri.isascii() or any(c.isspace() or not c.isprintable() for c in uri):
        raise wrong
    try:
        parts = urlsplit(uri)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or port not in ports:
        raise wrong
    return Address(parts.scheme, parts.hostname, port)


def check(uri: str, options: ImageOptions, permitted: Any) -> None:
    """Raises Invalid unless an import may fetch this; names are resolved, and checked again, when it does."""
    host = address(uri, options.import_ports).host
    try:
        literal = ip_address(host)
    except ValueError:
        literal = None
    if host == "localhost" or host.endswith(".localhost") or (literal is not None and not permitted(literal)):
        raise Invalid(f"The uri {uri[:128]!r} does not pass filtering: its host is not a public one.")


# -- beginning


@frozen
class NewImport:
    """What an import is to do. `told`: as the caller said it. `all_must`: it fails if one of the stores does."""

    method: str
    uri: str | None
    told: Mapping[str, Any]
    stores: Sequence[str] = (DEFAULT,)
    all_must: bool = True
    image: Elsewhere | None = None
    hash: Hash | None = None  # of the expected data


def start(conn: Connection, caller: Caller, image_id: str, wish: NewImport, options: ImageOptions) -> None:
    """Raises NotFound, Forbidden, Conflict, OverQuota."""
    image = domain.own(conn, caller, image_id, "image:images:import")
    method = wish.method
    if method == COPY_IMAGE:
        start_copy(conn, caller, image, wish, options)
        return
    before = UPLOADING if method == GLANCE_DIRECT else QUEUED
    if image.status != before or image.upload_id is not None:
        raise Conflict(f"The image {image.id} is {image.status}; {method} imports an image that is {before}.")
    if wish.image is None and not (image.disk_format and image.container_format):
        raise Conflict("'disk_format' and 'container_format' must be set before an image is imported.")
    signatures.refuse(properties.of(conn, [image.id])[image.id])
    wanted = {"image_size_total": mebibytes(image.staged_size or 0), "image_count_uploading": 0}
    if before == QUEUED:
        wanted["image_count_uploading"] = 1
    quota.take(conn, QUOTAS, image.owner or "", wanted)
    name = "import" if before == QUEUED else "import staged"
    if not domain.try_move(conn, image.id, name, caller.now, **_under_way(wish.stores)):
        raise Conflict(f"The image {image.id} is not {before} any more.")
    _submit(conn, kinds.IMPORT_IMAGE, caller, BY_METHOD, image, _told(image, wish), wish, options)


def add_location(
    conn: Connection, caller: Caller, image_id: str, url: str, expected: Hash | None, options: ImageOptions
) -> None:
    """The data of the image is at this address. Raises NotFound, Forbidden, Invalid, Conflict, OverQuota."""
    image = domain.own(conn, caller, image_id, "image:locations:add")
    if image.status != QUEUED:
        raise Conflict(f"The image {image.id} is {image.status}; a location can be added while it is queued.")
    domain.formats(image)
    signatures.refuse(properties.of(conn, [image.id])[image.id])
    quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": 0, "image_count_uploading": 1})
    if not domain.try_move(conn, image.id, "import", caller.now, address=url, **_under_way((WEB,))):
        raise Conflict(f"The image {image.id} is not {QUEUED} any more.")
    told: dict[str, Any] = {"image_id": image.id, "loc_url": url}
    if expected is not None:
        told["validation_data"] = {"os_hash_algo": expected.algorithm, "os_hash_value": expected.value}
    wish = NewImport(BY_LOCATION, url, told, (WEB,), hash=expected)
    _submit(conn, kinds.IMPORT_IMAGE, caller, BY_LOCATION, image, told, wish, options)


def start_copy(conn: Connection, caller: Caller, image: Image, wish: NewImport, options: ImageOptions) -> None:
    """To the stores of the wish that do not have the data yet. Raises Forbidden, Conflict."""
    caller.require("image:images:copy", project_id=image.owner or "")
    if image.status != ACTIVE:
        raise Conflict(f"The image {image.id} is {image.status}; the data of an active image can be copied.")
    if tasks.has_open(conn, kinds.IMAGE, image.id):
        raise Conflict(f"The data of the image {image.id} is being copied or removed; wait for the end of it.")
    wanted = evolve(wish, stores=[store for store in wish.stores if store not in image.stores])
    domain.change(conn, image, _under_way(wanted.stores), caller.now)
    _submit(conn, kinds.COPY_IMAGE, caller, BY_METHOD, image, _told(image, wanted), wanted, options)


def _under_way(stores: Sequence[str]) -> dict[str, str]:
    return {"importing_to": ",".join(stores), "failed_import": ""}


def _told(image: Image, wish: NewImport) -> dict[str, Any]:
    return {"image_id": image.id, "import_req": dict(wish.told), "backend": list(wish.stores)}


def start_task(
    conn: Connection, caller: Caller, new: NewImage, told: Mapping[str, Any], uri: str, options: ImageOptions
) -> ImageTask:
    """Make an image and import it from an address; returns the row of `image_tasks`. Raises Conflict, OverQuota."""
    signatures.refuse(new.properties)
    domain.create(conn, new, caller.now)
    quota.take(conn, QUOTAS, new.owner or "", {"image_count_uploading": 1})
    domain.MACHINE.move(conn, new.id, "import", caller.now, **_under_way((DEFAULT,)))
    image, wish = domain.get(conn, new.id), NewImport(WEB_DOWNLOAD, uri, told)
    task_id = _submit(conn, kinds.IMPORT_IMAGE, caller, BY_TASK, image, told, wish, options)
    return get(conn, task_id)


def _submit(
    conn: Connection, kind: Kind, caller: Caller, type: str, image: Image, told: Mapping[str, Any], wish: NewImport,
    options: ImageOptions,
) -> str:  # fmt: skip
    conn.execute(delete(ImageTask).where(ImageTask.expires_at < caller.now))
    task_id = new_id()
    conn.execute(
        insert(ImageTask).values(
            id=task_id,
            type=type,
            status=PENDING_TASK,
            owner=image.owner,
            image_id=image.id,
            request_id=caller.request_id,
            user_id=caller.user_id,
            input=dict(told),
            created_at=caller.now,
            updated_at=caller.now,
        )
    )
    args: dict[str, Any] = {"task_id": task_id, "uri": wish.uri, "stores": list(wish.stores), "all_must": wish.all_must}
    if wish.hash is not None:
        args["hash"] = [wish.hash.algorithm, wish.hash.value]
    if wish.image is not None:
        args["image"] = {"id": wish.image.image_id, "refusal": regions.refusal(conn, caller, wish.image)}
    tasks.submit(conn, kind, image.id, caller, args=args, deadline=options.import_deadline)
    return task_id


# -- its end, for the workflow


def processing(conn: Connection, task_id: str, image_id: str, now: datetime) -> Image:
    """Work begins; returns the image. Raises Gone."""
    _tell(conn, task_id, now, status=PROCESSING)
    return importing(conn, image_id)


def importing(conn: Connection, image_id: str) -> Image:
    """The image while it is being imported. Raises Gone."""
    row = conn.execute(select(Image).where(Image.id == image_id, Image.status == IMPORTING)).first()
    if row is None:
        raise Gone(f"The image {image_id} is not being imported any more.")
    return row


def finish(
    conn: Connection, task_id: str, image: Image, measured: Measured, there: Sequence[str], failed: Sequence[str],
    now: datetime, kept: float, origin: domain.Image | None = None,
) -> None:  # fmt: skip
    """The data is in the stores `there`, that of `origin` if it is another image's. `kept`: seconds for which the
    record stays. Raises Gone, OverQuota.
    """
    if image.staged_size is None:
        quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": mebibytes(measured.size)})
    columns: dict[str, Any] = {**_over(failed)}
    if origin is not None:
        columns |= {"disk_format": origin.row.disk_format, "container_format": origin.row.container_format}
    if not domain.activate(conn, image.id, "imported", measured, now, stores=there, **columns):
        raise Gone(f"The image {image.id} is not being imported any more.")
    if origin is not None:
        properties.change(conn, image.id, regions.inherited(origin))
    _tell(conn, task_id, now, status=SUCCESS, result=image.id, expires_at=now + timedelta(seconds=kept))


def fail(conn: Connection, task_id: str, image_id: str, why: str, now: datetime, kept: float, by: Origin) -> None:
    """The image is queued again, without data; one that was made for this import is removed."""
    query = select(Image).where(Image.id == image_id, Image.status == IMPORTING)
    image = conn.execute(query.with_for_update()).first()
    if image is not None and not image.protected and get(conn, task_id).type == BY_TASK:
        domain.remove(conn, image, by)
    elif image is not None:
        stores = (image.importing_to or "").split(",")
        domain.try_move(conn, image_id, "import failed", now, staged_size=None, address=None, **_over(stores))
    _tell(conn, task_id, now, status=FAILURE, message=why, expires_at=now + timedelta(seconds=kept))


def _over(failed: Sequence[str]) -> dict[str, str]:
    return {"importing_to": "", "failed_import": ",".join(failed)}


def copying(conn: Connection, task_id: str, image_id: str, now: datetime) -> Image:
    """Work on a copy begins; returns the image. Raises Gone."""
    _tell(conn, task_id, now, status=PROCESSING)
    image = conn.execute(select(Image).where(Image.id == image_id, Image.status.in_(STORED))).first()
    if image is None:
        raise Gone(f"The image {image_id} has no data any more.")
    return image


def finish_copy(
    conn: Connection, task_id: str, image_id: str, stores: Sequence[str], failed: Sequence[str], now: datetime,
    kept: float,
) -> None:  # fmt: skip
    """The data is in all of `stores`. Raises NotFound if the image is gone."""
    image = domain.get(conn, image_id, lock=True)
    domain.change(conn, image, {"stores": list(stores), **_over(failed)}, now)
    _tell(conn, task_id, now, status=SUCCESS, result=image_id, expires_at=now + timedelta(seconds=kept))


def fail_copy(
    conn: Connection, task_id: str, image_id: str, stores: Sequence[str], why: str, now: datetime, kept: float
) -> None:
    """The data is where it was before."""
    image = conn.execute(select(Image).where(Image.id == image_id).with_for_update()).first()
    if image is not None:
        domain.change(conn, image, _over(stores), now)
    _tell(conn, task_id, now, status=FAILURE, message=why, expires_at=now + timedelta(seconds=kept))


def _tell(conn: Connection, task_id: str, now: datetime, **values: Any) -> None:
    conn.execute(update(ImageTask).where(ImageTask.id == task_id).values(updated_at=now, **values))


# -- reading

LISTING = Listing(
    ImageTask.table,
    sort_keys={name: ImageTask.table.c[name] for name in ("created_at", "updated_at", "id", "status", "type")},
    filters={"type": equals(ImageTask.type), "status": equals(ImageTask.status)},
)


RECORDS = ById(ImageTask, "No task found with ID {}")
get, not_found = RECORDS.get, RECORDS.not_found


def show(conn: Connection, task_id: str, now: datetime) -> ImageTask:
    """As `get`, unless the record has expired."""
    row = conn.execute(select(ImageTask).where(ImageTask.id == task_id, kept(now))).first()
    if row is None:
        raise not_found(task_id)
    return row


def kept(now: datetime) -> ColumnElement[bool]:
    """The records that have not expired."""
    return or_(ImageTask.expires_at.is_(None), ImageTask.expires_at >= now)


def of_image(conn: Connection, caller: Caller, image_id: str) -> list[ImageTask]:
    """The imports of an image of the caller's project, the newest first. Raises NotFound, Forbidden."""
    image = domain.visible(conn, caller, image_id)
    caller.require("image:images:tasks", project_id=image.owner or "")
    query = select(ImageTask).where(ImageTask.image_id == image.id, kept(caller.now))
    return list(conn.execute(query.order_by(ImageTask.created_at.desc(), ImageTask.id).limit(1000)))
