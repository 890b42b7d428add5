"""Pages: a list that is made at the pace of the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from twisted.internet.defer import Deferred

from cloudctl.rest.pages import Pages, send
from tests.conftest import LoggedFailures


class Consumer:
    """Remembers what was written; `transport` is its own."""

    def __init__(self) -> None:
        self.written = b""
        self.producer: Any = None
        self.aborted = False
        self.transport = self

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def write(self, data: bytes) -> None:
        self.written += data

    def abortConnection(self) -> None:
        self.aborted = True


class Source:
    """Gives pages, and counts how often it is asked."""

    def __init__(self, *pages: Sequence[Any]) -> None:
        self.left = list(pages)
        self.asked = 0

    async def following(self) -> Sequence[Any]:
        self.asked += 1
        return self.left.pop(0) if self.left else ()


def started(source: Source, consumer: Consumer, paused: bool = False) -> Deferred[None]:
    pages = Pages("ports", [{"id": 1}, {"id": 2}], source.following)
    register = consumer.registerProducer

    def pausing(producer: Any, streaming: bool) -> None:
        register(producer, streaming)
        producer.pauseProducing()

    if paused:
        consumer.registerProducer = pausing  # type: ignore[method-assign]  # as a transport whose buffer is full
    return Deferred.fromCoroutine(send(pages, consumer))


def test_the_pages_are_one_list() -> None:
    consumer = Consumer()
    started(Source([{"id": 3}], [{"id": 4}]), consumer)
    assert orjson.loads(consumer.written) == {"ports": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]}
    assert consumer.producer is None


def test_no_page_is_made_for_a_client_that_does_not_read() -> None:
    source, consumer = Source([{"id": 3}], [{"id": 4}]), Consumer()
    done = started(source, consumer, paused=True)
    assert source.asked == 0 and not done.called
    consumer.producer.resumeProducing()
    assert done.called and source.asked == 3 and consumer.written.endswith(b"]}")


def test_a_hang_up_ends_it() -> None:
    source, consumer = Source([{"id": 3}]), Consumer()
    done = started(source, consumer, paused=True)
    done.addErrback(lambda failure: None)
    done.cancel()
    assert done.called and source.asked == 0


def test_half_a_list_does_not_look_like_a_whole_one(logged_failures: LoggedFailures) -> None:
    async def fail() -> Sequence[Any]:
        raise OSError("the database is gone")

    consumer = Consumer()
    Deferred.fromCoroutine(send(Pages("ports", [1], fail), consumer))
    assert consumer.aborted and not consumer.written.endswith(b"]}")
    logged_failures.flush(OSError)
