"""Receivers: how far each has come, which process delivers to it, and since when nothing gets through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy import case, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.db.wishes import matches
from cloudctl.events import outbox
from cloudctl.events.tables import Receiver

FIRST, MOST = 1.0, 300.0  # seconds between two attempts
TOLD = 500  # characters of an error
GONE = 86400.0  # seconds without a lease after which a receiver that is behind is nobody's


def find(conn: Connection, name: str, *, lock: bool = False) -> Receiver | None:
    wanted = select(Receiver).where(Receiver.name == name)
    return conn.execute(wanted.with_for_update() if lock else wanted).first()


def every(conn: Connection) -> Sequence[Receiver]:
    return conn.execute(select(Receiver).where(Receiver.name != outbox.OUTBOX).order_by(Receiver.name)).all()


def ensure(conn: Connection, name: str) -> Receiver:
    """A new receiver gets what comes from now on."""
    found = find(conn, name)
    if found is None:
        # Another process may be first.
        with suppress(IntegrityError), conn.begin_nested():
            conn.execute(insert(Receiver).values(name=name, position=outbox.last(conn)))
        found = find(conn, name)
        assert found is not None, "it is there by now"
    return found


def take(conn: Connection, name: str, owner: str, now: datetime, lease: float) -> Receiver | None:
    """Become the one process that delivers to it, for `lease` seconds. None: another one is, or it is too early."""
    ensure(conn, name)
    at = seconds(now)
    free = or_(Receiver.owner.is_(None), Receiver.owner == owner, Receiver.lease_until < at)
    mine = Receiver.name == name, Receiver.not_before <= at, free
    taken = conn.execute(update(Receiver).where(*mine).values(owner=owner, lease_until=at + lease))
    return find(conn, name) if taken.rowcount else None


def let_go(conn: Connection, name: str, owner: str) -> None:
    conn.execute(update(Receiver).where(Receiver.name == name, Receiver.owner == owner).values(owner=None))


def advance(conn: Connection, name: str, owner: str, position: int, refused: int, now: datetime, lease: float) -> bool:
    """Note that it has everything up to `position`, and renew the lease. False: another process has taken over."""
    # Events that were too old may have been passed over meanwhile.
    furthest = case((Receiver.position > position, Receiver.position), else_=position)
    well = {"position": furthest, "failures": 0, "error": None, "stuck_since": None, "not_before": 0.0}
    mine = Receiver.name == name, Receiver.owner == owner
    values = {**well, "refused": Receiver.refused + refused, "lease_until": seconds(now) + lease}
    return conn.execute(update(Receiver).where(*mine).values(**values)).rowcount > 0


def move(conn: Connection, name: str, position: int) -> None:
    """For a receiver that takes its events in the same transaction."""
    conn.execute(update(Receiver).where(Receiver.name == name).values(position=position))


def fail(conn: Connection, name: str, owner: str, why: str, now: datetime) -> float:
    """It does not take what is next, and is tried again after a growing pause. Returns the pause in seconds."""
    found = find(conn, name, lock=True)
    if found is None or found.owner != owner:
        return MOST
    pause = min(MOST, FIRST * 2.0 ** min(found.failures, 20))
    values = {
        "failures": found.failures + 1,
        "error": why[:TOLD],
        "stuck_since": found.stuck_since or now,
        "not_before": seconds(now) + pause,
        "owner": None,
    }
    conn.execute(update(Receiver).where(Receiver.name == name).values(**values))
    return pause


def pass_over(
    conn: Connection, end: int, now: datetime, types: Mapping[str, tuple[str, ...]]
) -> Sequence[tuple[str, int]]:
    """Move receivers that are not at `end` past what is about to go; (name, how many it loses) of those that lose any.

    `types`: what each wants, if that is not everything. A receiver to which nobody has delivered for long is no longer
    configured, and is forgotten.
    """
    # Locked, so that one which comes further meanwhile is not set back.
    late = select(Receiver).where(Receiver.name != outbox.OUTBOX, Receiver.position < end).order_by(Receiver.name)
    behind = conn.execute(late.with_for_update()).all()
    # One that takes events in transactions of its own is never leased.
    gone = {each.name for each in behind if 0 < each.lease_until < seconds(now) - GONE}
    if gone:
        conn.execute(delete(Receiver).where(Receiver.name.in_(gone)))
    lost: list[tuple[str, int]] = []
    for each in behind:
        if each.name in gone:
            continue
        found, wanted = outbox.count(conn, each.position, end), types.get(each.name, ("*",))
        count = sum(number for type, number in found.items() if matches(type, wanted))
        moved = update(Receiver).where(Receiver.name == each.name)
        conn.execute(moved.values(position=end, lost=Receiver.lost + count))
        if count:
            lost.append((each.name, count))
    return lost
