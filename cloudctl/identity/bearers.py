"""Application credentials in place of a token: for tools that send the same header for ever and cannot log in.

    Authorization: Bearer appcred:ID:SECRET

It is proved like a login, at the same cost, and stands for the token that such a login gives: its project, its roles,
its access rules. That token is cached, so that not every request costs a hash, and validated for every request, so that
the credential, its user or a role can be taken away at once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from cloudctl.db import Database
from cloudctl.errors import Unauthorized
from cloudctl.identity.auth_request import ByApplicationCredential, UserName
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.payload import Keys
from cloudctl.identity.tokens import Tokens
from cloudctl.rest.identity import Identity

if TYPE_CHECKING:
    from cloudctl.identity.login import Logins

PREFIX = "appcred:"
KEPT = 1000


class Bearers:
    """Implements `rest.identity.Authenticator`: for tokens, and for application credentials."""

    def __init__(self, db: Database, tokens: Tokens, hasher: Hasher, options: IdentityOptions, keys: Keys) -> None:
        self.db = db
        self.tokens = tokens
        self.hasher = hasher
        self.options = options
        self.keys = keys
        self._logins: Logins | None = None
        # By the digest of what was sent: no secret stays in memory.
        self._kept: OrderedDict[bytes, str] = OrderedDict()

    @property
    def logins(self) -> Logins:
        if self._logins is None:
            from cloudctl.identity.login import Logins  # start-up does not wait for it

            self._logins = Logins(self.db, self.tokens, self.hasher, self.options, self.keys)
        return self._logins

    async def authenticate(self, token: str) -> Identity:
        """Raises Unauthorized; Unavailable: too many logins at once."""
        if not token.startswith(PREFIX):
            return await self.tokens.authenticate(token)
        digest = hashlib.sha256(token.encode()).digest()
        if (kept := self._kept.get(digest)) is not None:
            try:
                return await self.tokens.authenticate(kept)
            except Unauthorized:
                # It has expired, or its credential is gone: a login shows which.
                self._kept.pop(digest, None)
        made = await self._log_in(token)
        self._kept[digest] = made
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return await self.tokens.authenticate(made)

    async def authenticate_again(self, token: str) -> Identity:
        if token.startswith(PREFIX):
            return await self.authenticate(token)
        return await self.tokens.authenticate_again(token)

    async def _log_in(self, token: str) -> str:
        id, _, secret = token.removeprefix(PREFIX).partition(":")
        made, _subject = await self.logins.login([ByApplicationCredential(id, None, UserName(), secret)], None)
        return made
