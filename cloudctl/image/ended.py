"""What outlives its use. The ids of deleted images do not: whoever could use one again would be taken for its owner."""

from __future__ import annotations

from cloudctl.db.ended import Ended, before
from cloudctl.identity.ended import limits_of, no_project
from cloudctl.image.kinds import IMAGE
from cloudctl.image.quotas import QUOTAS
from cloudctl.image.tables import ImageMember, ImageTask
from cloudctl.tasks.ended import tasks_of

ENDED = (
    Ended("expired imports", ImageTask, (before(ImageTask.expires_at),)),
    tasks_of("tasks of images", IMAGE),
    limits_of(QUOTAS.service),
    Ended("images shared with deleted projects", ImageMember, (no_project(ImageMember.member_id),)),
)
