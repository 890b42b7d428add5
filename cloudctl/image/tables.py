"""What the image service stores."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, text, time

images = Table(
    "images",
    metadata,
    identifier(),
    optional_text("owner"),  # a project id; None: of no project
    optional_text("name"),
    text("status", 32),
    text("visibility", 16),
    flag("protected", False),
    flag("os_hidden", False),
    optional_text("container_format", 16),
    optional_text("disk_format", 16),
    Column("size", BigInteger, nullable=True),
    Column("virtual_size", BigInteger, nullable=True),
    Column("min_disk", Integer, nullable=False, default=0),  # GiB
    Column("min_ram", Integer, nullable=False, default=0),  # MiB
    optional_text("checksum", 32),  # MD5, hex
    optional_text("os_hash_algo", 16),
    optional_text("os_hash_value", 128),
    # The upload that is under way, which is also the name of its file; None if there is none.
    optional_text("upload_id", 64),
    Column("staged_size", BigInteger, nullable=True),  # bytes that wait for an import
    time("created_at", nullable=False),
    time("updated_at", nullable=False),
    # A page of a project's, of the public, or of all images, without a look at the others.
    Index("ix_images_owner", "owner", "created_at", "id"),
    Index("ix_images_visibility", "visibility", "created_at", "id"),
    Index("ix_images_created", "created_at", "id"),
    Index("ix_images_status", "status"),
)

# Ids of images that are gone; they are never used again.
deleted_images = Table("deleted_images", metadata, identifier())

image_properties = Table(
    "image_properties",
    metadata,
    identifier("image_id", primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("value", Text, nullable=False),
)

image_tags = Table(
    "image_tags",
    metadata,
    identifier("image_id", primary_key=True),
    Column("tag", String(255), primary_key=True),
    Index("ix_image_tags_tag", "tag"),
)

image_members = Table(
    "image_members",
    metadata,
    identifier("image_id", primary_key=True),
    Column("member_id", String(255), primary_key=True),
    text("status", 16),
    time("created_at", nullable=False),
    time("updated_at", nullable=False),
    Index("ix_image_members_member", "member_id", "status"),
)

# Imports as the API shows them; the work itself is a task of the engine.
image_tasks = Table(
    "image_tasks",
    metadata,
    identifier(),
    text("type", 32),
    text("status", 16),
    optional_text("owner"),
    optional_text("image_id", 64),
    text("request_id", 64),
    text("user_id", 64),
    json("input", dict),
    Column("result", Text, nullable=True),  # the id of the image that came of it
    Column("message", Text, nullable=False, default=""),
    time("expires_at", nullable=True),  # None while it is open
    time("created_at", nullable=False),
    time("updated_at", nullable=False),
    Index("ix_image_tasks_image", "image_id", "created_at"),
    Index("ix_image_tasks_created", "created_at", "id"),
    Index("ix_image_tasks_expires", "expires_at"),
)
