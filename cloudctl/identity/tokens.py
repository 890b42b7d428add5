"""The tokens of this cloud, as the pipeline of every API uses them: a token string → the Identity behind it."""

from __future__ import annotations

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.errors import Unauthorized
from cloudctl.identity import payload, subject
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys, Token, Unreadable
from cloudctl.identity.remembered import Memory, Remembered
from cloudctl.identity.subject import Subject
from cloudctl.rest.identity import Identity


class Tokens:
    """Implements `rest.identity.Authenticator`."""

    def __init__(self, db: Database, keys: Keys, options: IdentityOptions) -> None:
        self.db = db
        self.keys = keys
        self.options = options
        self.memory = Memory(db, options)

    async def authenticate(self, token: str) -> Identity:
        """The identity behind a token. Raises Unauthorized."""
        return (await self._found(token)).identity

    async def authenticate_again(self, token: str) -> Identity:
        """For a token that began something long: it may have expired a while ago. Raises Unauthorized."""
        try:
            return await self.authenticate(token)
        except Unauthorized:
            return (await self.db.read(self._read, self.unseal(token), self.options.allow_expired_window)).identity

    async def subject(self, token: str) -> Subject:
        """All that a token stands for. Raises Unauthorized."""
        return (await self._found(token)).subject

    async def _found(self, token: str) -> Remembered:
        found = await self.memory.find(token)
        if found is None:
            unsealed, generation = self.unseal(token), self.memory.generation
            found = self.memory.put(token, await self.db.read(self._read, unsealed), generation)
        return found

    def unseal(self, token: str) -> Token:
        """Raises Unauthorized if it is not a token of this cloud. Does not check whether it is still valid."""
        known = self.memory.kept.get(token)
        if known is not None:
            return known.subject.token
        try:
            return payload.unseal(token, self.keys)
        except Unreadable:
            raise subject.invalid() from None

    def seal(self, token: Token) -> str:
        return payload.seal(token, self.keys)

    def forget(self) -> None:
        self.memory.forget()

    def _read(self, conn: Connection, token: Token, window: int = 0) -> Subject:
        return subject.read(conn, token, utc(self.db.clock.seconds()), window)
