"""Tokens for consoles: each opens one console, once.

A console token is worth no more than the API token it was requested with. That one is stored with it, encrypted by it,
and has to be valid and give access to the server when the console is opened, and as long as it is open.
Reference: compute.md, section 8.8.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime, timedelta

from attrs import frozen
from cryptography.fernet import Fernet
from sqlalchemy import bindparam, delete, insert, select
from zope.interface import Interface

from cloudctl.compute import servers
from cloudctl.compute.tables import ConsoleToken
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import ISerialConsole, IVncConsole
from cloudctl.errors import Conflict, NotFound, Unauthorized
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Authenticator
from cloudctl.rest.policy import Policy

RULE = "compute:servers:consoles"
SERIAL, NOVNC = "serial", "novnc"
# What a driver must be able to do for a console of each type.
NEEDS: dict[str, type[Interface]] = {SERIAL: ISerialConsole, NOVNC: IVncConsole}

_by_digest = select(ConsoleToken).where(ConsoleToken.digest == bindparam("wanted"))


def create(conn: Connection, caller: Caller, asker: str, server_id: str, type: str, lifetime: float) -> str:
    """A token for a console of this type. `asker`: the caller's token. Raises NotFound, Conflict."""
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
        asker=_seal(token).encrypt(asker.encode()).decode(),
    )
    conn.execute(insert(ConsoleToken), row._asdict())
    return token


@frozen
class Right:
    """The right to see a console, held by the user who requested it."""

    console: ConsoleToken
    project_id: str  # the server's
    asker: str  # that user's token


@frozen
class Rights:
    """Finds rights and checks that they hold."""

    db: Database
    authenticator: Authenticator
    policy: Policy

    async def find(self, token: str) -> Right | None:
        """None for a token that opens nothing (any more)."""
        found = await self.db.read(_find, token, self._now)
        return found if found is not None and await self.holds(found) else None

    async def take(self, token: str) -> Right | None:
        """Like `find`, but nobody finds it again."""
        found = await self.find(token)
        return found if found is not None and await self.db.run(_take, found.console) else None

    async def holds(self, right: Right) -> bool:
        """Whether the user who requested it may still see it, and the server is where it was."""
        try:
            identity = await self.authenticator.authenticate_again(right.asker)
        except Unauthorized:
            return False
        caller = Caller(identity, self.policy, self._now, "")
        return caller.may(RULE) and await self.db.read(_is_there, caller, right.console)

    @property
    def _now(self) -> datetime:
        return utc(self.db.clock.seconds())


def _find(conn: Connection, token: str, now: datetime) -> Right | None:
    found = conn.execute(_by_digest, {"wanted": _digest(token)}).first()
    if found is None or found.asker is None or found.expires_at <= now:
        return None
    server = servers.find(conn, found.server_id)
    return None if server is None else Right(found, server.project_id, _seal(token).decrypt(found.asker).decode())


def _take(conn: Connection, console: ConsoleToken) -> bool:
    return conn.execute(delete(ConsoleToken).where(ConsoleToken.digest == console.digest)).rowcount == 1


def _is_there(conn: Connection, caller: Caller, console: ConsoleToken) -> bool:
    try:
        return servers.visible(conn, caller, console.server_id).host == console.host
    except NotFound:
        return False


def _seal(token: str) -> Fernet:
    """With a key other than the digest that the database stores of the token."""
    key = hashlib.sha256(b"asker:" + token.encode("utf-8", "surrogateescape")).digest()
    return Fernet(base64.urlsafe_b64encode(key))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
