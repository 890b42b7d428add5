"""Services that stop one after the other."""

from __future__ import annotations

from threading import Event
from typing import Any

from twisted.internet import task

from cloudctl.service import ThreadsService


async def test_the_reactor_turns_while_threads_that_block_are_waited_for(reactor: Any) -> None:
    service, goes_on, has_begun, ended = ThreadsService("work", 1, reactor), Event(), Event(), Event()

    def work() -> None:
        has_begun.set()
        if goes_on.wait(10.0):
            ended.set()

    service.startService()
    service.pool.callInThread(work)
    assert has_begun.wait(60.0)
    assert all(thread.daemon for thread in service.pool.threads), "the process would not end without them"
    stopping = service.stopService()
    await task.deferLater(reactor, 0.01)
    goes_on.set()
    await stopping
    assert ended.is_set(), "the reactor could not let it go on"
