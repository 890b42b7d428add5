"""When a host reported dead is not fenced: if too many die at once, the fault is probably ours, not theirs.

A closed gate holds the notification, and says why. It opens by itself, or when an operator approves. Recoveries pass
one after the other, and each counts those that have passed, fenced or not: fencing takes a while.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import ColumnElement, exists, select

from cloudctl.db import Connection
from cloudctl.db.turns import take_turn
from cloudctl.instance_ha.kinds import OF_HOST
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import IGNORED, OPEN, Member, Notification, Proof
from cloudctl.placement import hosts

# This many may always be fenced.
FEW = 2
HOUR = timedelta(hours=1)


def passes(conn: Connection) -> None:
    """Nobody else passes before this transaction ends: what a gate counts stays as it is."""
    take_turn(conn, "instance_ha/gates")


def closed(conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime) -> str | None:
    """Why the host must not be fenced now; None: it may. Only sure in a transaction that `passes`."""
    if notification.approved:
        return None
    return (
        _cliff(conn, notification, options)
        or _segment(conn, notification, options)
        or _rate(conn, notification, options, now)
    )


def _cliff(conn: Connection, notification: Notification, options: InstanceHaOptions) -> str | None:
    """How many vanished at once, whatever has become of them.

    Including those not reported yet: when a network breaks, its hosts are not all missed at the same moment.
    """
    window = timedelta(seconds=options.cliff_window)
    at, known = notification.created_at, hosts.every(conn)
    gone = _told_dead(conn, Notification.created_at.between(at - window, at + window))
    seen = next((each.seen_at for each in known if each.name == notification.hostname), at)
    gone |= {each.name for each in known if _is_missed(each) and abs(each.seen_at - seen) <= window}
    allowed = _allowed(options.cliff_share, len(known))
    if len(gone) <= allowed:
        return None
    return (
        f"{len(gone)} hosts vanished at once, and {allowed} may: it looks as if the network were broken, not the hosts"
    )


def _allowed(share: float, count: int) -> int:
    """By the share as it was written: 0.29 * 100 is less than 29."""
    return max(FEW, int(Decimal(repr(share)) * count))


def _is_missed(host: hosts.Host) -> bool:
    return not host.up and not host.forced_down


def _segment(conn: Connection, notification: Notification, options: InstanceHaOptions) -> str | None:
    """How much of the segment is gone already."""
    mine = Member.segment_id == notification.segment_id
    members = conn.execute(select(Member).where(mine)).all()
    others = sum(each.on_maintenance and each.id != notification.host_id for each in members)
    allowed = _allowed(options.segment_share, len(members))
    if others < allowed:
        return None
    return f"{others} hosts of the segment are on maintenance, and {allowed} of {len(members)} may be"


def _rate(conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime) -> str | None:
    recent = Proof.at > now - HOUR, Proof.notification_id != notification.id
    fenced = set(conn.scalars(select(Proof.host).where(*recent).distinct())) | _being_fenced(conn, notification)
    if len(fenced) < options.fences_per_hour:
        return None
    return f"{len(fenced)} hosts were fenced within an hour, or are about to be"


def _being_fenced(conn: Connection, notification: Notification) -> set[str]:
    """The hosts whose recoveries have begun and have no proof yet.

    While a notification of a host is open, only its recovery puts it on maintenance.
    """
    begun = select(Member.name).join(Notification.table, Notification.host_id == Member.id)
    others = Notification.status.in_(OPEN), Notification.subject == OF_HOST, Notification.id != notification.id
    unproven = ~exists().where(Proof.notification_id == Notification.id)
    return set(conn.scalars(begun.where(Member.on_maintenance, *others, unproven)))


def _told_dead(conn: Connection, which: ColumnElement[bool]) -> set[str]:
    """The hosts that such notifications report dead, except those that were then seen alive."""
    dead = Notification.kind == OF_HOST, Notification.subject.is_not(None), Notification.status != IGNORED
    return set(conn.scalars(select(Notification.hostname).where(which, *dead)))
