"""The tokens of this cloud, as the pipeline of every API uses them: a token string → the Identity behind it.

What a token was found to stand for is remembered. With SQLite, where one process serves, a commit that changes the
epoch makes it forget; with PostgreSQL the epoch is read for each request, so that the change of another process is seen
by the very next one.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.errors import Unauthorized
from cloudctl.identity import epoch, payload, subject
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys, Token, Unreadable
from cloudctl.identity.subject import Subject
from cloudctl.rest.identity import Identity

USUAL = 16  # roles and access rules of one token, at most


@frozen
class Remembered:
    subject: Subject
    identity: Identity
    until: float  # seconds since the epoch of time

    @property
    def weight(self) -> int:
        """How many usual tokens it counts for. Whatever else it holds is short, so `cache_size` bounds bytes, too."""
        rules = self.identity.access_rules or ()
        return 1 + (len(self.subject.roles) + len(rules)) // USUAL


class Tokens:
    """Implements `rest.identity.Authenticator`."""

    def __init__(self, db: Database, keys: Keys, options: IdentityOptions) -> None:
        self.db = db
        self.keys = keys
        self.options = options
        self._remembered: OrderedDict[str, Remembered] = OrderedDict()
        self._weight = 0
        # Raised whenever everything is forgotten: what was read before that may be old already.
        self._generation = 0
        db.on_commit(epoch.CHANNEL, self.forget)

    async def authenticate(self, token: str) -> Identity:
        """The identity behind a token. Raises Unauthorized."""
        return (await self._found(token)).identity

    async def authenticate_again(self, token: str) -> Identity:
        """Of one that began something long: also if it has expired a while ago. Raises Unauthorized."""
        try:
            return await self.authenticate(token)
        except Unauthorized:
            return (await self.db.read(self._read, self.unseal(token), self.options.allow_expired_window)).identity

    async def subject(self, token: str) -> Subject:
        """All that a token stands for. Raises Unauthorized."""
        return (await self._found(token)).subject

    async def _found(self, token: str) -> Remembered:
        found = self._remembered.get(token)
        if found is not None and found.until > self.db.clock.seconds() and await self._is_current(found):
            # Another request may have made it forget in the meantime.
            if token in self._remembered:
                self._remembered.move_to_end(token)
            return found
        unsealed = self.unseal(token)
        generation = self._generation
        read = await self.db.read(self._read, unsealed)
        ends = (read.ends_at - utc(0)).total_seconds()
        until = min(ends, self.db.clock.seconds() + self.options.cache_seconds)
        found = Remembered(read, read.identity, until)
        if generation == self._generation:
            self._remember(token, found)
        return found

    def unseal(self, token: str) -> Token:
        """Raises Unauthorized if it is not a token of this cloud. Whether it is still valid is not looked at."""
        found = self._remembered.get(token)
        if found is not None:
            return found.subject.token
        try:
            return payload.unseal(token, self.keys)
        except Unreadable:
            raise subject.invalid() from None

    def seal(self, token: Token) -> str:
        return payload.seal(token, self.keys)

    def forget(self) -> None:
        self._remembered.clear()
        self._weight = 0
        self._generation += 1

    async def _is_current(self, found: Remembered) -> bool:
        return self.db.is_sqlite or found.subject.epoch == await self.db.read(epoch.current)

    def _read(self, conn: Connection, token: Token, window: int = 0) -> Subject:
        return subject.read(conn, token, utc(self.db.clock.seconds()), window)

    def _remember(self, token: str, found: Remembered) -> None:
        self._forget(token)
        self._remembered[token] = found
        self._weight += found.weight
        while self._weight > self.options.cache_size:
            self._forget(next(iter(self._remembered)))

    def _forget(self, token: str) -> None:
        forgotten = self._remembered.pop(token, None)
        if forgotten is not None:
            self._weight -= forgotten.weight
