"""Proofs that hosts are fenced, and operators' statements. No host is recovered without a proof.

A proof holds only for the notification that it was obtained for: a host that has come back since may be alive.
"""

from __future__ import annotations

from datetime import datetime

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.instance_ha import notifications
from cloudctl.instance_ha.kinds import NOTIFICATION
from cloudctl.instance_ha.tables import Notification, Proof
from cloudctl.placement import hosts
from cloudctl.tasks import queue

OPERATOR = "operator"

_of_notification = select(Proof).where(Proof.notification_id == bindparam("notification")).order_by(Proof.number)


@frozen
class NewProof:
    """`fencer`: the name of a driver, or OPERATOR."""

    fencer: str
    evidence: str


def find(conn: Connection, notification_id: str) -> Proof | None:
    """The first one."""
    return conn.execute(_of_notification, {"notification": notification_id}).first()


def create(conn: Connection, notification: Notification, new: NewProof, now: datetime) -> Proof:
    """A second proof from the same fencer changes nothing."""
    values = {
        "notification_id": notification.id,
        "host": notification.hostname,
        "fencer": new.fencer,
        "evidence": new.evidence,
        "at": now,
    }
    try:
        with conn.begin_nested():
            conn.execute(insert(Proof).values(values))
    except IntegrityError:
        """It is there."""
    found = find(conn, notification.id)
    assert found is not None, "it is in this transaction"
    return found


def note_dead(conn: Connection, notification: Notification) -> bool:
    """Mark the host as down, whatever its driver says. False, with nothing done: there is no proof."""
    if find(conn, notification.id) is None:
        return False
    host = hosts.find(conn, notification.hostname)
    if host is not None and not host.forced_down:
        hosts.change(conn, host, {"forced_down": True})
    return True


def vouch(conn: Connection, hostname: str, evidence: str, now: datetime) -> Notification:
    """An operator has seen that this host is off. Raises Conflict: nothing waits for that."""
    waiting = _waiting(conn, hostname)
    create(conn, waiting, NewProof(OPERATOR, evidence), now)
    _approve(conn, waiting, now)
    return waiting


def let_go_on(conn: Connection, hostname: str, now: datetime) -> Notification:
    """An operator has seen that this host is dead, or does not mind if it is not. Raises Conflict."""
    waiting = _waiting(conn, hostname)
    _approve(conn, waiting, now)
    return waiting


def _waiting(conn: Connection, hostname: str) -> Notification:
    """Raises Conflict."""
    found = notifications.open_of(conn, hostname)
    if found is None:
        raise Conflict(f"No notification that host {hostname} is dead is open.")
    return found


def _approve(conn: Connection, notification: Notification, now: datetime) -> None:
    """Let it go on, whatever it waits for except a proof."""
    conn.execute(update(Notification).where(Notification.id == notification.id).values(approved=True, updated_at=now))
    queue.wake(conn, NOTIFICATION, notification.id)
