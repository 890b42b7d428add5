"""A migration that is late is ended: given up, or hurried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.drivers.errors import Aborted, DriverError
from cloudctl.drivers.libvirt import migration
from cloudctl.drivers.libvirt.options import Config

T = TypeVar("T")

log = Logger()


async def attended(going: Awaitable[T], clock: IReactorTime, config: Config, end: Callable[[], Awaitable[None]]) -> T:
    """What `going` gives. Of what is late `end` is called, and again, as it may not move yet when it is told: that
    hurries it if guests may arrive by post-copy, else gives it up, which raises DriverError.
    """
    too_late, seconds = False, config.migration_timeout

    async def told() -> None:
        nonlocal too_late
        too_late = not config.post_copy
        try:
            await end()
        except DriverError as error:
            log.warn("a migration that is late could not be ended: {why}", why=error)

    late = LoopingCall(lambda: ensureDeferred(told()))
    late.clock = clock
    waiting = clock.callLater(seconds, late.start, migration.AGAIN_SECONDS)
    try:
        return await going
    except Aborted as error:
        if too_late:
            raise DriverError(f"the guest had not arrived after {seconds:g} s; it stays where it was") from error
        raise
    finally:
        if waiting.active():
            waiting.cancel()
        if late.running:
            late.stop()
