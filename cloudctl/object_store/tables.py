"""The tables of the object store: accounts, containers, objects, their versions, and uploads in parts.

Names are ordered by their bytes.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import VARCHAR

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record
from cloudctl.db.totals import Total


def name(length: int, **options: object) -> Field[str]:
    """Compared byte by byte in every database. SQLite always does."""
    kind = String(length).with_variant(VARCHAR(length, collation="C"), "postgresql")
    made: Field[str] = column(kind, **options)
    return made


class Account(Record, table="object_accounts"):
    """What was set on a project's account. One on which nothing was ever set has no row."""

    project_id: Field[str] = identifier(primary_key=True)
    # Headers with their values: X-Account-Meta-Color, X-Account-Access-Control.
    headers: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time()


class Container(Record, table="object_containers"):
    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    name: Field[str] = name(256)
    # X-Container-Meta-Color, X-Container-Read, X-Versions-Location, …
    headers: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


Container.table.append_constraint(UniqueConstraint(Container.project_id, Container.name))


class Stored(Record):
    """An object without its data: the current one, or an old version."""

    container_id: Field[str] = identifier(primary_key=True)
    name: Field[str] = name(1024, primary_key=True)
    project_id: Field[str] = text(64)
    # The name of the file with the data, whatever the object's name. None: there is no data.
    file_id: Field[str | None] = optional_text(64)
    size: Field[int] = column(BigInteger)  # of the file, or of all parts
    etag: Field[str] = text(40)  # its MD5, hex; if uploaded in parts: the MD5 of theirs, and their number
    content_type: Field[str] = column(Text)
    # X-Object-Meta-Color, Content-Encoding, X-Object-Manifest, …
    headers: Field[dict[str, str]] = json(dict)
    # Of a static large object, whose file is its manifest: the total of its segments.
    large_size: Field[int | None] = column(BigInteger)
    large_etag: Field[str | None] = optional_text(32)
    # Of one uploaded in parts, which have the files: their upload.
    parts_id: Field[str | None] = optional_text(64)
    delete_at: Field[int | None] = column(BigInteger)  # seconds since the epoch
    updated_at: Field[datetime] = time()


class Object(Stored, table="objects"):
    """Writing an object again makes another row with the same name."""

    # Empty: made while no versions were kept.
    version: Field[str] = text(32)


class Version(Stored, table="object_versions"):
    """An old version, or a marker of a deletion. The newest of a name comes first."""

    version: Field[str] = text(32, primary_key=True)
    is_null: Field[bool] = flag(False)  # made while no versions were kept
    is_marker: Field[bool] = flag(False)


class Upload(Record, table="object_uploads"):
    """An object being uploaded in parts, until all of them are there."""

    id: Field[str] = identifier(primary_key=True)
    container_id: Field[str] = text(64)
    name: Field[str] = name(1024)
    project_id: Field[str] = text(64)
    content_type: Field[str] = column(Text)
    headers: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time()


class UploadPart(Record, table="object_parts"):
    """A part of an upload, or of the object that it has become."""

    upload_id: Field[str] = identifier(primary_key=True)
    number: Field[int] = column(Integer, primary_key=True, autoincrement=False)
    file_id: Field[str | None] = optional_text(64)
    size: Field[int] = column(BigInteger)
    etag: Field[str] = text(32)  # its MD5, hex
    headers: Field[dict[str, str]] = json(dict)
    updated_at: Field[datetime] = time()


Index("ix_object_versions_file", Version.file_id)
Index("ix_object_uploads_name", Upload.container_id, Upload.name, Upload.id)
Index("ix_object_uploads_project", Upload.project_id)
Index("ix_object_parts_file", UploadPart.file_id)
Index("ix_objects_file", Object.file_id)
Index("ix_objects_expiring", Object.delete_at)

Total("object_store.containers", Container.project_id)
Total("object_store.objects", Object.project_id)
Total("object_store.bytes", Object.project_id, Object.size)
# These are sums per container, which takes the place of a project.
Total("objects.count", Object.container_id)
Total("objects.bytes", Object.container_id, Object.size)
# Versions take room, but do not count as objects.
Total("object_store.bytes", Version.project_id, Version.size)
Total("objects.bytes", Version.container_id, Version.size)
