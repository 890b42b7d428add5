"""Several waits at once, for drivers: all go on, whatever becomes of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from twisted.internet.defer import Deferred, FirstError, gatherResults

T = TypeVar("T")


async def all_of(asked: Iterable[Deferred[T]]) -> list[T]:
    """What each of them returns. Raises what the first that fails has raised, as it is."""
    try:
        return list(await gatherResults(asked, consumeErrors=True))
    except FirstError as error:
        error.subFailure.raiseException()
