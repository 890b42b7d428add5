"""Records as this API shows them. Reference: volume.md, sections 2, 4 and 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields
from cloudctl.volume import attachments as domain
from cloudctl.volume import volumes
from cloudctl.volume.api import links
from cloudctl.volume.tables import Attachment, Backup, Snapshot, Volume

Json = dict[str, Any]


# -- what a microversion added

VOLUME = Fields[[Volume]](
    "a volume",
    {
        "group_id": (since(3, 13), lambda volume: volume.group_id),
        "service_uuid": (since(3, 48), lambda volume: None),
        "shared_targets": (since(3, 48), lambda volume: False),
        "volume_type_id": (since(3, 63), lambda volume: volume.volume_type_id),
        "consumes_quota": (since(3, 65), lambda volume: True),
    },
)
VOLUME_FOR_ADMINS = Fields[[]](
    "a volume, to administrators",
    {"provider_id": (since(3, 21), lambda: None), "cluster_name": (since(3, 61), lambda: None)},
)
SNAPSHOT = Fields[[Snapshot]](
    "a snapshot",
    {
        "group_snapshot_id": (since(3, 14), lambda snapshot: snapshot.group_snapshot_id),
        "user_id": (since(3, 41), lambda snapshot: snapshot.user_id),
        "consumes_quota": (since(3, 65), lambda snapshot: True),
    },
)
BACKUP = Fields[[Backup]]("a backup", {"metadata": (since(3, 43), lambda backup: dict(backup.metadata))})
BACKUP_FOR_ADMINS = Fields[[Backup]](
    "a backup, to administrators",
    {
        "os-backup-project-attr:project_id": (since(3, 18), lambda backup: backup.project_id),
        "user_id": (since(3, 56), lambda backup: backup.user_id),
    },
)


# -- the records


def volume_summary(call: Call, row: Volume) -> Json:
    return {"id": row.id, "name": row.name, "links": links.of(call, f"/volumes/{row.id}")}


@frozen
class Shown:
    """A volume, the name of its type, and what else its record does not tell."""

    volume: Volume
    type: str
    attached: Sequence[Attachment] = ()
    is_consistent: bool = False  # its group is a consistency group


def volume(call: Call, shown: Shown) -> Json:
    """The fields that every answer has."""
    row = shown.volume
    sees_hosts = call.may("volume:hosts:show")
    body: Json = {
        "id": row.id,
        "status": row.status,
        "size": row.size,
        "availability_zone": row.availability_zone,
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
        "name": row.name,
        "description": row.description,
        "volume_type": shown.type,
        "snapshot_id": row.snapshot_id,
        "source_volid": row.source_volid,
        "metadata": volumes.shown_metadata(row),
        "links": links.of(call, f"/volumes/{row.id}"),
        "user_id": row.user_id,
        "bootable": "true" if row.bootable else "false",
        "encrypted": False,
        "replication_status": None,
        "consistencygroup_id": row.group_id if shown.is_consistent else None,
        "multiattach": row.multiattach,
        "attachments": [_attached(each, sees_hosts) for each in shown.attached if each.status in domain.SHOWN],
    }
    if sees_hosts:
        body["migration_status"] = row.migration_status
        body |= VOLUME_FOR_ADMINS.of(call.version)
    return body | VOLUME.of(call.version, row)


def volume_detail(call: Call, shown: Shown) -> Json:
    """A volume as in show and in the detailed list."""
    row, body = shown.volume, volume(call, shown)
    body["os-vol-tenant-attr:tenant_id"] = row.project_id
    if call.may("volume:hosts:show"):
        body |= {
            "os-vol-host-attr:host": row.host,
            "os-vol-mig-status-attr:migstat": row.migration_status,
            "os-vol-mig-status-attr:name_id": None,
        }
    if row.image_metadata:
        body["volume_image_metadata"] = row.image_metadata
    return body


def _attached(row: Attachment, sees_hosts: bool) -> Json:
    return {
        "id": row.volume_id,
        "attachment_id": row.id,
        "volume_id": row.volume_id,
        "server_id": row.server_id,
        "host_name": row.host if sees_hosts else None,
        "device": row.device,
        "attached_at": micros(row.attached_at),
    }


def snapshot(call: Call, row: Snapshot) -> Json:
    """The fields that every answer has."""
    body: Json = {
        "id": row.id,
        "volume_id": row.volume_id,
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "size": row.size,
        "metadata": dict(row.metadata),
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
    }
    return body | SNAPSHOT.of(call.version, row)


def snapshot_detail(call: Call, row: Snapshot) -> Json:
    return {
        **snapshot(call, row),
        "os-extended-snapshot-attributes:progress": row.progress,
        "os-extended-snapshot-attributes:project_id": row.project_id,
    }


def backup_summary(call: Call, row: Backup) -> Json:
    return {"id": row.id, "name": row.name, "links": links.of(call, f"/backups/{row.id}")}


def backup(call: Call, row: Backup, has_dependents: bool) -> Json:
    body: Json = {
        **backup_summary(call, row),
        "description": row.description,
        "status": row.status,
        "size": row.size,
        "object_count": row.object_count,
        "availability_zone": row.availability_zone,
        "container": row.container,
        "created_at": micros(row.created_at),
        "updated_at": micros(row.updated_at),
        "data_timestamp": micros(row.data_timestamp),
        "fail_reason": row.fail_reason,
        "volume_id": row.volume_id,
        "snapshot_id": row.snapshot_id,
        "is_incremental": row.parent_id is not None,
        "has_dependent_backups": has_dependents,
    }
    if call.may("volume:backups:owner"):
        body |= BACKUP_FOR_ADMINS.of(call.version, row)
    return body | BACKUP.of(call.version, row)


def attachment_summary(row: Attachment) -> Json:
    return {"id": row.id, "status": row.status, "instance": row.server_id, "volume_id": row.volume_id}


def attachment(call: Call, row: Attachment) -> Json:
    """Only callers who may attach the volume see how it is reached (addresses, names, secrets of some backends)."""
    connects = call.may("volume:attachments:update", project_id=row.project_id or "")
    return {
        **attachment_summary(row),
        "attached_at": micros(row.attached_at) or "",
        "detached_at": "",
        "attach_mode": row.mode or "null",
        "connection_info": flat_connection(row) if connects else {},
    }


def flat_connection(row: Attachment) -> Json:
    """The backend's answer in one object; empty before there is one."""
    if not row.connection:
        return {}
    return {
        **connection_data(row.connection, row.mode),
        "driver_volume_type": row.connection["driver_volume_type"],
        "attachment_id": row.id,
        "enforce_multipath": False,
    }


def connection_data(connection: Mapping[str, Any], mode: str | None) -> Json:
    """The backend's answer, with what is the same for every backend."""
    shared = {"qos_specs": None, "access_mode": mode or "rw", "encrypted": False, "cacheable": False}
    return {**shared, **connection["data"]}
