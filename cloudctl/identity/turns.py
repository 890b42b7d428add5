"""Turns: a few things run at once, and the clients that wait are served in rotation.

So a client that asks for a thousand keeps another one waiting for one of them, not for a thousand.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred

from cloudctl.errors import Unavailable
from cloudctl.rest.clients import network_of


class Turns:
    """`at_once` turns are taken at a time; beyond `most`, including those that wait, they are refused."""

    def __init__(self, at_once: int, most: int) -> None:
        self.at_once = at_once
        self.most = most
        self.taken = 0
        self.size = 0
        # The client whose turn is next comes first.
        self._waiting: dict[str, deque[Deferred[None]]] = {}

    def take(self, client: str) -> Deferred[None]:
        """Fires when it is the client's turn, which lasts until `end`. Fails with Unavailable."""
        key = network_of(client)
        if self.size >= self.most and not self._make_room(key):
            refused: Deferred[None] = Deferred()
            refused.errback(full())
            return refused
        self.size += 1
        turn: Deferred[None] = Deferred(lambda turn: self._give_up(key, turn))
        if self.taken < self.at_once:
            self.taken += 1
            turn.callback(None)
        else:
            self._waiting.setdefault(key, deque()).append(turn)
        return turn

    def end(self) -> None:
        """A turn is over."""
        self.size -= 1
        self.taken -= 1
        if self._waiting and self.taken < self.at_once:
            key = next(iter(self._waiting))
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                # The client goes behind all others.
                self._waiting[key] = turns
            self.taken += 1
            turn.callback(None)

    def _make_room(self, key: str) -> bool:
        """Take a place from the client that waits for most, if for more than this one would; returns whether it did."""
        longest = max(self._waiting, key=lambda other: len(self._waiting[other]), default=None)
        if longest is None or len(self._waiting[longest]) <= len(self._waiting.get(key, ())) + 1:
            return False
        turn = self._waiting[longest][-1]
        self._give_up(longest, turn)
        turn.errback(full())
        return True

    def _give_up(self, key: str, turn: Deferred[None]) -> None:
        turns = self._waiting[key]
        turns.remove(turn)
        if not turns:
            del self._waiting[key]
        self.size -= 1


def full() -> Unavailable:
    return Unavailable("Too many logins at once; try again.", headers={"Retry-After": "1"})
