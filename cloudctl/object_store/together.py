"""Small contents that go to the disk together: while some are synced, new ones wait for the next sync.

Syncing small data takes longer than writing it, and syncing several hardly longer than one: so uploads share the wait,
as calls share a commit of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from cloudctl.object_store.store import Content, Taken

# At once: the first one waits for the last.
MOST = 64


@define(eq=False)
class Together:
    """`settle_all` brings all of them to the disk, or fails."""

    settle_all: Callable[[Sequence[Taken]], Deferred[list[Content]]]
    _waiting: list[tuple[Taken, Deferred[Content]]] = field(factory=list, init=False)
    _busy: bool = field(default=False, init=False)

    def settle(self, taken: Taken) -> Deferred[Content]:
        """Fires once it is on the disk. Fails with what `settle_all` raised, whichever data was at fault."""
        answer: Deferred[Content] = Deferred()
        self._waiting.append((taken, answer))
        if not self._busy:
            self._next()
        return answer

    def _next(self) -> None:
        now, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        self._busy = bool(now)
        if now:
            answers = [answer for _, answer in now]
            kept = self.settle_all([taken for taken, _ in now])
            kept.addCallbacks(self._kept, self._failed, callbackArgs=(answers,), errbackArgs=(answers,))

    def _kept(self, contents: Sequence[Content], answers: Sequence[Deferred[Content]]) -> None:
        # The next ones are on their way before anybody is told.
        self._next()
        for content, answer in zip(contents, answers, strict=True):
            answer.callback(content)

    def _failed(self, why: Failure, answers: Sequence[Deferred[Content]]) -> None:
        self._next()
        for answer in answers:
            answer.errback(why)
