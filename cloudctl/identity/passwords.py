"""Passwords and secrets: argon2id, in its own threads, so that a login never stalls another request.

Every check costs one hash: an unknown user, a user without a password and a password that is too long are checked
against a hash that nothing matches.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from argon2 import PasswordHasher
from argon2.exceptions import HashingError, InvalidHashError, VerificationError
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.threadpool import ThreadPool

from cloudctl import context
from cloudctl.db.threads import Inline, Threads
from cloudctl.errors import ConfigError
from cloudctl.identity.options import Argon2
from cloudctl.identity.turns import Turns

T = TypeVar("T")

SALT = 16
DIGEST = 32


class Hashing:
    """The hash function, in the calling thread."""

    def __init__(self, parameters: Argon2) -> None:
        self._hasher = PasswordHasher(
            parameters.time_cost, parameters.memory_cost, parameters.parallelism, hash_len=DIGEST, salt_len=SALT
        )
        cost = f"m={parameters.memory_cost},t={parameters.time_cost},p={parameters.parallelism}"
        self._nothing = f"$argon2id$v=19${cost}${_random(SALT)}${_random(DIGEST)}"

    def hash(self, secret: str) -> str:
        """Raises ConfigError if it costs more than this machine has."""
        try:
            return self._hasher.hash(secret)
        except (HashingError, OverflowError) as error:
            raise ConfigError([f"identity.argon2: no password can be hashed at this cost: {error}"]) from error

    def verify(self, stored: str | None, secret: str) -> bool:
        """Whether `secret` is the one that was hashed. `stored` None matches nothing, at the same cost."""
        try:
            return self._hasher.verify(stored or self._nothing, secret) and stored is not None
        except (VerificationError, InvalidHashError):
            return False

    def is_outdated(self, stored: str) -> bool:
        """Whether it was made with parameters other than the current ones."""
        return self._hasher.check_needs_rehash(stored)


class Hasher(Service):
    """The same, in threads. Each client address gets its turn, however many hashes others request; requests beyond
    `queue` are refused rather than kept waiting.
    """

    def __init__(
        self, hashing: Hashing, threads: Threads, reactor: IReactorFromThreads, queue: int, at_once: int = 1
    ) -> None:
        self.hashing = hashing
        self.turns = Turns(at_once, queue)
        self._threads = threads
        self._reactor = reactor

    @classmethod
    def open(cls, parameters: Argon2, reactor: IReactorFromThreads, threads: int, queue: int) -> Hasher:
        """Raises ConfigError if this machine cannot hash at the cost that was chosen."""
        hashing = Hashing(parameters)
        if parameters != Argon2():
            hashing.hash("")
        return cls(hashing, ThreadPool(0, threads, name="passwords"), reactor, queue, threads)

    @classmethod
    def inline(cls, parameters: Argon2) -> Hasher:
        """For a cloud in memory: everything happens at once."""
        threads = Inline()
        return cls(Hashing(parameters), threads, cast(IReactorFromThreads, threads), 1)

    def startService(self) -> None:
        super().startService()
        self._threads.start()

    def stopService(self) -> None:
        super().stopService()
        self._threads.stop()

    async def hash(self, secret: str) -> str:
        """Raises Unavailable."""
        return await self._in_thread(self.hashing.hash, secret)

    async def verify(self, stored: str | None, secret: str) -> bool:
        """Raises Unavailable."""
        return await self._in_thread(self.hashing.verify, stored, secret)

    async def _in_thread(self, fn: Callable[..., T], *args: Any) -> T:
        await self.turns.take(context.client.get())
        computed: Deferred[T] = Deferred()

        def ended(success: bool, result: Any) -> None:
            # The turn is over when the thread is free, not when a client hangs up.
            self.turns.end()
            computed.callback(result)

        self._threads.callInThreadWithCallback(
            lambda success, result: self._reactor.callFromThread(ended, success, result), fn, *args
        )
        return await computed


def _random(size: int) -> str:
    return base64.b64encode(os.urandom(size)).decode().rstrip("=")
