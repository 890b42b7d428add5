"""What outlives its use: volumes, snapshots and backups are deleted at once."""

from __future__ import annotations

from cloudctl.db.ended import Ended, before
from cloudctl.identity.ended import limits_of, no_project
from cloudctl.tasks.ended import tasks_of
from cloudctl.volume.kinds import BACKUP, GROUP_SNAPSHOT, SNAPSHOT, VOLUME
from cloudctl.volume.quotas import SERVICE
from cloudctl.volume.tables import Message, VolumeTypeAccess

ENDED = (
    Ended("messages of volumes", Message, (before(Message.guaranteed_until),)),
    tasks_of("tasks of volumes", VOLUME, SNAPSHOT, GROUP_SNAPSHOT, BACKUP),
    limits_of(SERVICE),
    Ended("volume types of deleted projects", VolumeTypeAccess, (no_project(VolumeTypeAccess.project_id),)),
)
