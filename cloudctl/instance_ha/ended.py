"""What outlives its use: notifications that are done with, and their moves and proofs."""

from __future__ import annotations

from sqlalchemy import select

from cloudctl.db.ended import Ended, before
from cloudctl.instance_ha.bus import KEPT
from cloudctl.instance_ha.kinds import HOST, NOTIFICATION
from cloudctl.instance_ha.tables import OPEN, Event, Member, Notification, Proof, VMove
from cloudctl.tasks.ended import tasks_of
from cloudctl.tasks.tables import TaskRow

_work = TaskRow.table.alias()
_works = select(_work.c.id).where(
    _work.c.resource_type == NOTIFICATION, _work.c.resource_id == Notification.id, _work.c.ended_at.is_(None)
)
# The host is still off; its return lifts them.
_in_force = select(Proof.number).where(Proof.notification_id == Notification.id, Proof.lifted_at.is_(None))
_reserved = select(Member.number).where(Member.reserved_for == Notification.id)

ENDED = (
    Ended(
        "notifications",
        Notification,
        (
            before(Notification.updated_at),
            Notification.status.not_in(OPEN),
            ~_works.exists(),
            ~_in_force.exists(),
            ~_reserved.exists(),
        ),
        along=((VMove.notification_id, Notification.id), (Proof.notification_id, Notification.id)),
    ),
    tasks_of("tasks of notifications", NOTIFICATION, HOST),
    Ended("messages of the bus", Event, (before(Event.at),), least=KEPT),
)
