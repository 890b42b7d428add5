"""Uploads whose bodies take longer to come than the right to send them lasts: it counts when the request began."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport

from cloudctl.identity.options import IdentityOptions
from cloudctl.rest.site import SMALL
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response, encode, parse
from tests.object_store.asking import Account
from tests.object_store.test_object_access import FORM, KEY, form, signed

LIFE = IdentityOptions().token_lifetime


class Slow:
    """A request of which half the body has come."""

    def __init__(self, cloud: MemoryCloud, method: str, url: str, body: bytes, **headers: str) -> None:
        self.method, self.transport = method, StringTransport()
        self.channel: Any = cloud.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        self.channel.makeConnection(self.transport)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = encode(method, url, {"Content-Length": str(len(body)), **sent}, b"")
        self.rest = body[len(body) // 2 :]
        self.channel.dataReceived(data + body[: len(body) // 2])

    def end(self) -> Response:
        self.channel.dataReceived(self.rest)
        return parse(self.transport.value(), self.method)


def test_a_token_may_expire_and_may_not_be_revoked(mine: Account, cloud: MemoryCloud) -> None:
    mine.put("c")
    scope = {"project": {"id": mine.project_id}}
    token, revoked = (cloud.login("demo", "demo-secret", scope) for _ in "ab")
    cloud.advance(LIFE - 5)
    url, body = f"{mine.url}/c/o", bytes(4 * SMALL)
    first, second = (Slow(cloud, "PUT", url, body, X_Auth_Token=each) for each in (token, revoked))
    asked = {"X-Auth-Token": revoked, "X-Subject-Token": revoked}
    assert cloud.anonymous().delete("/identity/v3/auth/tokens", headers=asked).status == 204
    cloud.advance(10)
    late = Slow(cloud, "PUT", url, body, X_Auth_Token=token)
    assert [each.end().status for each in (first, second, late)] == [201, 401, 401]


def test_a_signed_url_and_a_form_may_expire(mine: Account, cloud: MemoryCloud) -> None:
    mine.put("c")
    mine.post(X_Account_Meta_Temp_URL_Key=KEY)
    until = cloud.clock.seconds() + 5
    url = f"{mine.url}/c/o?{signed(mine, 'PUT', 'c/o', until=until)}"
    slow = Slow(cloud, "PUT", url, bytes(4 * SMALL))
    cloud.advance(10)
    late = Slow(cloud, "PUT", url, bytes(4 * SMALL))
    assert [slow.end().status, late.end().status] == [201, 401]
    body = form(mine, "c/p", most=4 * SMALL, a=bytes(4 * SMALL))
    cloud.advance(95)
    slow = Slow(cloud, "POST", f"{mine.url}/c/p", body, **FORM)
    cloud.advance(10)
    late = Slow(cloud, "POST", f"{mine.url}/c/p", body, **FORM)
    assert [slow.end().status, late.end().status] == [201, 401]
