"""How a token is obtained: every method is proved, then `issue` decides on the scope.

Whatever is wrong with credentials, the answer has the same wording and the same cost, so that nobody learns which users
exist. Reference: identity.md, «POST /auth/tokens».
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.identity import lockout, oauth, payload, records, totp
from cloudctl.identity.auth_request import (
    ByApplicationCredential,
    ByOAuth,
    ByPassword,
    ByTotp,
    Method,
    Proof,
    TrustName,
    UserName,
    Wish,
)
from cloudctl.identity.issue import find_user, issue
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.payload import Keys, Token, Unreadable
from cloudctl.identity.records import folded
from cloudctl.identity.signers import subject_of
from cloudctl.identity.subject import Subject, invalid
from cloudctl.identity.tables import ApplicationCredential, User
from cloudctl.identity.tokens import Tokens

log = Logger()


class Logins:
    """Issues tokens."""

    def __init__(self, db: Database, tokens: Tokens, hasher: Hasher, options: IdentityOptions, keys: Keys) -> None:
        self.db = db
        self.tokens = tokens
        self.hasher = hasher
        self.options = options
        # The keys that seal credentials.
        self.keys = keys
        # User id → how many passcodes are being checked and failures being counted.
        self._trying: Counter[str] = Counter()

    async def login(self, methods: Sequence[Method], wish: Wish, receipt: str | None = None) -> tuple[str, Subject]:
        """The token string and what it stands for.

        `receipt`: what NotEnough gave for the methods proved before. Raises Unauthorized, NotEnough (methods are
        missing), Forbidden (a delegation that goes too far).
        """
        earlier = None if receipt is None else self._unsealed(receipt)
        proofs = [await self._prove(method) for method in methods]
        if len({proof.user_id for proof in proofs}) != 1:
            raise invalid()
        transaction = self.db.run if isinstance(wish, TrustName) else self.db.read
        issued = await transaction(self._issue, proofs, wish, earlier)
        # Only once everything required is proved: otherwise anyone with the password could try passcodes for ever.
        if any(proof.had_failures for proof in proofs):
            await self.db.run(lockout.forgiven, proofs[0].user_id, issued.token.methods)
        return self.tokens.seal(issued.token), issued

    def seal_receipt(self, receipt: Token) -> str:
        return payload.seal(receipt, self.tokens.keys, payload.RECEIPT)

    def _unsealed(self, receipt: str) -> Token:
        """Raises Unauthorized."""
        try:
            return payload.unseal(receipt, self.tokens.keys, payload.RECEIPT)
        except Unreadable:
            raise invalid() from None

    async def login_by_ec2(self, access: str, keys: Keys, check: Callable[[str], None]) -> tuple[str, Subject]:
        """A token for a request that was signed with an EC2 secret; `check(secret)` raises Unauthorized.

        Raises NotFound for an unknown access key.
        """
        issued = await self.db.read(self._issue_by_ec2, access, keys, check)
        return self.tokens.seal(issued.token), issued

    async def prove_password(self, user: UserName, password: str) -> Proof:
        """Raises Unauthorized, after the cost of one hash whatever the reason."""
        row = await self.db.read(find_user, user)
        too_long = len(password) > self.options.passwords.maximum_length
        stored = None if row is None or too_long or self._is_locked(row, "password") else row.password_hash
        if not await self.hasher.verify(stored, "" if too_long else password):
            self._failed(row, "password")
            raise invalid()
        assert row is not None and stored is not None
        return Proof("password", row.id, await self._succeeded(row, stored, password), had_failures=row.failures > 0)

    async def _prove_passcode(self, method: ByTotp) -> Proof:
        # It takes as long as a password: passcodes neither reveal which users exist nor are cheap to try in numbers.
        await self.hasher.verify(None, "")
        row = await self.db.read(find_user, method.user)
        # Trying many at once does not get around the lock-out either: those being checked count as failed.
        locked = row is None or self._is_locked(row, "totp", self._trying[row.id])
        user_id = "" if row is None or locked else row.id
        self._trying[user_id] += 1
        try:
            good = await self.db.run(totp.take, user_id, method.passcode, self.keys, self.db.clock.seconds())
        finally:
            self._tried(user_id)
        if not good:
            self._failed(row, "totp")
            raise invalid()
        assert row is not None
        return Proof("totp", row.id, had_failures=row.failures > 0)

    def _tried(self, user_id: str) -> None:
        self._trying[user_id] -= 1
        if not self._trying[user_id]:
            del self._trying[user_id]

    def _failed(self, user: User | None, method: str) -> None:
        """Count it. Failures during a lock-out do not prolong it: it takes new ones to lock the user out again.

        The answer does not wait for the count, or its timing would reveal that the user exists.
        """
        rules = self.options.passwords
        if user is None or not lockout.most_failures(user, method, rules) or self._is_locked(user, method):
            return
        self._trying[user.id] += 1
        counting = ensureDeferred(self.db.run(lockout.failed, user.id, rules, self._now()))
        counting.addErrback(lambda failure: log.failure("a failed login could not be counted", failure))
        counting.addBoth(lambda _: self._tried(user.id))

    async def _prove(self, method: Method) -> Proof:
        if isinstance(method, ByPassword):
            return await self.prove_password(method.user, method.password)
        if isinstance(method, ByTotp):
            return await self._prove_passcode(method)
        if isinstance(method, ByApplicationCredential):
            return await self._prove_credential(method)
        if isinstance(method, ByOAuth):
            row = await self.db.run(oauth.prove, method.request, self.keys, self._now())
            return Proof("oauth1", row.user_id, access_token_id=row.id)
        token = self.tokens.unseal(method.id)
        return Proof("token", token.user_id, token=token)

    async def _prove_credential(self, method: ByApplicationCredential) -> Proof:
        row = await self.db.read(self._credential, method)
        too_long = len(method.secret) > self.options.passwords.maximum_length
        stored = None if row is None or too_long else row.secret_hash
        if not await self.hasher.verify(stored, "" if too_long else method.secret):
            raise invalid()
        assert row is not None
        return Proof("application_credential", row.user_id, row.secret_hash, row.id)

    # -- lookups

    def _credential(self, conn: Connection, method: ByApplicationCredential) -> ApplicationCredential | None:
        if method.id is not None:
            return records.find(conn, ApplicationCredential, method.id)
        owner = find_user(conn, method.user)
        if owner is None or method.name is None:
            return None
        mine = (ApplicationCredential.user_id == owner.id, ApplicationCredential.name_key == folded(method.name))
        return conn.execute(select(ApplicationCredential).where(*mine)).first()

    # -- bookkeeping

    def _now(self) -> datetime:
        return utc(self.db.clock.seconds())

    def _is_locked(self, user: User, method: str, underway: int = 0) -> bool:
        rules, now = self.options.passwords, self._now()
        return lockout.is_locked(user, method, rules, now, underway=underway) or lockout.is_inactive(user, rules, now)

    async def _succeeded(self, user: User, stored: str, password: str) -> str:
        """Store what a good password changes; most logins write nothing. Returns the hash that is stored now."""
        changes: dict[str, Any] = {}
        now = self._now()
        if self.options.passwords.disable_days_inactive and (user.active_at is None or user.active_at < now):
            changes["active_at"] = now
        if self.hasher.hashing.is_outdated(stored):
            changes["password_hash"] = await self.hasher.hash(password)
        if changes:
            await self.db.run(self._write, user.id, stored, changes)
        return str(changes.get("password_hash", stored))

    def _write(self, conn: Connection, user_id: str, password_hash: str, changes: dict[str, Any]) -> None:
        same = (User.id == user_id, User.password_hash == password_hash)
        conn.execute(update(User).where(*same).values(changes))

    # -- issue

    def _issue(self, conn: Connection, proofs: Sequence[Proof], wish: Wish, receipt: Token | None = None) -> Subject:
        return issue(conn, proofs, wish, self.options, self.db.clock.seconds(), receipt)

    def _issue_by_ec2(self, conn: Connection, access: str, keys: Keys, check: Callable[[str], None]) -> Subject:
        return subject_of(conn, access, keys, check, self.options, self.db.clock.seconds())
