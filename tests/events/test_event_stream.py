"""Administrators follow events, and go on where they were cut off."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import encode
from tests.events.test_events import tell
from tests.there import there

PATH = "/events/v1/stream"


class Follower:
    """One connection that is kept open."""

    def __init__(self, cloud: MemoryCloud, path: str = PATH, user: str = "admin", **headers: str) -> None:
        address = IPv4Address("TCP", "127.0.0.1", 54321)
        self.transport = StringTransport(peerAddress=address)
        self.channel = cast(Any, cloud.site.buildProtocol(address))
        self.channel.makeConnection(self.transport)
        sent = {"X-Auth-Token": cloud.client(user).token or "", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.channel.dataReceived(encode("GET", path, sent, b""))

    @property
    def status(self) -> int:
        return int(self.transport.value().split(b" ", 2)[1])

    @property
    def events(self) -> list[dict[str, str]]:
        _, _, body = self.transport.value().partition(b"\r\n\r\n")
        text = "".join(part.decode() for number, part in enumerate(body.split(b"\r\n")) if number % 2)
        found = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block]
        return [each for each in found if "event" in each]

    @property
    def types(self) -> list[str]:
        return [each["event"] for each in self.events]

    def hang_up(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


def test_events_come_as_they_happen_with_an_id_to_go_on_from(cloud: MemoryCloud) -> None:
    tell(cloud, 0)
    first = Follower(cloud)
    assert first.status == 200 and b"text/event-stream" in first.transport.value() and first.events == []
    tell(cloud, 1)
    tell(cloud, 2)
    assert first.types == ["test.1", "test.2"]
    event = json.loads(first.events[0]["data"])
    assert event["event_type"] == "test.1" and event["payload"] == {"number": 1}
    first.hang_up()
    tell(cloud, 3)
    second = Follower(cloud, Last_Event_ID=first.events[0]["id"])
    assert second.types == ["test.2", "test.3"]
    second.hang_up()


def test_what_is_not_kept_any_more_is_told_to_be_lost(cloud: MemoryCloud) -> None:
    tell(cloud, 0)
    first = Follower(cloud)
    tell(cloud, 1)
    tell(cloud, 2)
    first.hang_up()
    cloud.advance(86_400 + 120)
    cloud._tokens.clear()
    second = Follower(cloud, Last_Event_ID=first.events[0]["id"])
    assert second.types == ["lost"] and json.loads(second.events[0]["data"]) == {"count": 1}
    second.hang_up()


def test_what_a_slow_follower_misses_is_told_to_be_lost() -> None:
    cloud = MemoryCloud({"events": {"stream": True, "most": 3}})
    follower = Follower(cloud)
    tell(cloud, 0)
    # It reads nothing for a while.
    there(follower.transport.producer).pauseProducing()
    for number in range(1, 11):
        tell(cloud, number)
    cloud.advance(120)
    there(follower.transport.producer).resumeProducing()
    cloud.advance(1)
    assert follower.types[0] == "test.0" and follower.types[-4:] == ["lost", "test.8", "test.9", "test.10"]
    lost = json.loads(follower.events[-4]["data"])["count"]
    assert lost + len(follower.types) - 1 == 11
    follower.hang_up()
    cloud.close()


def test_a_follower_chooses_types(cloud: MemoryCloud) -> None:
    follower = Follower(cloud, f"{PATH}?type=test.1*&type=other.*")
    for number in (1, 2, 11):
        tell(cloud, number)
    assert follower.types == ["test.1", "test.11"]
    follower.hang_up()


def test_a_stream_ends_after_its_time_and_only_so_many_are_open() -> None:
    cloud = MemoryCloud({"events": {"stream": True, "streams": 2, "stream_limit": 30.0}})
    followers = [Follower(cloud) for _ in range(3)]
    assert [each.status for each in followers] == [200, 200, 503]
    followers[0].hang_up()
    followers.append(Follower(cloud))
    assert followers[-1].status == 200
    for _ in range(5):
        cloud.advance(10)
    assert followers[1].transport.value().endswith(b"0\r\n\r\n")
    followers.append(Follower(cloud))
    assert followers[-1].status == 200
    for each in followers[1:]:
        each.hang_up()
    cloud.close()


def test_a_stream_lasts_no_longer_than_it_may() -> None:
    cloud = MemoryCloud({"events": {"stream": True, "stream_limit": 3.0}})
    follower = Follower(cloud)
    cloud.advance(2)
    assert not follower.transport.value().endswith(b"0\r\n\r\n")
    cloud.advance(1)
    assert follower.transport.value().endswith(b"0\r\n\r\n")
    follower.hang_up()
    cloud.close()


def test_no_two_take_the_last_place_while_the_database_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = MemoryCloud({"events": {"stream": True, "streams": 2}})
    cloud.client("admin")
    read, asked = cloud.db.read, list[Deferred[None]]()

    async def later(fn: Any, *args: Any) -> Any:
        """As PostgreSQL answers."""
        if fn.__module__.endswith("streams"):
            asked.append(Deferred())
            await asked[-1]
        return await read(fn, *args)

    monkeypatch.setattr(cloud.db, "read", later)
    followers = [Follower(cloud) for _ in range(4)]
    for question in asked:
        question.callback(None)
    assert len(asked) == 4 and sorted(each.status for each in followers) == [200, 200, 503, 503]
    for each in followers:
        each.hang_up()
    cloud.close()


def test_it_ends_with_the_right_to_follow(cloud: MemoryCloud) -> None:
    first, second = (Follower(cloud) for _ in range(2))
    admin = cloud.client("admin")
    revoked = {"X-Subject-Token": str(admin.token)}
    assert admin.request("DELETE", "/identity/v3/auth/tokens", headers=revoked).status == 204
    cloud._tokens.clear()
    tell(cloud, 1)
    for each in (first, second):
        assert each.events == [] and each.transport.value().endswith(b"0\r\n\r\n")
    again = Follower(cloud)
    tell(cloud, 2)
    assert again.types == ["test.2"]
    again.hang_up()


def test_it_is_for_administrators_where_the_operator_wants_it(cloud: MemoryCloud) -> None:
    assert cloud.client("demo").get(PATH).status == 403
    assert cloud.anonymous().get(PATH).status == 401
    assert cloud.client("admin").get(PATH, headers={"Last-Event-ID": "none"}).status == 400
    without = MemoryCloud()
    try:
        assert without.client("admin").get(PATH).status == 409
    finally:
        without.close()
