"""The work that is done on volumes, their snapshots and their backups."""

from __future__ import annotations

from cloudctl.tasks import Action, Kind

VOLUME, SNAPSHOT, BACKUP = "volume", "volume_snapshot", "volume_backup"
GROUP_SNAPSHOT = "volume_group_snapshot"

# Deadlines in seconds: the usual one; for work that may copy an image, or waits for that; for work that copies through
# the archive.
SOON, LATER, DAY = 1800.0, 3600.0, 24 * 3600.0

CREATE_VOLUME = Kind("volume.volume.create", VOLUME, LATER)
DELETE_VOLUME = Kind("volume.volume.delete", VOLUME, LATER)
EXTEND_VOLUME = Kind("volume.volume.extend", VOLUME, LATER)
REVERT_VOLUME = Kind("volume.volume.revert", VOLUME, LATER)
RESTORE_VOLUME = Kind("volume.volume.restore", VOLUME, DAY)
UPLOAD_VOLUME = Kind("volume.volume.upload", VOLUME, LATER)
MEND_VOLUME = Kind("volume.volume.mend", VOLUME, LATER)
REIMAGE_VOLUME = Kind("volume.volume.reimage", VOLUME, LATER)
MOVE_VOLUME = Kind("volume.volume.move", VOLUME, DAY)
MANAGE_VOLUME = Kind("volume.volume.manage", VOLUME, SOON)
UNMANAGE_VOLUME = Kind("volume.volume.unmanage", VOLUME, LATER)
LEND_VOLUME = Kind("volume.volume.lend", VOLUME, LATER)
DETACH_VOLUME = Kind("volume.attachment.delete", VOLUME, LATER)

# A task of the server that has the volume: nothing else changes the server meanwhile, and its users are told.
SWAP_VOLUME = Kind("volume.guest.swap", "server", DAY, Action("swap_volume", "compute_swap_volume"))
# Shows the guest the volume's new size; compute does it, and outside services may request it, too.
EXTEND_GUEST = Kind("compute.server.extend_volume", "server", 900.0, Action("extend_volume", "compute_extend_volume"))

CREATE_SNAPSHOT = Kind("volume.snapshot.create", SNAPSHOT, SOON)
DELETE_SNAPSHOT = Kind("volume.snapshot.delete", SNAPSHOT, LATER)
LEND_SNAPSHOT = Kind("volume.snapshot.lend", SNAPSHOT, LATER)
MANAGE_SNAPSHOT = Kind("volume.snapshot.manage", SNAPSHOT, SOON)
UNMANAGE_SNAPSHOT = Kind("volume.snapshot.unmanage", SNAPSHOT, LATER)

# A volume is being made from it: not even its deletion cuts that short.
LENT = (LEND_VOLUME, LEND_SNAPSHOT)

# Of all its snapshots at once. Each is deleted by a task of its own, as any other.
CREATE_GROUP_SNAPSHOT = Kind("volume.group_snapshot.create", GROUP_SNAPSHOT, SOON)

CREATE_BACKUP = Kind("volume.backup.create", BACKUP, DAY)
IMPORT_BACKUP = Kind("volume.backup.import", BACKUP, SOON)
DELETE_BACKUP = Kind("volume.backup.delete", BACKUP, DAY)
MOVE_BACKUP = Kind("volume.backup.move", BACKUP, DAY)
