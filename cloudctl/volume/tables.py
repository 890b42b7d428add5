"""The tables of block storage."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, text, time

volume_types = Table(
    "volume_types",
    metadata,
    identifier(),
    text("name", unique=True),
    optional_text("description"),
    flag("is_public", True),
    json("extra_specs", dict),
    time("created_at", nullable=False),
    time("updated_at"),
    Index("ix_volume_types_order", "created_at", "id"),
)

# Which projects may use a type that is not public.
volume_type_access = Table(
    "volume_type_access",
    metadata,
    Column("volume_type_id", String(64), ForeignKey("volume_types.id", ondelete="CASCADE"), primary_key=True),
    Column("project_id", String(64), primary_key=True),
)

volume_default_types = Table(
    "volume_default_types",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("volume_type_id", String(64), ForeignKey("volume_types.id", ondelete="CASCADE"), nullable=False, index=True),
)

volumes = Table(
    "volumes",
    metadata,
    identifier(),
    text("project_id", 64),
    text("user_id", 64),
    optional_text("name"),
    optional_text("description"),
    text("status", 32),
    # That of the strongest attachment: attached, attaching, detaching, reserved; detached if there is none.
    text("attach_status", 32, default="detached"),
    optional_text("migration_status", 64),
    Column("size", Integer, nullable=False),  # GiB
    Column("reserved_size", Integer, nullable=True),  # GiB; while it is extended: what it will have
    Column("volume_type_id", String(64), ForeignKey("volume_types.id"), nullable=False),
    text("availability_zone"),
    optional_text("host"),  # of the pool that it is in, or will be in
    optional_text("snapshot_id", 64),
    optional_text("source_volid", 64),
    optional_text("backup_id", 64),
    optional_text("image_id", 64),
    optional_text("image_format", 32),
    flag("bootable", False),
    flag("multiattach", False),
    Column("readonly", String(5), nullable=True),  # "True", "False", or never said
    optional_text("attached_mode", 2),  # rw, ro: what os-attach said
    json("metadata", dict),
    json("image_metadata", dict),
    time("created_at", nullable=False),
    time("updated_at"),
    Index("ix_volumes_project", "project_id", "created_at", "id"),
    Index("ix_volumes_order", "created_at", "id"),
    Index("ix_volumes_project_name", "project_id", "name"),
    Index("ix_volumes_type", "volume_type_id"),
)

volume_attachments = Table(
    "volume_attachments",
    metadata,
    identifier(),
    Column("volume_id", String(64), ForeignKey("volumes.id", ondelete="CASCADE"), nullable=False),
    text("project_id", 64),  # the volume's
    optional_text("server_id", 64),
    text("status", 32),
    optional_text("mode", 2),  # rw, ro
    optional_text("device"),
    optional_text("host"),  # that the backend was asked to connect
    flag("managed", False),  # made by the compute service, which alone may end it
    json("connection", dict),  # {"driver_volume_type", "data"}: the backend's answer
    time("created_at", nullable=False),
    time("attached_at"),
    UniqueConstraint("volume_id", "id", name="uq_volume_attachments_volume"),
    Index("ix_volume_attachments_server", "server_id"),
    Index("ix_volume_attachments_project", "project_id", "created_at", "id"),
    Index("ix_volume_attachments_order", "created_at", "id"),
)

volume_snapshots = Table(
    "volume_snapshots",
    metadata,
    identifier(),
    text("project_id", 64),
    text("user_id", 64),
    # A volume goes after its snapshots.
    Column("volume_id", String(64), ForeignKey("volumes.id"), nullable=False),
    optional_text("name"),
    optional_text("description"),
    text("status", 32),
    text("progress", 8, default="0%"),
    Column("size", Integer, nullable=False),  # GiB
    json("metadata", dict),
    time("created_at", nullable=False),
    time("updated_at"),
    Index("ix_volume_snapshots_project", "project_id", "created_at", "id"),
    Index("ix_volume_snapshots_order", "created_at", "id"),
    Index("ix_volume_snapshots_project_name", "project_id", "name"),
    Index("ix_volume_snapshots_volume", "volume_id", "created_at"),
)

# They outlive what they were made of.
volume_backups = Table(
    "volume_backups",
    metadata,
    identifier(),
    text("project_id", 64),
    text("user_id", 64),
    text("volume_id", 64),
    optional_text("snapshot_id", 64),
    optional_text("parent_id", 64),  # of an incremental one: what it is the difference to
    optional_text("name"),
    optional_text("description"),
    text("container"),
    text("availability_zone"),
    text("status", 32),
    optional_text("fail_reason"),
    Column("size", Integer, nullable=False),  # GiB
    Column("object_count", Integer, nullable=False, default=0),
    flag("bootable", False),  # was the volume
    json("image_metadata", dict),  # of the volume
    json("metadata", dict),
    time("data_timestamp", nullable=False),  # when the volume had this content
    time("created_at", nullable=False),
    time("updated_at"),
    Index("ix_volume_backups_project", "project_id", "created_at", "id"),
    Index("ix_volume_backups_order", "created_at", "id"),
    Index("ix_volume_backups_project_name", "project_id", "name"),
    Index("ix_volume_backups_volume", "volume_id", "data_timestamp"),
    Index("ix_volume_backups_parent", "parent_id"),
)

# Only services that an administrator has said something about have a row.
volume_services = Table(
    "volume_services",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("binary", String(64), primary_key=True),
    flag("disabled", False),
    optional_text("disabled_reason"),
)

# Why work that was accepted failed later.
volume_messages = Table(
    "volume_messages",
    metadata,
    identifier(),
    text("project_id", 64),
    text("request_id", 64),
    text("event_id"),
    text("user_message", 1024),
    text("resource_type", 64),
    text("resource_id", 64),
    time("created_at", nullable=False),
    time("guaranteed_until", nullable=False),
    Index("ix_volume_messages_project", "project_id", "created_at", "id"),
    Index("ix_volume_messages_order", "created_at", "id"),
)
