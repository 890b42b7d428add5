"""Consoles that may be opened: who asks gets a token, and whoever brings it opens one console, once.

Reference: compute.md, section 8.8.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, insert, select
from zope.interface import Interface

from cloudctl.compute import servers
from cloudctl.compute.tables import ConsoleToken
from cloudctl.db import Connection
from cloudctl.drivers.interfaces import ISerialConsole, IVncConsole
from cloudctl.errors import Conflict
from cloudctl.rest.caller import Caller

SERIAL, NOVNC = "serial", "novnc"
# What a driver must be able to do for a console of each type.
NEEDS: dict[str, type[Interface]] = {SERIAL: ISerialConsole, NOVNC: IVncConsole}

_by_digest = select(ConsoleToken).where(ConsoleToken.digest == bindparam("wanted"))


def create(conn: Connection, caller: Caller, server_id: str, type: str, lifetime: float) -> str:
    """A token for a console of this type. Raises NotFound, Conflict."""
    server = servers.visible(conn, caller, server_id)
    if server.host is None or server.launched_at is None:
        raise Conflict(f"Instance {server.id} is not ready")
    servers.check(server, "open console")
    conn.execute(delete(ConsoleToken).where(ConsoleToken.expires_at <= caller.now))
    token = secrets.token_urlsafe(32)
    row = ConsoleToken(
        digest=_digest(token),
        server_id=server.id,
        host=server.host,
        type=type,
        expires_at=caller.now + timedelta(seconds=lifetime),
    )
    conn.execute(insert(ConsoleToken), row._asdict())
    return token


def find(conn: Connection, token: str, now: datetime) -> ConsoleToken | None:
    """None for a token that opens nothing (any more): its server is gone, or elsewhere."""
    found = conn.execute(_by_digest, {"wanted": _digest(token)}).first()
    if found is None or found.expires_at <= now:
        return None
    server = servers.find(conn, found.server_id)
    return found if server is not None and server.deleted_at is None and server.host == found.host else None


def take(conn: Connection, token: str, now: datetime) -> ConsoleToken | None:
    """As `find`, and nobody else finds it any more."""
    found = find(conn, token, now)
    if found is None or not conn.execute(delete(ConsoleToken).where(ConsoleToken.digest == found.digest)).rowcount:
        return None
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
