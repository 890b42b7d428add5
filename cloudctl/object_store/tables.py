"""What the object store keeps: accounts, containers, objects. Names are in the order of their bytes."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, String, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import VARCHAR

from cloudctl.db.columns import Field, column, identifier, json, optional_text, text, time
from cloudctl.db.records import Record
from cloudctl.db.totals import Total


def name(length: int, **options: object) -> Field[str]:
    """Compared byte by byte in every database. SQLite always does."""
    kind = String(length).with_variant(VARCHAR(length, collation="C"), "postgresql")
    made: Field[str] = column(kind, **{"nullable": False, **options})
    return made


class Account(Record, table="object_accounts"):
    """What is said of a project's account. One that nothing was ever said of has no row."""

    project_id: Field[str] = identifier(primary_key=True)
    # Headers with their values: X-Account-Meta-Color, X-Account-Access-Control.
    headers: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time(nullable=False)


class Container(Record, table="object_containers"):
    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    name: Field[str] = name(256)
    # X-Container-Meta-Color, X-Container-Read, X-Versions-Location, …
    headers: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time(nullable=False)
    updated_at: Field[datetime] = time(nullable=False)


Container.table.append_constraint(UniqueConstraint(Container.project_id, Container.name))


class Object(Record, table="objects"):
    """One that is written anew is another row with the same name."""

    container_id: Field[str] = identifier(primary_key=True)
    name: Field[str] = name(1024, primary_key=True)
    project_id: Field[str] = text(64)
    # Of this content, whatever its name: the file with the data is called so. None: there are no data.
    file_id: Field[str | None] = optional_text(64)
    size: Field[int] = column(BigInteger, nullable=False)  # of the file
    etag: Field[str] = text(32)  # its MD5, hex
    content_type: Field[str] = column(Text, nullable=False)
    # X-Object-Meta-Color, Content-Encoding, X-Object-Manifest, …
    headers: Field[dict[str, str]] = json(dict)
    # Of a static large object, whose file is its manifest: what its segments come to.
    large_size: Field[int | None] = column(BigInteger, nullable=True)
    large_etag: Field[str | None] = optional_text(32)
    delete_at: Field[int | None] = column(BigInteger, nullable=True)  # seconds since the epoch
    updated_at: Field[datetime] = time(nullable=False)


Index("ix_objects_file", Object.file_id)
Index("ix_objects_expiring", Object.delete_at)

Total("object_store.containers", Container.project_id)
Total("object_store.objects", Object.project_id)
Total("object_store.bytes", Object.project_id, Object.size)
# These are sums for a container, which takes the place of a project.
Total("objects.count", Object.container_id)
Total("objects.bytes", Object.container_id, Object.size)
