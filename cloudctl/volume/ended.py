"""What outlives its use: volumes, snapshots and backups are deleted at once."""

from __future__ import annotations

from cloudctl.db.ended import Ended, before
from cloudctl.identity.ended import limits_of
from cloudctl.tasks.ended import tasks_of
from cloudctl.volume.kinds import BACKUP, SNAPSHOT, VOLUME
from cloudctl.volume.quotas import SERVICE
from cloudctl.volume.tables import Message

ENDED = (
    Ended("messages of volumes", Message, (before(Message.guaranteed_until),)),
    tasks_of("tasks of volumes", VOLUME, SNAPSHOT, BACKUP),
    limits_of(SERVICE),
)
