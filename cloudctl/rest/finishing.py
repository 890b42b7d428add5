"""Work that goes on to its end, even if the client who asked for it hangs up."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.errors import CloudError

log = Logger()

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> Deferred[T]:
    """Fires with the outcome of `work`, which goes on to its end even if the one who waits hangs up."""
    waiting: Deferred[T] = Deferred()

    def ended(outcome: T | Failure) -> None:
        if not waiting.called:
            waiting.callback(outcome)
        elif isinstance(outcome, Failure) and not outcome.check(CloudError):
            log.failure("work failed after its client had hung up", failure=outcome)

    ensureDeferred(work).addBoth(ended)
    return waiting
