"""The state tables of volumes, snapshots and backups: which request moves what from which status to which.

Reference: volume-states.md. Every change of status is one compare-and-set over a row of a table here, so of two
simultaneous requests exactly one wins.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, or_

from cloudctl.db.machine import Machine, Move
from cloudctl.db.machine import sources as _from
from cloudctl.volume.owned import BACKUPS, SNAPSHOTS, VOLUMES
from cloudctl.volume.tables import Backup, Snapshot, Volume

CREATING, DOWNLOADING, AVAILABLE, IN_USE, ERROR = "creating", "downloading", "available", "in-use", "error"
RESERVED, ATTACHING, DETACHING = "reserved", "attaching", "detaching"
DELETING, ERROR_DELETING = "deleting", "error_deleting"
EXTENDING, ERROR_EXTENDING = "extending", "error_extending"
MAINTENANCE, UPLOADING = "maintenance", "uploading"
BACKING_UP, RESTORING_BACKUP, ERROR_RESTORING = "backing-up", "restoring-backup", "error_restoring"
AWAITING_TRANSFER, RETYPING = "awaiting-transfer", "retyping"
REVERTING, RESTORING = "reverting", "restoring"

# The statuses that os-reset_status accepts: volume-states.md, section 1. `deleting` is known, but refused.
RESETTABLE = frozenset(
    {
        "creating",
        "available",
        "error",
        "error_deleting",
        "error_managing",
        "managing",
        "attaching",
        "in-use",
        "detaching",
        "maintenance",
        "restoring-backup",
        "error_restoring",
        "reserved",
        "awaiting-transfer",
        "backing-up",
        "error_backing-up",
        "error_extending",
        "downloading",
        "uploading",
        "retyping",
        "extending",
    }
)

# Statuses that follow the attachments. In any other one, something else decides what comes next.
FOLLOWING = frozenset({AVAILABLE, RESERVED, ATTACHING, DETACHING, IN_USE, ERROR_EXTENDING})


# Nothing is on the backend, or soon nothing will be.
GONE = frozenset({CREATING, DOWNLOADING, DELETING, ERROR_DELETING, ERROR})


# -- volumes. A move without a target: the status follows the attachments.

SNAPSHOT_REFUSED = "Invalid volume: Volume {id} status must be available, but current status is: {status}."
BACKUP_REFUSED = (
    'Invalid volume: Volume to be backed up must be available or in-use, but the current status is "{status}".'
)

REIMAGE_REFUSED = "Invalid volume: Volume {id} status must be available or error, but current status is: {status}."

MOVES = {
    "download": Move(_from(CREATING), DOWNLOADING),
    "created": Move(_from(CREATING, DOWNLOADING), AVAILABLE),
    "create failed": Move(_from(CREATING, DOWNLOADING), ERROR),
    "delete": Move(
        _from(AVAILABLE, ERROR, ERROR_RESTORING, ERROR_EXTENDING, "error_managing"),
        DELETING,
        "Invalid volume: Volume status must be available or error or error_restoring or error_extending or "
        "error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, "
        "or be disassociated from snapshots after volume transfer.",
    ),
    # Alone it cannot be deleted, so what failed once is tried again with the others.
    "delete with its group": Move(
        _from(AVAILABLE, ERROR, ERROR_RESTORING, ERROR_EXTENDING, "error_managing", DELETING, ERROR_DELETING),
        DELETING,
        "Invalid volume: Volume {id} is {status}; it must be available or in error to be deleted with its group.",
    ),
    "force delete": Move(
        None,
        DELETING,
        "Invalid volume: Volume must not be migrating, attached, belong to a group, have snapshots, awaiting a "
        "transfer, or be disassociated from snapshots after volume transfer.",
    ),
    "delete failed": Move(_from(DELETING), ERROR_DELETING),
    "extend": Move(
        _from(AVAILABLE),
        EXTENDING,
        "Invalid volume: Volume {id} status must be 'available' to extend, currently {status}.",
    ),
    "extend in use": Move(
        _from(AVAILABLE, IN_USE),
        EXTENDING,
        "Invalid volume: Volume {id} status must be '('available', 'in-use')' to extend, currently {status}.",
    ),
    "extended": Move(_from(EXTENDING), None),
    "extend failed": Move(_from(EXTENDING), ERROR_EXTENDING),
    "reserve": Move(
        _from(AVAILABLE),
        ATTACHING,
        "Invalid volume: Volume status must be available to reserve, but the status is {status}.",
    ),
    "reserve again": Move(
        _from(AVAILABLE, IN_USE),
        ATTACHING,
        "Invalid volume: Volume status must be available or in-use to reserve, but the status is {status}.",
    ),
    "begin detaching": Move(
        _from(IN_USE),
        DETACHING,
        "Invalid volume: Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' "
        "to detach.",
    ),
    "roll detaching": Move(_from(DETACHING), IN_USE),
    "make read-only": Move(
        _from(AVAILABLE),
        AVAILABLE,
        "Invalid volume: Volume {id} status must be available to update readonly flag, but current status is: "
        "{status}.",
    ),
    # The volume itself does not change.
    "snapshot": Move(_from(AVAILABLE), None, SNAPSHOT_REFUSED),
    "snapshot in use": Move(_from(AVAILABLE, IN_USE), None, SNAPSHOT_REFUSED),
    "back up": Move(_from(AVAILABLE), BACKING_UP, BACKUP_REFUSED),
    "back up in use": Move(_from(AVAILABLE, IN_USE), BACKING_UP, BACKUP_REFUSED),
    "restore": Move(_from(AVAILABLE), RESTORING_BACKUP, "Invalid volume: Volume to be restored to must be available"),
    "restore new": Move(_from(CREATING), RESTORING_BACKUP),
    "restore failed": Move(_from(RESTORING_BACKUP), ERROR_RESTORING),
    "restore new failed": Move(_from(CREATING, RESTORING_BACKUP), ERROR),
    "upload": Move(_from(AVAILABLE), UPLOADING, "Invalid volume: Volume {id} status must be available"),
    "upload in use": Move(
        _from(AVAILABLE, IN_USE), UPLOADING, "Invalid volume: Volume {id} status must be available or in-use"
    ),
    "revert": Move(
        _from(AVAILABLE),
        REVERTING,
        "Invalid volume: Can't revert volume {id} to its latest snapshot. Its status is {status}; it must be "
        "available.",
    ),
    "revert failed": Move(_from(REVERTING), ERROR),
    "reimage": Move(_from(AVAILABLE, ERROR), DOWNLOADING, REIMAGE_REFUSED),
    "reimage reserved": Move(_from(AVAILABLE, ERROR, RESERVED), DOWNLOADING, REIMAGE_REFUSED),
    # Nobody knows what the volume holds.
    "reimage failed": Move(_from(DOWNLOADING), ERROR),
    "retype": Move(
        _from(AVAILABLE, IN_USE),
        RETYPING,
        "Invalid volume: Retype needs volume to be in available or in-use state, not be part of an active migration or "
        "a group, and requested type has to be different that the one from the volume.",
    ),
    # It stays with its server while its bytes are copied.
    "migrate in use": Move(_from(IN_USE), None),
    # Nobody may attach it while its bytes are copied.
    "migrate": Move(
        _from(AVAILABLE),
        MAINTENANCE,
        "Invalid volume: Volume {id} status must be available, must not be migrating, have snapshots or be part of a "
        "group, and destination host must be different than the current host.",
    ),
    "offer": Move(_from(AVAILABLE), AWAITING_TRANSFER, "Invalid volume: status must be available"),
    "withdraw": Move(_from(AWAITING_TRANSFER), AVAILABLE),
    "accept": Move(
        _from(AWAITING_TRANSFER),
        AVAILABLE,
        "Invalid volume: Volume {id} status must be awaiting-transfer, but current status is: {status}.",
    ),
}

# -- snapshots

SNAPSHOT_MOVES = {
    "created": Move(_from(CREATING), AVAILABLE),
    "create failed": Move(_from(CREATING), ERROR),
    "delete": Move(
        _from(AVAILABLE, ERROR),
        DELETING,
        "Invalid snapshot: Snapshot status must be available or error and must not be part of a group.",
    ),
    "delete with its volume": Move(_from(AVAILABLE, ERROR, DELETING), DELETING),
    # Alone it cannot be deleted, so what failed once is tried again with the others.
    "delete with its group": Move(_from(AVAILABLE, ERROR, DELETING, ERROR_DELETING), DELETING),
    "force delete": Move(None, DELETING),
    "delete failed": Move(_from(DELETING), ERROR_DELETING),
    # Something on the backend depends on it.
    "busy": Move(_from(DELETING), AVAILABLE),
    "back up": Move(
        _from(AVAILABLE),
        BACKING_UP,
        'Invalid snapshot: Snapshot to be backed up must be available, but the current status is "{status}".',
    ),
    "backed up": Move(_from(BACKING_UP), AVAILABLE),
    "revert": Move(
        _from(AVAILABLE),
        RESTORING,
        "Invalid snapshot: Can't revert to snapshot {id}: its status is {status}, it must be available.",
    ),
    "reverted": Move(_from(RESTORING), AVAILABLE),
    "revert failed": Move(_from(RESTORING), ERROR),
}

# What os-reset_status accepts, and what os-update_snapshot_status may turn a status into.
SNAPSHOT_RESETTABLE = frozenset(
    {AVAILABLE, CREATING, DELETING, ERROR, ERROR_DELETING, BACKING_UP, RESTORING, "updating", "unmanaging"}
)
SNAPSHOT_UPDATES = {
    CREATING: frozenset({CREATING, AVAILABLE, ERROR}),
    DELETING: frozenset({DELETING, ERROR_DELETING}),
}

# -- backups

BACKUP_MOVES = {
    "created": Move(_from(CREATING), AVAILABLE),
    "create failed": Move(_from(CREATING), ERROR),
    "delete": Move(_from(AVAILABLE, ERROR), DELETING, "Invalid backup: Backup status must be available or error"),
    "force delete": Move(None, DELETING),
    "delete failed": Move(_from(DELETING), ERROR_DELETING),
    "restore": Move(_from(AVAILABLE), RESTORING, "Invalid backup: Backup status must be available"),
    "restored": Move(_from(RESTORING), AVAILABLE),
}
BACKUP_RESETTABLE = frozenset({AVAILABLE, ERROR})


VOLUME = Machine(Volume, MOVES, VOLUMES.not_found, "Invalid volume: Volume {id} is in status {status}.")
SNAPSHOT = Machine(
    Snapshot, SNAPSHOT_MOVES, SNAPSHOTS.not_found, "Invalid snapshot: Snapshot {id} is in status {status}."
)
BACKUP = Machine(Backup, BACKUP_MOVES, BACKUPS.not_found, "Invalid backup: Backup {id} is in status {status}.")

move, try_move, refused = VOLUME.move, VOLUME.try_move, VOLUME.refused

STILL = ("deleting", "error", "success")

not_migrating: ColumnElement[bool] = or_(Volume.migration_status.is_(None), Volume.migration_status.in_(STILL))


def is_migrating(volume: Volume) -> bool:
    return volume.migration_status is not None and volume.migration_status not in STILL
