"""A migration that is late is ended: given up, or hurried. One that has ended without a word is not waited for."""

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
# So often in a row it is seen to be over before nobody waits for the word of it any more.
LOOKS = 5
# So many looks after it was asked for it has begun: libvirt waits for half a minute for what else is done to a guest.
BEGINNING = 60

log = Logger()


@define
class Seen:
    """A migration by what is seen of the guest with each look. `sent`: whether libvirt was asked for it."""

    sent: Callable[[], bool]
    has_left: bool = field(default=False, init=False)
    looks: int = field(default=0, init=False)

    def is_over(self, leaves: bool) -> bool:
        self.has_left |= leaves
        self.looks += self.sent()
        # What broke off before the first look was never seen to leave.
        return not leaves and (self.has_left or self.looks > BEGINNING)


async def attended(
    going: Coroutine[Any, Any, T],
    clock: IReactorTime,
    config: Config,
    end: Callable[[], Awaitable[None]],
    is_over: Callable[[], Awaitable[bool]],
) -> T:
    """What `going` gives. Of what is late `end` is called, and again, as it may not move yet when it is told: that
    hurries it if guests may arrive by post-copy, else gives it up, which raises DriverError. So does what `is_over`
    while its end is not told.
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

    async def looked() -> None:
        nonlocal over
        try:
            over = over + 1 if await is_over() else 0
        except DriverError as error:
            # If that lasts, `going` is told so, too.
            log.debug("a migration could not be looked at: {why}", why=error)
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
