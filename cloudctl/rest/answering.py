"""Answering: runs the coroutine of one answer to its end, and sends what it returns.

Most answers never wait: no Deferred is made for those, and nothing has to watch for the client's hanging up. For one
that waits, the client's hanging up cancels what it waits for.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()

Answer = Coroutine[Deferred[Any], Any, bytes | None]


class Answering:
    """Answers `request` with the bytes that `coroutine` returns; None means that it has written the body itself."""

    __slots__ = ("_awaited", "_context", "_coroutine", "_gone", "_request")

    def __init__(self, request: Any, coroutine: Answer) -> None:
        self._request = request
        self._coroutine = coroutine
        # Its own, as that of a Deferred's coroutine would be: the request id ends with it.
        self._context = copy_context()
        self._awaited: Deferred[Any] | None = None
        self._gone = False

    def start(self) -> None:
        """Answer now, or begin to wait. What the coroutine raises before its first wait goes to the caller."""
        try:
            awaited = self._context.run(self._coroutine.send, None)
        except StopIteration as end:
            self._send(end.value)
        else:
            self._request.notifyFinish().addErrback(self._hung_up)
            self._wait(awaited)

    def _wait(self, awaited: Deferred[Any]) -> None:
        self._awaited = awaited
        awaited.addBoth(self._resume)

    def _resume(self, result: object) -> None:
        """Go on with what was waited for."""
        try:
            if isinstance(result, Failure):
                awaited = self._context.run(result.throwExceptionIntoGenerator, self._coroutine)
            else:
                awaited = self._context.run(self._coroutine.send, result)
        except StopIteration as end:
            if not self._gone:
                self._send(end.value)
        except BaseException:  # as for any resource: 500, and its traceback is logged
            self._fail(Failure())
        else:
            self._wait(awaited)

    def _fail(self, failure: Failure) -> None:
        if not self._gone:
            self._request.processingFailed(failure)
        elif not failure.check(CancelledError):
            log.failure("the answer failed after its client had gone", failure)

    def _hung_up(self, _reason: Failure) -> None:
        self._gone = True
        if self._awaited is not None:
            self._awaited.cancel()

    def _send(self, body: bytes | None) -> None:
        if body is not None:
            self._request.write(body)
        self._request.finish()
