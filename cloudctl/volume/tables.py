"""The tables of block storage."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, String, UniqueConstraint, func

from cloudctl.db.columns import Field, Json, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record
from cloudctl.db.totals import Total


class QosSpecs(Record, table="volume_qos_specs"):
    """What volumes of the types that have it may do, enforced by hypervisors or by backends."""

    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text(unique=True)
    consumer: Field[str] = text(16)  # front-end, back-end, both
    specs: Field[dict[str, str]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


class VolumeType(Record, table="volume_types"):
    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text(unique=True)
    description: Field[str | None] = optional_text()
    is_public: Field[bool] = flag(True)
    extra_specs: Field[dict[str, Any]] = json(dict)
    qos_specs_id: Field[str | None] = column(String(64), ForeignKey("volume_qos_specs.id"), index=True)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_types_order", VolumeType.created_at, VolumeType.id)


class TypeEncryption(Record, table="volume_type_encryptions"):
    """How volumes of a type are to be encrypted."""

    volume_type_id: Field[str] = column(String(64), ForeignKey("volume_types.id", ondelete="CASCADE"), primary_key=True)
    id: Field[str] = text(64, unique=True)
    provider: Field[str] = text()
    control_location: Field[str] = text(16)  # front-end, back-end
    cipher: Field[str | None] = optional_text()
    key_size: Field[int | None] = column(Integer)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


class VolumeTypeAccess(Record, table="volume_type_access"):
    """Which projects may use a type that is not public."""

    volume_type_id: Field[str] = column(String(64), ForeignKey("volume_types.id", ondelete="CASCADE"), primary_key=True)
    project_id: Field[str] = column(String(64), primary_key=True)


class VolumeDefaultType(Record, table="volume_default_types"):
    project_id: Field[str] = column(String(64), primary_key=True)
    volume_type_id: Field[str] = column(String(64), ForeignKey("volume_types.id", ondelete="CASCADE"), index=True)


class GroupType(Record, table="volume_group_types"):
    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text(unique=True)
    description: Field[str | None] = optional_text()
    is_public: Field[bool] = flag(True)
    group_specs: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_group_types_order", GroupType.created_at, GroupType.id)


class Group(Record, table="volume_groups"):
    """Volumes that are frozen together."""

    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    name: Field[str | None] = optional_text()
    description: Field[str | None] = optional_text()
    status: Field[str] = text(32)
    group_type_id: Field[str] = column(String(64), ForeignKey("volume_group_types.id"), index=True)
    volume_types: Field[list[str]] = json(list)  # ids of the types that its volumes may have
    availability_zone: Field[str] = text()
    host: Field[str | None] = optional_text()
    group_snapshot_id: Field[str | None] = optional_text(64)  # what it was made from
    source_group_id: Field[str | None] = optional_text(64)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_groups_project", Group.project_id, Group.created_at, Group.id)
Index("ix_volume_groups_order", Group.created_at, Group.id)


class GroupSnapshot(Record, table="volume_group_snapshots"):
    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    # A group is deleted after its snapshots.
    group_id: Field[str] = column(String(64), ForeignKey("volume_groups.id"), index=True)
    group_type_id: Field[str] = text(64)
    name: Field[str | None] = optional_text()
    description: Field[str | None] = optional_text()
    status: Field[str] = text(32)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_group_snapshots_project", GroupSnapshot.project_id, GroupSnapshot.created_at, GroupSnapshot.id)
Index("ix_volume_group_snapshots_order", GroupSnapshot.created_at, GroupSnapshot.id)


class Volume(Record, table="volumes"):
    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    name: Field[str | None] = optional_text()
    description: Field[str | None] = optional_text()
    status: Field[str] = text(32)
    # That of the strongest attachment: attached, attaching, detaching, reserved; detached if there is none.
    attach_status: Field[str] = text(32, default="detached")
    migration_status: Field[str | None] = optional_text(64)
    size: Field[int] = column(Integer)  # GiB
    reserved_size: Field[int | None] = column(Integer)  # GiB; the new size while it is being extended
    volume_type_id: Field[str] = column(String(64), ForeignKey("volume_types.id"))
    availability_zone: Field[str] = text()
    host: Field[str | None] = optional_text()  # the pool it is in, or will be in
    snapshot_id: Field[str | None] = optional_text(64)
    source_volid: Field[str | None] = optional_text(64)
    backup_id: Field[str | None] = optional_text(64)
    image_id: Field[str | None] = optional_text(64)
    image_format: Field[str | None] = optional_text(32)
    group_id: Field[str | None] = column(String(64), ForeignKey("volume_groups.id"), index=True)
    bootable: Field[bool] = flag(False)
    multiattach: Field[bool] = flag(False)
    readonly: Field[str | None] = column(String(5))  # "True", "False", or never set
    attached_mode: Field[str | None] = optional_text(2)  # rw, ro: as os-attach set it
    metadata: Field[dict[str, Any]] = json(dict)
    image_metadata: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volumes_project", Volume.project_id, Volume.created_at, Volume.id)
Index("ix_volumes_order", Volume.created_at, Volume.id)
Index("ix_volumes_project_name", Volume.project_id, Volume.name)
Index("ix_volumes_type", Volume.volume_type_id)


class Attachment(Record, table="volume_attachments"):
    id: Field[str] = identifier(primary_key=True)
    volume_id: Field[str] = column(String(64), ForeignKey("volumes.id", ondelete="CASCADE"))
    project_id: Field[str] = text(64)  # the volume's
    server_id: Field[str | None] = optional_text(64)
    status: Field[str] = text(32)
    mode: Field[str | None] = optional_text(2)  # rw, ro
    device: Field[str | None] = optional_text()
    host: Field[str | None] = optional_text()  # the host that the backend was asked to connect
    managed: Field[bool] = flag(False)  # made by the compute service, which alone may end it
    connection: Field[dict[str, Any]] = json(dict)  # {"driver_volume_type", "data"}: the backend's answer
    created_at: Field[datetime] = time()
    attached_at: Field[datetime | None] = time()


UniqueConstraint(Attachment.volume_id, Attachment.id, name="uq_volume_attachments_volume")
Index("ix_volume_attachments_server", Attachment.server_id)
Index("ix_volume_attachments_project", Attachment.project_id, Attachment.created_at, Attachment.id)
Index("ix_volume_attachments_order", Attachment.created_at, Attachment.id)


class Snapshot(Record, table="volume_snapshots"):
    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    # A volume is deleted after its snapshots.
    volume_id: Field[str] = column(String(64), ForeignKey("volumes.id"))
    name: Field[str | None] = optional_text()
    description: Field[str | None] = optional_text()
    status: Field[str] = text(32)
    progress: Field[str] = text(8, default="0%")
    size: Field[int] = column(Integer)  # GiB
    group_snapshot_id: Field[str | None] = column(String(64), ForeignKey("volume_group_snapshots.id"), index=True)
    metadata: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_snapshots_project", Snapshot.project_id, Snapshot.created_at, Snapshot.id)
Index("ix_volume_snapshots_order", Snapshot.created_at, Snapshot.id)
Index("ix_volume_snapshots_project_name", Snapshot.project_id, Snapshot.name)
Index("ix_volume_snapshots_volume", Snapshot.volume_id, Snapshot.created_at)


class Transfer(Record, table="volume_transfers"):
    """A volume offered to another project: anyone who knows the key may take it."""

    id: Field[str] = identifier(primary_key=True)
    volume_id: Field[str] = column(String(64), ForeignKey("volumes.id", ondelete="CASCADE"), unique=True)
    project_id: Field[str] = text(64)  # the project that offers it
    name: Field[str | None] = optional_text()
    salt: Field[str] = text(64)
    digest: Field[str] = text(64)  # of the key
    no_snapshots: Field[bool] = flag(False)  # they stay with the project that offers the volume
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_transfers_project", Transfer.project_id, Transfer.created_at, Transfer.id)
Index("ix_volume_transfers_order", Transfer.created_at, Transfer.id)


class Backup(Record, table="volume_backups"):
    """Backups outlive what they were made from."""

    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    volume_id: Field[str] = text(64)
    snapshot_id: Field[str | None] = optional_text(64)
    parent_id: Field[str | None] = optional_text(64)  # of an incremental one: the backup it builds on
    name: Field[str | None] = optional_text()
    description: Field[str | None] = optional_text()
    container: Field[str] = text()
    availability_zone: Field[str] = text()
    status: Field[str] = text(32)
    fail_reason: Field[str | None] = optional_text()
    size: Field[int] = column(Integer)  # GiB
    object_count: Field[int] = column(Integer, default=0)
    # What the volume had, and a restored one gets again.
    volume_name: Field[str | None] = optional_text()
    volume_metadata: Field[dict[str, Any]] = column(Json, default=dict, server_default="{}")
    kept_as: Field[str | None] = optional_text(64)  # of an imported one: its id in the archive
    # `project/container/name`, the prefix of its objects; None: it is in the directory, as all once were.
    kept_at: Field[str | None] = column(String(700))
    # SHA-256 of the list of its pieces among these objects: their user may overwrite them.
    kept_digest: Field[str | None] = optional_text(64)
    bootable: Field[bool] = flag(False)  # whether the volume was
    image_metadata: Field[dict[str, Any]] = json(dict)  # of the volume
    metadata: Field[dict[str, Any]] = json(dict)
    data_timestamp: Field[datetime] = time()  # when the volume had this content
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_volume_backups_project", Backup.project_id, Backup.created_at, Backup.id)
Index("ix_volume_backups_order", Backup.created_at, Backup.id)
Index("ix_volume_backups_project_name", Backup.project_id, Backup.name)
Index("ix_volume_backups_volume", Backup.volume_id, Backup.data_timestamp)
Index("ix_volume_backups_parent", Backup.parent_id)


class VolumeService(Record, table="volume_services"):
    """Only services for which an administrator has set something have a row."""

    host: Field[str] = column(String(255), primary_key=True)
    binary: Field[str] = column(String(64), primary_key=True)
    disabled: Field[bool] = flag(False)
    disabled_reason: Field[str | None] = optional_text()
    # Shown to administrators. It is disabled as well, so it gets no new volumes; as in OpenStack, owners may go on
    # changing and deleting what is there.
    frozen: Field[bool] = flag(False)


class Message(Record, table="volume_messages"):
    """Why work that was accepted failed later."""

    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    request_id: Field[str] = text(64)
    event_id: Field[str] = text()
    user_message: Field[str] = text(1024)
    resource_type: Field[str] = text(64)
    resource_id: Field[str] = text(64)
    created_at: Field[datetime] = time()
    guaranteed_until: Field[datetime] = time()


Index("ix_volume_messages_project", Message.project_id, Message.created_at, Message.id)
Index("ix_volume_messages_order", Message.created_at, Message.id)


# Projects have quotas for these; snapshots count towards the same GiB as volumes.
Total("volumes", Volume.project_id)
Total("snapshots", Snapshot.project_id)
Total("gigabytes", Volume.project_id, func.coalesce(Volume.reserved_size, Volume.size))
Total("gigabytes", Snapshot.project_id, Snapshot.size)
Total("backups", Backup.project_id)
Total("backup_gigabytes", Backup.project_id, Backup.size)
Total("groups", Group.project_id)
