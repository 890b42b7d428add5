"""Static large objects that take long to make: the answer begins at once, and its end tells what has become of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.identity.options import IdentityOptions
from cloudctl.object_store.api.manifests import BEAT, Manifests
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import encode, parse
from tests.object_store.asking import Account
from tests.object_store.test_object_access import KEY, signed

BODY = b'[{"path": "c/s"}]'
SPACE = b"1\r\n \r\n"  # as a chunk
QUERY = "multipart-manifest=put&heartbeat=on"
JSON = "application/json"


class Asked:
    """A request whose answer may still be coming."""

    def __init__(self, cloud: MemoryCloud, url: str, **headers: str) -> None:
        self.transport = StringTransport()
        self.channel: Any = cloud.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        self.channel.makeConnection(self.transport)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.channel.dataReceived(encode("PUT", url, sent, BODY))

    @property
    def spaces(self) -> int:
        """How many have come. Nothing else may have."""
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 202 ") and not body.replace(SPACE, b"")
        return body.count(SPACE)

    @property
    def body(self) -> bytes:
        return parse(self.transport.value(), "PUT").body

    def hang_up(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Deferred[None]]]:
    """What each large object waits for before it is made."""
    waiting: list[Deferred[None]] = []
    create = Manifests._create

    async def late(self: Manifests, *args: Any) -> Any:
        waiting.append(Deferred())
        await waiting[-1]
        return await create(self, *args)

    monkeypatch.setattr(Manifests, "_create", late)
    yield waiting
    assert all(each.called for each in waiting)


@pytest.fixture
def o(mine: Account) -> Account:
    mine.put("c")
    mine.put("c/s", b"data")
    return mine


def asked(o: Account, cloud: MemoryCloud, query: str = QUERY, **headers: str) -> Asked:
    return Asked(cloud, f"{o.url}/c/large?{query}", X_Auth_Token=str(o.client.token), **headers)


def test_the_status_comes_at_once_and_spaces_until_the_end(
    o: Account, cloud: MemoryCloud, held: list[Deferred[None]]
) -> None:
    sent = asked(o, cloud, Accept=JSON)
    assert sent.spaces == 1
    cloud.advance(BEAT - 1)
    assert sent.spaces == 1
    for _ in range(3):
        cloud.advance(BEAT)
    assert sent.spaces == 4
    assert o.head("c/large").status == 404
    held[0].callback(None)
    assert json.loads(sent.body)["Response Status"] == "201 Created"
    assert o.get("c/large").body == b"data"
    cloud.advance(BEAT)


def test_who_was_let_in_hears_the_end_though_the_token_or_the_url_has_expired(
    o: Account, cloud: MemoryCloud, held: list[Deferred[None]]
) -> None:
    o.post(X_Account_Meta_Temp_URL_Key=KEY)
    scope = {"project": {"id": o.project_id}}
    url, until = f"{o.url}/c/large?{QUERY}", cloud.clock.seconds() + 5
    by_token = Asked(cloud, url, X_Auth_Token=cloud.login("demo", "demo-secret", scope), Accept=JSON)
    by_url = Asked(cloud, f"{url}&{signed(o, 'PUT', 'c/large', until=until)}", Accept=JSON)
    cloud.advance(IdentityOptions().token_lifetime + BEAT)
    for each in held:
        each.callback(None)
    said = [json.loads(each.body)["Response Status"] for each in (by_token, by_url)]
    # The URL is for writing, and not for reading what the large object is made of.
    assert said == ["201 Created", "400 Bad Request"]


def test_the_answer_is_text_or_xml_in_spite_of_its_spaces(
    o: Account, cloud: MemoryCloud, held: list[Deferred[None]]
) -> None:
    text, xml = asked(o, cloud, Accept="text/plain"), asked(o, cloud, Accept="application/xml")
    cloud.advance(BEAT)
    for each in held:
        each.callback(None)
    assert text.body.startswith(b"  \r\n\r\nResponse Status: 201 Created\n")
    assert ElementTree.fromstring(xml.body).findtext("response_status") == "201 Created"


def test_who_hangs_up_no_longer_waits(o: Account, cloud: MemoryCloud, held: list[Deferred[None]]) -> None:
    sent = asked(o, cloud)
    sent.hang_up()
    assert held[0].called
    cloud.advance(2 * BEAT)
    assert o.head("c/large").status == 404


def test_what_nobody_expected_is_a_status_too(
    o: Account, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, logged_failures: Any
) -> None:
    async def broken(self: Manifests, *args: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Manifests, "_create", broken)
    said = json.loads(asked(o, cloud, Accept=JSON).body)
    logged_failures.flush(RuntimeError)
    assert said["Response Status"] == "500 Internal Server Error"
    assert "broken" not in said["Response Body"] and "req-" in said["Response Body"]
