"""Records of backups on the wire. Reference: volume.md, section 6."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Any

import orjson
from attrs import field, frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import Body, BodyError, Length, Pattern, Range, Text, Uuid, given, structure
from cloudctl.rest.call import Call
from cloudctl.rest.decoding import parse
from cloudctl.rest.formats import parse_time
from cloudctl.rest.route import Routes
from cloudctl.volume import backup_records, backups
from cloudctl.volume.api import views
from cloudctl.volume.api.fields import Metadata
from cloudctl.volume.backup_records import NewRecord
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Backup

Plain = dict[Annotated[str, Length(0, 255)], Annotated[str, Length(0, 65535)]]


# It must not name anything else: what it names is read, and removed with the backup.
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
KeptAt = Annotated[
    str,
    Length(1, 700),
    Pattern(rf"[^/]{{1,64}}/[^/]{{1,256}}/volume_{UUID}/\d{{14}}/az_.{{1,255}}_backup_{UUID}", "the place of a backup"),
]


@frozen
class ImportRecord:
    backup_service: Annotated[str, Length(1, 255)]
    backup_url: Annotated[str, Length(1, 1 << 20)]


@frozen
class Told:
    """The content of a record, as received."""

    id: Uuid
    kept_as: Uuid
    volume_id: Uuid
    size: Annotated[int, Range(1)]
    data_timestamp: Annotated[str, Length(1, 64)]
    container: Text
    availability_zone: Text
    kept_at: KeptAt | None = None
    kept_digest: Annotated[str, Length(64, 64)] | None = None
    snapshot_id: Uuid | None = None
    parent_id: Uuid | None = None
    name: Text | None = None
    description: Text | None = None
    object_count: Annotated[int, Range(0)] = 0
    bootable: bool = False
    image_metadata: Plain = field(factory=dict)
    metadata: Metadata = field(factory=dict)
    volume_name: Text | None = None
    volume_metadata: Metadata = field(factory=dict)

    def wanted(self) -> NewRecord:
        """Raises Invalid."""
        return NewRecord(**{**given(self), "data_timestamp": _time(self.data_timestamp)})


def _time(text: str) -> datetime:
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid input received: {text[:64]!r} is no time.") from None


@frozen
class BackupRecords:
    routes = Routes("Backups")

    db: Database
    options: VolumeOptions

    @routes.get("/backups/<backup_id>/export_record", policy="volume:backups:export")
    async def export(self, call: Call, backup_id: str) -> Any:
        """Show the record of a backup that is needed to import it if this database is lost."""
        backup = await self.db.read(backups.visible, call.caller, backup_id)
        url = base64.b64encode(orjson.dumps(backup_records.export(backup))).decode()
        return {"backup-record": {"backup_service": backup_records.SERVICE, "backup_url": url}}

    @routes.post(
        "/backups/import_record",
        policy="volume:backups:import",
        status=201,
        body=Body(ImportRecord, key="backup-record"),
    )
    async def create(self, call: Call, body: ImportRecord) -> Any:
        """Import a backup from its record; the archive must still have it."""
        if body.backup_service not in (backup_records.SERVICE, backup_records.FORMER):
            raise Invalid(f"Invalid input received: backups of {body.backup_service[:64]!r} cannot be read here.")
        try:
            found = parse(base64.b64decode(body.backup_url, validate=True))
        except (ValueError, BodyError):
            raise Invalid("Invalid input received: Can't decode backup record.") from None
        told: Told = structure(found, Told, "$.backup-record.backup_url")
        row = await self.db.run(_create, call, told.wanted(), self.options)
        return {"backup": views.backup_summary(call, row)}


def _create(conn: Connection, call: Call, wanted: NewRecord, options: VolumeOptions) -> Backup:
    return backup_records.create(conn, call.caller, wanted, options)
