"""Who is kept waiting while somebody else tries passwords."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure

from cloudctl import context
from cloudctl.db.threads import Inline
from cloudctl.errors import Unavailable
from cloudctl.identity.passwords import Hasher, Hashing
from cloudctl.identity.turns import Turns
from cloudctl.rest.clients import network_of
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http
from cloudctl.rest.policy import Policy

from .conftest import CHEAP


class Later(Inline):
    """Threads whose work is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None:
        self.work.append((args, lambda: onResult(True, func(*args, **kw))))


class Front:
    """A hasher with two threads, and addresses that log in."""

    def __init__(self, queue: int = 256) -> None:
        self.threads = Later()
        self.hasher = Hasher(Hashing(CHEAP), self.threads, self.threads, queue, at_once=2)  # type: ignore[arg-type]  # the reactor's one method
        self.stored = self.hasher.hashing.hash("good")

    def login(self, address: str, password: str) -> Deferred[bool]:
        def begun() -> Deferred[bool]:
            context.client.set(address)
            return ensureDeferred(self.hasher.verify(self.stored, password))

        return copy_context().run(begun)

    def finish_one(self) -> str:
        """The password that was compared."""
        (_, password), finish = self.threads.work.pop(0)
        finish()
        return str(password)


def test_many_bad_logins_of_one_address_delay_a_good_one_of_another_by_one_turn() -> None:
    front = Front()
    bad = [front.login("198.51.100.1", "bad") for _ in range(60)]
    good = front.login("203.0.113.9", "good")
    # Two were underway, and one is next.
    assert [front.finish_one() for _ in range(4)] == ["bad", "bad", "bad", "good"]
    assert good.called and good.result is True
    while front.threads.work:
        front.finish_one()
    assert [each.result for each in bad] == [False] * 60


def test_a_full_house_makes_room_for_who_has_the_least() -> None:
    front = Front(queue=10)
    bad = [front.login("198.51.100.1", "bad") for _ in range(10)]
    good = front.login("203.0.113.9", "good")
    assert [each.called for each in bad] == [False] * 9 + [True]
    refused: list[Failure] = []
    bad[9].addErrback(refused.append)
    assert isinstance(refused[0].value, Unavailable) and refused[0].value.headers == {"Retry-After": "1"}
    # Whoever has the most gets no more.
    front.login("198.51.100.1", "bad").addErrback(lambda failure: failure.trap(Unavailable))
    assert [front.finish_one() for _ in range(4)] == ["bad", "bad", "bad", "good"]
    assert good.result is True


def test_who_hangs_up_waits_no_longer_and_takes_no_thread_from_others() -> None:
    front = Front(queue=4)
    logins = [front.login("198.51.100.1", "bad") for _ in range(4)]
    for login in logins:
        login.cancel()
        login.addErrback(lambda failure: failure.trap(CancelledError))
    good = front.login("203.0.113.9", "good")
    # Two were being compared already, and go on for all that they are worth.
    assert len(front.threads.work) == 2
    assert [front.finish_one() for _ in range(3)] == ["bad", "bad", "good"]
    assert good.result is True
    assert front.hasher.turns.size == front.hasher.turns.taken == 0


def test_everybody_has_a_turn_after_the_other() -> None:
    turns, order = Turns(1, 100), list[str]()

    def noted(client: str, _: None) -> None:
        order.append(client)

    for client in ("first", "a", "a", "a", "b", "b", "c"):
        turns.take(client).addCallback(partial(noted, client))
    for _ in range(6):
        turns.end()
    assert order == ["first", "a", "b", "c", "a", "b", "a"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        (":", "::", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
def test_a_network_of_version_6_is_one_client(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("::ffff:127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("::ffff:192.0.2.1", "203.0.113.9", "192.0.2.1"),
    ],
)
def test_the_client_is_who_a_believed_proxy_says(keystone: Any, peer: str, forwarded: str | None, client: str) -> None:
    class Request:
        def getClientAddress(self) -> Any:
            return type("Address", (), {"host": peer})()

        def getHeader(self, name: str) -> str | None:
            return forwarded if name == "x-forwarded-for" else None

    http = Http(keystone.tokens, Policy({}), keystone.clock, Metrics(), trusted_proxies=("127.0.0.1",))
    assert http.client(Request()) == client


def test_a_login_has_the_turn_of_its_address(keystone: Any) -> None:
    seen, real = list[str](), keystone.hasher.turns.take

    def take(client: str) -> Any:
        seen.append(client)
        return real(client)

    keystone.hasher.turns.take = take
    keystone.login("demo")
    assert seen == ["127.0.0.1"]
