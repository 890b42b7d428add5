"""Metadata for guests whose requests a proxy on their host forwards: only its signature says who asks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.compute.api.guest_metadata import ForwardedMetadata
from cloudctl.compute.options import ComputeOptions
from cloudctl.drivers import forwarded
from cloudctl.drivers.guest_site import BODY_LIMIT, GuestSite
from cloudctl.image.store import ImageStore
from cloudctl.testing.http import Response, encode, parse
from tests.compute.asking import Asking

SECRET = "what hosts and processes share"
PATH = "/openstack/latest/meta_data.json"


def ask(demo: Asking, headers: dict[str, str], path: str = PATH, method: str = "GET", body: bytes = b"") -> Response:
    cloud = demo.cloud
    resource = ForwardedMetadata(cloud.db, cloud.cloud.made(ImageStore).path, SECRET)
    channel: Any = GuestSite(resource, cloud.clock, 60.0).buildProtocol(None)
    transport = StringTransport(peerAddress=IPv4Address("TCP", "192.0.2.7", 40000))
    channel.makeConnection(transport)
    channel.dataReceived(encode(method, path, headers, body))
    channel.connectionLost(Failure(ConnectionDone()))
    return parse(transport.value(), method)


@pytest.fixture
def guest(demo: Asking) -> tuple[str, str]:
    """(id, address) of a server."""
    server_id = demo.boot()
    (port,) = demo.client.get(f"/networking/v2.0/ports?device_id={server_id}").json()["ports"]
    return server_id, str(port["fixed_ips"][0]["ip_address"])


def test_a_signed_request_is_answered_for_the_guest_that_it_names(demo: Asking, guest: tuple[str, str]) -> None:
    server_id, address = guest
    answer = ask(demo, forwarded.headers(SECRET, demo.network, address))
    assert (answer.status, json.loads(answer.body)["uuid"]) == (200, server_id)
    nobody = ask(demo, forwarded.headers(SECRET, demo.network, "192.0.2.99"))
    elsewhere = ask(demo, forwarded.headers(SECRET, "another network", address))
    assert (nobody.status, elsewhere.status) == (404, 404)


def test_a_guest_sets_its_password_through_the_proxy(demo: Asking, guest: tuple[str, str]) -> None:
    headers = forwarded.headers(SECRET, demo.network, guest[1])
    path = "/openstack/latest/password"
    assert [ask(demo, headers, path, "POST", b"sealed").status for _ in range(2)] == [200, 409]
    assert ask(demo, headers, path).body == b"sealed"


@pytest.mark.parametrize(
    "wrong", ["nothing", "no signature", "another secret", "another address", "another network", "é"]
)
def test_any_other_request_learns_nothing(demo: Asking, guest: tuple[str, str], wrong: str) -> None:
    right = forwarded.headers(SECRET, demo.network, guest[1])
    headers = {
        "nothing": {},
        "no signature": {name: value for name, value in right.items() if name != forwarded.SIGNATURE},
        "another secret": forwarded.headers("what somebody guesses", demo.network, guest[1]),
        "another address": right | {forwarded.ADDRESS: "10.0.0.1"},
        "another network": right | {forwarded.NETWORK: "another"},
        "é": right | {forwarded.SIGNATURE: "é"},
    }[wrong]
    answer = ask(demo, headers)
    assert (answer.status, guest[0].encode() in answer.body) == (403, False)


def test_a_body_that_no_guest_would_send_is_refused_before_it_is_read(demo: Asking) -> None:
    assert ask(demo, {}, method="POST", body=bytes(BODY_LIMIT + 1)).status == 413


def test_nobody_listens_without_a_secret_that_cannot_be_guessed() -> None:
    listen = "tcp:8775:interface=127.0.0.1"
    with pytest.raises(ValueError, match="metadata_secret"):
        ComputeOptions(metadata_listen=listen)
    with pytest.raises(ValueError, match="16 bytes"):
        ComputeOptions(metadata_listen=listen, metadata_secret="short")
    assert SECRET not in repr(ComputeOptions(metadata_listen=listen, metadata_secret=SECRET))
