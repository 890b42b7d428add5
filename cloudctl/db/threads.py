"""Threads for blocking work, and what stands for them in a test."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any, ParamSpec, Protocol, TypeVar

from twisted.python.failure import Failure

P = ParamSpec("P")
T = TypeVar("T")


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
        except BaseException:  # as a ThreadPool has it
            onResult(False, Failure())
        else:
            onResult(True, result)

    def callFromThread(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        callable(*args, **kwargs)


def aside(threads: Threads, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """`fn` begins in another thread; what is returned waits for its end, and gives or raises what it came to.

    The caller is in a thread itself, and of another pool: one that waits for its own may wait for ever.
    """
    ended, came_to = Event(), list[tuple[bool, Any]]()

    def end(success: bool, result: Any) -> None:
        came_to.append((success, result))
        ended.set()

    def wait() -> T:
        ended.wait()
        ((success, result),) = came_to
        if not success:
            result.raiseException()
        made: T = result
        return made

    threads.callInThreadWithCallback(end, fn, *args, **kwargs)
    return wait
