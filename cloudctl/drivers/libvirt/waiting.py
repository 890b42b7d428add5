"""How a call in a thread of its own waits for a guest, and how it learns that nobody waits for the call any more."""

from __future__ import annotations

import time
from contextvars import ContextVar
from threading import Event

from cloudctl.drivers.errors import Unreachable

POLL_SECONDS = 0.1

given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)  # of the call of this thread


def rest(seconds: float = POLL_SECONDS) -> None:
    """Between two looks at a guest. Raises Unreachable, once, if nobody waits for the call any more: whoever gave it up
    takes up the guest anew, so nothing may be done to it behind their back but to undo what was begun.
    """
    told = given_up.get()
    if told is None:
        time.sleep(seconds)
    elif told.wait(seconds):
        told.clear()
        raise Unreachable("nobody waits for the answer any more")
