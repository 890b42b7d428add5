"""Messages: why work that was accepted failed later. Reference: volume.md, section 12."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen
from sqlalchemy import ColumnElement, delete, insert, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import NotFound
from cloudctl.rest.caller import Caller
from cloudctl.volume.tables import Message

KEPT = timedelta(days=30)


@frozen
class Trouble:
    """What failed, and how: numbers for programs, words for people."""

    action: str
    doing: str
    detail: str
    what: str
    resource: str = "VOLUME"  # VOLUME, VOLUME_SNAPSHOT, VOLUME_BACKUP


NO_BACKEND = Trouble("001", "schedule allocate volume", "003", "Could not find any available weighted backend.")
CREATE_FAILED = Trouble("008", "create volume from backend storage", "012", "Driver failed to create the volume.")
IMAGE_FAILED = Trouble("005", "copy image to volume", "012", "Driver failed to create the volume.")
EXTEND_FAILED = Trouble("007", "extend volume", "010", "Volume could not be extended.")
UPLOAD_FAILED = Trouble("003", "copy volume to image", "004", "Failed to copy volume to image.")
SNAPSHOT_FAILED = Trouble("009", "create snapshot", "013", "Snapshot failed to create.", "VOLUME_SNAPSHOT")
SNAPSHOT_BUSY = Trouble(
    "010", "delete snapshot", "024", "Snapshot is busy: something depends on it.", "VOLUME_SNAPSHOT"
)
SNAPSHOT_DELETE_FAILED = Trouble("010", "delete snapshot", "001", "Snapshot could not be deleted.", "VOLUME_SNAPSHOT")
BACKUP_FAILED = Trouble("013", "create backup", "020", "Backup driver failed to create backup.", "VOLUME_BACKUP")
BACKUP_DELETE_FAILED = Trouble("014", "delete backup", "025", "Backup driver failed to delete backup.", "VOLUME_BACKUP")
RESTORE_FAILED = Trouble("015", "restore backup", "026", "Backup driver failed to restore backup.", "VOLUME_BACKUP")
# Upstream has no number for these.
DELETE_FAILED = Trouble("017", "delete volume", "001", "The volume could not be deleted.")
REVERT_FAILED = Trouble("019", "revert volume to snapshot", "001", "The volume could not be reverted.")
REIMAGE_FAILED = Trouble("021", "reimage volume", "028", "Failed to reimage the volume.")
RETYPE_FAILED = Trouble(
    "006", "retype volume", "001", "The type needs another backend, and the migration policy is never."
)
MOVE_FAILED = Trouble("020", "migrate volume", "001", "The volume could not be moved, and is where it was.")
MANAGE_FAILED = Trouble("002", "manage volume", "001", "The backend could not hand over what was to be managed.")
SNAPSHOT_MANAGE_FAILED = Trouble(
    "002", "manage snapshot", "001", "The backend could not hand over what was to be managed.", "VOLUME_SNAPSHOT"
)
DETACH_FAILED = Trouble("018", "detach volume", "001", "The volume could not be disconnected from its host.")


def record(
    conn: Connection, trouble: Trouble, project_id: str, request_id: str, resource_id: str, now: datetime
) -> None:
    conn.execute(delete(Message).where(Message.guaranteed_until < now))
    conn.execute(
        insert(Message).values(
            id=new_id(),
            project_id=project_id,
            request_id=request_id,
            event_id=f"VOLUME_{trouble.resource}_{trouble.action}_{trouble.detail}",
            user_message=f"{trouble.doing}:{trouble.what}",
            resource_type=trouble.resource,
            resource_id=resource_id,
            created_at=now,
            guaranteed_until=now + KEPT,
        )
    )


def mine(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    return () if caller.may("volume:all_projects") else (Message.project_id == caller.project_id,)


def not_found(message_id: str) -> NotFound:
    return NotFound(f"Message {message_id[:64]} could not be found.")


def visible(conn: Connection, caller: Caller, message_id: str) -> Message:
    """Raises NotFound."""
    found = conn.execute(select(Message).where(Message.id == message_id, *mine(caller))).first()
    if found is None:
        raise not_found(message_id)
    return found


def remove(conn: Connection, message: Message) -> None:
    conn.execute(delete(Message).where(Message.id == message.id))
