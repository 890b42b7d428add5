"""A migration that takes too long is given up, or hurried. One that ended without notice is not waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.drivers.errors import Aborted, DriverError
from cloudctl.drivers.libvirt import migration
from cloudctl.drivers.libvirt.options import Config

T = TypeVar("T")

LOOK_SECONDS = 1.0
# Looks in a row that must find a migration over before its call is no longer awaited.
LOOKS = 5
# Looks after the request within which a migration has begun: libvirt waits half a minute for a guest's other jobs.
BEGINNING = 60

log = Logger()


@define
class Seen:
    """A migration, judged by what each look finds of the guest. `sent`: whether libvirt was asked for it."""

    sent: Callable[[], bool]
    has_left: bool = field(default=False, init=False)
    looks: int = field(default=0, init=False)

    def is_over(self, leaves: bool) -> bool:
        self.has_left |= leaves
        self.looks += self.sent()
        # A migration that broke off before the first look was never seen to leave.
        return not leaves and (self.has_left or self.looks > BEGINNING)


async def attended(
    going: Coroutine[Any, Any, T],
    clock: IReactorTime,
    config: Config,
    end: Callable[[], Awaitable[None]],
    is_over: Callable[[], Awaitable[bool]],
) -> T:
    """The result of `going`. If it takes too long, `end` is called, repeatedly because the guest may not be moving yet:
    that hurries the migration if guests may arrive by post-copy, else gives it up, which raises DriverError. So does a
    migration that `is_over` while `going` does not return.
    """
    too_late, seconds, over = False, config.migration_timeout, 0
    call = ensureDeferred(going)

    async def told() -> None:
        nonlocal too_late
        too_late = not config.post_copy
        try:
            await end()
        except DriverError as error:
            log.warn("an overdue migration could not be ended: {why}", why=error)
        except Exception:
            # Whatever it is, the next word may be heard.
            log.failure("an overdue migration could not be ended")

    async def looked() -> None:
        nonlocal over
        try:
            over = over + 1 if await is_over() else 0
        except DriverError as error:
            # If that lasts, `going` fails as well.
            log.debug("a migration could not be looked at: {why}", why=error)
        except Exception:
            log.failure("a migration could not be looked at")
        if over == LOOKS:
            call.cancel()

    late, looking = LoopingCall(lambda: ensureDeferred(told())), LoopingCall(lambda: ensureDeferred(looked()))
    late.clock = looking.clock = clock
    waiting = clock.callLater(seconds, late.start, migration.AGAIN_SECONDS)
    looking.start(LOOK_SECONDS, now=False)
    try:
        result: T = await call
        return result
    except Aborted as error:
        if too_late:
            raise DriverError(f"the guest had not arrived after {seconds:g} s; it stays where it was") from error
        raise
    except DriverError as error:
        if over == LOOKS:
            raise DriverError("libvirt moves the guest no more, and does not say why") from error
        raise
    finally:
        if looking.running:
            looking.stop()
        if waiting.active():
            waiting.cancel()
        if late.running:
            late.stop()
