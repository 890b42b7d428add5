"""Threads for blocking work, and their stand-in for tests."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.python.failure import Failure


class Threads(Protocol):
    """The part of `twisted.python.threadpool.ThreadPool` that is used here."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def callInThread(self, func: Any, *args: Any, **kw: Any) -> None: ...

    def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None: ...


class Inline:
    """Threads and reactor of a test: everything happens at once, in the calling thread."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def callInThread(self, func: Any, *args: Any, **kw: Any) -> None:
        func(*args, **kw)

    def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None:
        try:
            result = func(*args, **kw)
        except BaseException:  # as in a ThreadPool
            onResult(False, Failure())
        else:
            onResult(True, result)

    def callFromThread(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        callable(*args, **kwargs)
