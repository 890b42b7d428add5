"""Reserves: hosts of a segment that are kept free, and taken for one recovery each.

A taken reserve is enabled and, if so configured, put into the aggregates of the host that it replaces: placement rules
hold for a reserve, too. A reserve that got no guest is given back as it was.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.instance_ha import members
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Member, Notification
from cloudctl.placement import aggregates, hosts

log = Logger()

DISABLED = "kept in reserve"


def take(
    conn: Connection,
    notification: Notification,
    options: InstanceHaOptions,
    tried: frozenset[str],
    now: datetime,
) -> str | None:
    """The name of a reserve other than those `tried`: one that this recovery has, or a new one. None: none is left."""
    usable = select(Member).where(Member.segment_id == notification.segment_id, Member.reserved, ~Member.on_maintenance)
    found = conn.execute(usable.order_by(Member.number)).all()
    for member in sorted(found, key=lambda each: each.reserved_for != notification.id):
        host = hosts.find(conn, member.name)
        if member.reserved_for not in (None, notification.id) or member.name in tried:
            continue
        if host is None or not hosts.is_alive(host):
            continue
        if member.reserved_for == notification.id:
            return member.name
        free = Member.id == member.id, Member.reserved, Member.reserved_for.is_(None)
        taken = update(Member).where(*free).values(reserved_for=notification.id, woken=not host.enabled, updated_at=now)
        if conn.execute(taken).rowcount:
            if not host.enabled:
                hosts.change(conn, host, {"enabled": True, "disabled_reason": None})
            if options.add_reserved_host_to_aggregate:
                members.note(conn, member.id, {"joined": _join(conn, host, notification.hostname, now)}, now)
            return member.name
    return None


def _join(conn: Connection, reserve: hosts.Host, name: str, now: datetime) -> list[str]:
    """The ids of that host's aggregates that the reserve was not in yet."""
    joined = []
    for aggregate in aggregates.of_host(conn, name):
        try:
            aggregates.add_host(conn, aggregate, reserve, now)
        except (Conflict, NotFound) as error:
            # It is already in, or in another zone: then servers that need this zone find no room on it. Or it is gone.
            log.info("reserve host {name}: {why}", name=reserve.name, why=error.message)
        else:
            joined.append(aggregate.id)
    return joined


def settle(conn: Connection, notification_id: str, used: frozenset[str], now: datetime) -> None:
    """Reserves that got guests of this recovery are no longer reserves; the others taken for it are free as before."""
    for member in conn.execute(select(Member).where(Member.reserved_for == notification_id)).all():
        is_used = member.name in used
        free: dict[str, Any] = {"reserved_for": None, "woken": False, "joined": []}
        members.note(conn, member.id, {**free, "reserved": member.reserved and not is_used}, now)
        host = hosts.find(conn, member.name)
        if host is None or is_used:
            continue
        _leave(conn, host, frozenset(member.joined), now)
        if member.woken:
            hosts.change(conn, host, {"enabled": False, "disabled_reason": DISABLED})


def _leave(conn: Connection, reserve: hosts.Host, joined: frozenset[str], now: datetime) -> None:
    for aggregate in aggregates.of_host(conn, reserve.name):
        if aggregate.id not in joined:
            continue
        try:
            aggregates.remove_host(conn, aggregate, reserve, now)
        except (Conflict, NotFound) as error:
            # Somebody has placed a server there that needs its zone.
            log.warn("reserve host {name} could not leave an aggregate: {why}", name=reserve.name, why=error.message)
