"""Imports: staged data, or what an address gives → the image's data, in the background. Reference: image.md, section 9.

The engine's task does the work; a row of `image_tasks` tells users of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from sqlalchemy import ColumnElement, delete, insert, or_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Gone, Invalid, NotFound
from cloudctl.image import images as domain
from cloudctl.image import kinds
from cloudctl.image.data import Measured
from cloudctl.image.images import IMPORTING, QUEUED, UPLOADING, NewImage
from cloudctl.image.options import ImageOptions
from cloudctl.image.quotas import QUOTAS, mebibytes
from cloudctl.image.tables import Image, ImageTask
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing, equals
from cloudctl.tasks import Origin

GLANCE_DIRECT, WEB_DOWNLOAD = "glance-direct", "web-download"
METHODS = (GLANCE_DIRECT, WEB_DOWNLOAD)
STORE = "default"

PENDING_TASK, PROCESSING, SUCCESS, FAILURE = "pending", "processing", "success", "failure"
BY_METHOD, BY_TASK = "api_image_import", "import"  # types: POST /images/{id}/import, and POST /tasks

URI_LENGTH = 2048


@frozen
class Address:
    """Where a download comes from."""

    scheme: str
    host: str
    port: int


def address(uri: str, ports: tuple[int, ...]) -> Address:
    """Raises Invalid unless it is http or https, without credentials, to one of `ports`."""
    wrong = Invalid(f"The uri {uri[:128]!r} is not allowed: http or https to the ports {', '.join(map(str, ports))}.")
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
    """That an import may fetch this; names are resolved, and looked at again, when it does. Raises Invalid."""
    host = address(uri, options.import_ports).host
    try:
        literal = ip_address(host)
    except ValueError:
        literal = None
    if host == "localhost" or host.endswith(".localhost") or (literal is not None and not permitted(literal)):
        raise Invalid(f"The uri {uri[:128]!r} is not allowed: its host is not a public one.")


# -- beginning


def start(conn: Connection, caller: Caller, image_id: str, wish: Mapping[str, Any], options: ImageOptions) -> None:
    """Import by `wish["method"]`. Raises NotFound, Forbidden, Conflict, OverQuota."""
    image = domain.own(conn, caller, image_id, "image:images:import")
    method = wish["method"]["name"]
    before = UPLOADING if method == GLANCE_DIRECT else QUEUED
    if image.status != before or image.upload_id is not None:
        raise Conflict(f"The image {image.id} is {image.status}; {method} imports an image that is {before}.")
    if not (image.disk_format and image.container_format):
        raise Conflict("'disk_format' and 'container_format' must be set before an image is imported.")
    wanted = {"image_size_total": mebibytes(image.staged_size or 0), "image_count_uploading": 0}
    if before == QUEUED:
        wanted["image_count_uploading"] = 1
    quota.take(conn, QUOTAS, image.owner or "", wanted)
    if not domain.try_move(conn, image.id, "import" if before == QUEUED else "import staged", caller.now):
        raise Conflict(f"The image {image.id} is not {before} any more.")
    told = {"image_id": image.id, "import_req": dict(wish), "backend": [STORE]}
    _submit(conn, caller, BY_METHOD, image, told, wish["method"].get("uri"), options)


def start_task(
    conn: Connection, caller: Caller, new: NewImage, told: Mapping[str, Any], uri: str, options: ImageOptions
) -> ImageTask:
    """Make an image and import it from an address; the row of `image_tasks`. Raises Conflict, OverQuota."""
    domain.create(conn, new, caller.now)
    quota.take(conn, QUOTAS, new.owner or "", {"image_count_uploading": 1})
    domain.MACHINE.move(conn, new.id, "import", caller.now)
    task_id = _submit(conn, caller, BY_TASK, domain.get(conn, new.id), told, uri, options)
    return get(conn, task_id)


def _submit(
    conn: Connection, caller: Caller, type: str, image: Image, told: Mapping[str, Any], uri: str | None,
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
    args = {"task_id": task_id, "uri": uri}
    tasks.submit(conn, kinds.IMPORT_IMAGE, image.id, caller, args=args, deadline=options.import_deadline)
    return task_id


# -- its end, for the workflow


def processing(conn: Connection, task_id: str, image_id: str, now: datetime) -> Image:
    """Work begins; the image. Raises Gone."""
    _tell(conn, task_id, now, status=PROCESSING)
    return importing(conn, image_id)


def importing(conn: Connection, image_id: str) -> Image:
    """The image while it is being imported. Raises Gone."""
    row = conn.execute(select(Image).where(Image.id == image_id, Image.status == IMPORTING)).first()
    if row is None:
        raise Gone(f"The image {image_id} is not being imported any more.")
    return row


def finish(conn: Connection, task_id: str, image: Image, measured: Measured, now: datetime, kept: float) -> None:
    """The data is in its place. `kept`: seconds for which the record stays. Raises Gone, OverQuota."""
    if image.staged_size is None:
        quota.take(conn, QUOTAS, image.owner or "", {"image_size_total": mebibytes(measured.size)})
    if not domain.activate(conn, image.id, "imported", measured, now):
        raise Gone(f"The image {image.id} is not being imported any more.")
    _tell(conn, task_id, now, status=SUCCESS, result=image.id, expires_at=now + timedelta(seconds=kept))


def fail(conn: Connection, task_id: str, image_id: str, why: str, now: datetime, kept: float, by: Origin) -> None:
    """The image is queued again, without data; one that was made for this import is removed."""
    image = conn.execute(select(Image).where(Image.id == image_id, Image.status == IMPORTING)).first()
    if image is not None and not image.protected and get(conn, task_id).type == BY_TASK:
        domain.remove(conn, image, by)
    elif image is not None:
        domain.try_move(conn, image_id, "import failed", now, staged_size=None)
    _tell(conn, task_id, now, status=FAILURE, message=why, expires_at=now + timedelta(seconds=kept))


def _tell(conn: Connection, task_id: str, now: datetime, **values: Any) -> None:
    conn.execute(update(ImageTask).where(ImageTask.id == task_id).values(updated_at=now, **values))


# -- reading

LISTING = Listing(
    ImageTask.table,
    sort_keys={name: ImageTask.table.c[name] for name in ("created_at", "updated_at", "id", "status", "type")},
    filters={"type": equals(ImageTask.type), "status": equals(ImageTask.status)},
)


def get(conn: Connection, task_id: str) -> ImageTask:
    """Raises NotFound."""
    row = conn.execute(select(ImageTask).where(ImageTask.id == task_id)).first()
    if row is None:
        raise NotFound(f"No task found with ID {task_id[:64]}")
    return row


def kept(now: datetime) -> ColumnElement[bool]:
    """The records that have not expired."""
    return or_(ImageTask.expires_at.is_(None), ImageTask.expires_at >= now)


def of_image(conn: Connection, caller: Caller, image_id: str) -> list[ImageTask]:
    """The imports of an image of one's own, the newest first. Raises NotFound, Forbidden."""
    image = domain.visible(conn, caller, image_id)
    caller.require("image:images:tasks", project_id=image.owner or "")
    query = select(ImageTask).where(ImageTask.image_id == image.id, kept(caller.now))
    return list(conn.execute(query.order_by(ImageTask.created_at.desc(), ImageTask.id).limit(1000)))
