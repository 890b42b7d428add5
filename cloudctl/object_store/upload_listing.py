"""Listings of uploads in parts: by name, then by id. A page costs what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from sqlalchemy import ColumnElement, select, tuple_

from cloudctl.db import Connection
from cloudctl.object_store import listing
from cloudctl.object_store.listing import LAST, Wanted, after
from cloudctl.object_store.tables import Container, Upload


@frozen
class WantedUploads:
    """Uploads of names with `prefix`, after this upload of this name (empty: after all of them), at most `limit`."""

    limit: int
    name: str = ""
    upload_id: str = ""
    prefix: str = ""
    delimiter: str = ""


def of_uploads(conn: Connection, container: Container, wanted: WantedUploads) -> list[Upload | str]:
    """What is wanted, and texts that stand for all names with this prefix."""
    found: list[Upload | str] = []
    names = Wanted(prefix=wanted.prefix, delimiter=wanted.delimiter)
    place = Upload.name >= wanted.prefix
    if wanted.name and wanted.name >= wanted.prefix:
        place = Upload.name > wanted.name
        if wanted.upload_id:
            place = tuple_(Upload.name, Upload.id) > (wanted.name, wanted.upload_id)
    most = listing.first_look(names, wanted.limit)
    while len(found) < wanted.limit:
        some = _read(conn, container, place, names, min(most, wanted.limit - len(found)))
        for upload in some:
            folder = listing.folder_of(upload.name, names)
            if folder is not None:
                if folder != wanted.name:
                    found.append(folder)
                place = Upload.name >= (after(folder) or LAST * 1024)
                # The next ones may all be in the same folder.
                most = 2
                break
            found.append(upload)
        else:
            if len(some) < most:
                break
            place = tuple_(Upload.name, Upload.id) > (some[-1].name, some[-1].id)
            most *= 2
    return found


def _read(
    conn: Connection, container: Container, place: ColumnElement[bool], names: Wanted, most: int
) -> Sequence[Upload]:
    query = select(Upload).where(Upload.container_id == container.id, place)
    if names.prefix and (end := after(names.prefix)):
        query = query.where(Upload.name < end)
    return conn.execute(query.order_by(Upload.name, Upload.id).limit(most)).all()
