"""Consoles that are opened: tokens, WebSockets and the guest behind them. Reference: compute.md, section 8.8."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from cloudctl.compute.api.consoles import vnc_link
from cloudctl.compute.console_server import LONGEST, MOST_UNPROVEN, PATIENCE, PERIOD, ConsoleServer
from cloudctl.compute.options import ComputeOptions
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal

SERIAL = {"remote_console": {"protocol": "serial", "type": "serial"}}
BASE = "ws://cloud.example.com:6083"


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"compute": {"console_listen": "tcp:6083:interface=127.0.0.1", "console_connections": 3}})
    yield made
    made.close()


@pytest.fixture(scope="module")
def server_id(cloud: MemoryCloud) -> str:
    return Asking(cloud.client("demo")).boot()


def opened(asking: Asking, server_id: str) -> str:
    answer = asking.post(f"/servers/{server_id}/remote-consoles", SERIAL, "2.6")
    assert answer.status == 200, answer
    shown = answer.json()["remote_console"]
    assert (shown["protocol"], shown["type"]) == ("serial", "serial")
    return str(shown["url"])


@define(eq=False)
class Browser:
    """A client of one WebSocket, with a transport in place of a network."""

    server: ConsoleServer
    transport: StringTransport = field(factory=StringTransport)
    socket: WSConnection = field(factory=lambda: WSConnection(ConnectionType.CLIENT))
    protocol: Any = None
    address: IPv4Address | None = None

    def connect(self) -> Browser:
        self.protocol = self.server.buildProtocol(self.address)
        if self.protocol is not None:
            self.protocol.makeConnection(self.transport)
        return self

    def ask(self, url: str, **more: Any) -> list[Any]:
        self.connect()
        parts = urlsplit(url)
        return self.send(Request(host=parts.netloc, target=f"{parts.path}?{parts.query}", **more))

    def send(self, *events: Any) -> list[Any]:
        self.protocol.dataReceived(b"".join(self.socket.send(each) for each in events))
        return self.events()

    def events(self) -> list[Any]:
        data = self.transport.value()
        self.transport.clear()
        if data:
            self.socket.receive_data(data)
        return list(self.socket.events())

    def leave(self) -> None:
        from twisted.internet.error import ConnectionDone
        from twisted.python.failure import Failure

        self.protocol.connectionLost(Failure(ConnectionDone()))

    @property
    def is_hung_up_on(self) -> bool:
        return self.transport.disconnecting


@pytest.fixture
def browsers(cloud: MemoryCloud) -> Iterator[Any]:
    made: list[Browser] = []

    def another() -> Browser:
        made.append(Browser(cloud.cloud.made(ConsoleServer)))
        return made[-1]

    yield another
    for each in made:
        if each.protocol is not None:
            each.leave()


def data(events: list[Any]) -> bytes:
    return b"".join(bytes(each.data) for each in events if isinstance(each, BytesMessage))


def test_a_console_shows_the_boot_and_what_is_typed(demo: Asking, server_id: str, browsers: Any) -> None:
    url = opened(demo, server_id)
    assert url.startswith(f"{BASE}/?token=")
    browser = browsers()
    accepted, *rest = browser.ask(url, subprotocols=["chat", "binary", "base64"])
    assert isinstance(accepted, AcceptConnection) and accepted.subprotocol == "binary"
    assert b"Linux version" in data(rest) and data(rest).endswith(b"login: ")
    assert data(browser.send(BytesMessage(b"root\r"))) == b"root\r\n"
    assert demo.act(server_id, {"os-getConsoleOutput": {}}).json()["output"].endswith("login: root\n")
    # What happens to the guest is seen, too.
    demo.act(server_id, {"reboot": {"type": "SOFT"}})
    demo.cloud.settle()
    assert b"Restarting system" in data(browser.events())
    # A hard reboot cuts the power, which ends the line.
    demo.act(server_id, {"reboot": {"type": "HARD"}})
    demo.cloud.settle()
    *shown, closed = browser.events()
    assert b"-- power cut --" in data(shown)
    assert isinstance(closed, CloseConnection) and browser.is_hung_up_on
    again = browsers()
    accepted, *rest = again.ask(opened(demo, server_id))
    assert data(rest).endswith(b"login: ")
    (closed,) = again.send(CloseConnection(1000))
    assert isinstance(closed, CloseConnection) and again.is_hung_up_on


def test_clients_that_know_text_alone_speak_base64(demo: Asking, server_id: str, browsers: Any) -> None:
    browser = browsers()
    accepted, shown = browser.ask(opened(demo, server_id), subprotocols=["base64"])
    assert accepted.subprotocol == "base64" and b"login: " in base64.b64decode(shown.data)
    text = base64.b64encode(b"hello\r").decode()
    assert browser.send(TextMessage(text[:3], message_finished=False)) == []
    (echo,) = browser.send(TextMessage(text[3:]))
    assert base64.b64decode(echo.data) == b"hello\r\n"
    (closed,) = browser.send(TextMessage("no base64!"))
    assert closed.code == 1007 and browser.is_hung_up_on


def test_a_message_is_not_kept_without_end(demo: Asking, server_id: str, browsers: Any) -> None:
    browser = browsers()
    browser.ask(opened(demo, server_id), subprotocols=["base64"])
    (closed,) = browser.send(TextMessage("A" * (LONGEST + 1), message_finished=False))
    assert closed.code == 1009 and browser.is_hung_up_on


def test_answers_to_pings_of_one_that_does_not_read_do_not_pile_up(demo: Asking, server_id: str, browsers: Any) -> None:
    browser = browsers()
    browser.ask(opened(demo, server_id))
    assert browser.send(Ping(b"1")) == [Pong(b"1")]
    browser.transport.producer.pauseProducing()
    assert browser.send(*(Ping(b"%d" % number) for number in range(2, 100))) == []
    assert data(browser.send(BytesMessage(b"x"))) == b"", "the guest waits, too"
    browser.transport.producer.resumeProducing()
    first, *rest = browser.events()
    assert first == Pong(b"99") and data(rest) == b"x"


def test_a_token_opens_once_in_its_time_and_for_its_server(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, browsers: Any
) -> None:
    server_id = demo.boot()
    once, late, gone = (opened(demo, server_id) for _ in range(3))
    assert isinstance(browsers().ask(once)[0], AcceptConnection)

    def is_refused(url: str) -> bool:
        browser = browsers()
        (answer,) = [each for each in browser.ask(url) if isinstance(each, RejectConnection)]
        browser.leave()
        return bool(answer.status_code == 403 and browser.is_hung_up_on)

    assert is_refused(once) and is_refused(f"{BASE}/?token=bad") and is_refused(f"{BASE}/")
    path = f"/os-console-auth-tokens/{parse_qs(urlsplit(late).query)['token'][0]}"
    assert admin.get(path, "2.30").status == 401 and demo.get(path, "2.31").status == 403
    shown = admin.get(path, "2.31").json()["console"]
    where = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    assert shown == {"instance_uuid": server_id, "host": where, "port": 6083, "internal_access_path": None}
    assert admin.get(path, "2.99").json()["console"] == {**shown, "tls_port": None}
    demo.cloud.advance(601)
    assert admin.get(path, "2.31").status == 404 and is_refused(late)
    gone = opened(demo, server_id)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert is_refused(gone)


VM = {"name": "vm", "flavorRef": "1", "networks": "none"}
ENDS = ("the token", "the role", "the user", "the server's project")


@pytest.mark.parametrize("what", ENDS)
def test_what_is_taken_away_ends_its_consoles(cloud: MemoryCloud, browsers: Any, what: str) -> None:
    v3, admin = "/identity/v3", cloud.client("admin")

    def make(kind: str, **fields: Any) -> str:
        return str(admin.post(f"{v3}/{kind}s", {kind: {"name": what, **fields}}).json()[kind]["id"])

    project, user = make("project"), make("user", password="password")
    role = admin.get(f"{v3}/roles?name=member").json()["roles"][0]["id"]
    grant = f"{v3}/projects/{project}/users/{user}/roles/{role}"
    assert admin.put(grant).status == 204
    token = cloud.token(what, "password", {"project": {"id": project}})
    asking = Asking(Client(cloud, token))
    made = asking.post("/servers", {"server": {**VM, "imageRef": asking.image}}, LATEST)
    server_id = made.json()["server"]["id"]
    cloud.settle()
    first, later = (opened(asking, server_id) for _ in range(2))
    seen = browsers()
    assert isinstance(seen.ask(first)[0], AcceptConnection)
    # Nothing is wrong with a token that is old.
    cloud.advance(30)
    assert not seen.is_hung_up_on
    changes: dict[str, tuple[Any, ...]] = {
        "the token": ("DELETE", f"{v3}/auth/tokens", None, {"X-Subject-Token": token}),
        "the role": ("DELETE", grant, None, {}),
        "the user": ("PATCH", f"{v3}/users/{user}", {"user": {"enabled": False}}, {}),
        "the server's project": ("DELETE", f"{v3}/projects/{project}", None, {}),
    }
    method, path, body, headers = changes[what]
    assert admin.request(method, path, body, headers=headers).status < 300
    (answer,) = [each for each in browsers().ask(later) if isinstance(each, RejectConnection)]
    assert answer.status_code == 403
    cloud.advance(PERIOD)
    assert seen.events()[-1].code == 1008 and seen.is_hung_up_on
    cloud.advance(PATIENCE)
    assert seen.transport.disconnected, "who does not read the last words would stay for ever"


def test_a_console_that_is_open_outlasts_the_token_that_it_was_asked_for_with() -> None:
    cloud = MemoryCloud({"compute": {"console_listen": "tcp:6083"}})
    demo, seen = Asking(cloud.client("demo")), Browser(cloud.cloud.made(ConsoleServer))
    server_id = demo.boot()
    seen.ask(opened(demo, server_id))
    cloud.advance(2 * 3600)
    cloud.advance(PERIOD)
    assert demo.get("/servers").status == 401
    assert not seen.is_hung_up_on and data(seen.send(BytesMessage(b"x"))) == b"x"
    seen.leave()
    cloud.close()


def test_a_serial_line_has_one_reader(demo: Asking, server_id: str, browsers: Any) -> None:
    first, second = browsers(), browsers()
    first.ask(opened(demo, server_id))
    assert isinstance(second.ask(opened(demo, server_id))[0], AcceptConnection)
    (closed,) = first.events()
    assert closed.code == 1001 and first.is_hung_up_on
    assert data(second.send(BytesMessage(b"x"))) == b"x"


def test_a_guest_that_goes_off_hangs_up(demo: Asking, server_id: str, browsers: Any) -> None:
    browser = browsers()
    browser.ask(opened(demo, server_id))
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    assert isinstance(browser.events()[-1], CloseConnection) and browser.is_hung_up_on
    # Of a guest that is off there is none.
    late = browsers()
    (answer,) = [each for each in late.ask(opened(demo, server_id)) if isinstance(each, RejectConnection)]
    assert answer.status_code == 503
    demo.act(server_id, {"os-start": None})
    demo.cloud.settle()


@pytest.mark.parametrize(
    ("origin", "lets_in"),
    [
        (None, True),
        ("http://cloud.example.com", True),
        ("https://dashboard.example.com:8443", True),
        ("https://dashboard.example.com", False),
        ("https://plain.example.com", True),
        ("http://plain.example.com", False),
        ("http://elsewhere.example.com", False),
        ("null", False),
        ("http://[", False),
    ],
)
def test_pages_of_strangers_open_nothing(origin: str | None, lets_in: bool) -> None:
    origins = ["https://dashboard.example.com:8443", "https://Plain.example.com:443"]
    options = {"console_listen": "tcp:6083", "console_origins": origins}
    cloud = MemoryCloud({"compute": options})
    demo, browser = Asking(cloud.client("demo")), Browser(cloud.cloud.made(ConsoleServer))
    headers = [] if origin is None else [(b"Origin", origin.encode())]
    answer = browser.ask(opened(demo, demo.boot()), extra_headers=headers)[0]
    assert isinstance(answer, AcceptConnection) is lets_in
    browser.leave()
    cloud.close()


@pytest.mark.parametrize("host", ["", "["])
def test_a_page_without_a_host_is_not_ours_whatever_the_host_header_says(cloud: MemoryCloud, host: str) -> None:
    server = cloud.cloud.made(ConsoleServer)
    for origin in (b"null", b"http://["):
        assert not server._trusts(Request(host=host, target="/", extra_headers=[(b"origin", origin)]))


def test_there_are_so_many_connections_and_so_much_patience(cloud: MemoryCloud, browsers: Any) -> None:
    some = [browsers().connect() for _ in range(3)]
    assert browsers().connect().protocol is None
    cloud.advance(PATIENCE)
    assert all(each.transport.disconnected or each.transport.disconnecting for each in some)


@pytest.mark.parametrize(
    ("hosts", "other"),
    [
        (("192.0.2.1",), "192.0.2.2"),
        (("::ffff:192.0.2.1", "192.0.2.1"), "::ffff:192.0.2.2"),
        (("2001:db8::1", "2001:db8::2"), "2001:db8:1::1"),
    ],
)
def test_nobody_keeps_others_out_who_has_no_token(
    cloud: MemoryCloud, demo: Asking, server_id: str, hosts: tuple[str, ...], other: str
) -> None:
    real = cloud.cloud.made(ConsoleServer)
    server = ConsoleServer(cloud.clock, real.rights, real.hypervisor, ComputeOptions(console_listen="tcp:6083"))
    here, there = [IPv4Address("TCP", host, 1) for host in hosts], IPv4Address("TCP", other, 1)
    made: list[Any] = [server.buildProtocol(here[turn % len(here)]) for turn in range(MOST_UNPROVEN)]
    for each in made:
        assert each is not None
        each.makeConnection(StringTransport())
    assert all(server.buildProtocol(each) is None for each in here)
    # Another one is let in, and who has opened a console takes the place of none.
    for _ in range(2):
        browser = Browser(server, address=there)
        assert isinstance(browser.ask(opened(demo, server_id))[0], AcceptConnection)
        made.append(browser.protocol)
    assert sum(each.right is None for each in server.open) == MOST_UNPROVEN
    for each in made:
        each.connectionLost()
    assert not server.open


def test_one_project_cannot_take_all_consoles(cloud: MemoryCloud, demo: Asking, server_id: str) -> None:
    real = cloud.cloud.made(ConsoleServer)
    options = ComputeOptions(console_listen="tcp:6083", console_share=1)
    server = ConsoleServer(cloud.clock, real.rights, real.hypervisor, options)
    first, second, again, other = (Browser(server) for _ in range(4))
    another = demo.boot()
    assert isinstance(first.ask(opened(demo, server_id))[0], AcceptConnection)
    refused = second.ask(opened(demo, another))[0]
    assert isinstance(refused, RejectConnection) and refused.status_code == 503
    # Its own one is taken over.
    assert isinstance(again.ask(opened(demo, server_id))[0], AcceptConnection)
    assert first.is_hung_up_on
    first.leave()
    admin = Asking(cloud.client("admin"))
    foreign = admin.boot()
    assert isinstance(other.ask(opened(admin, foreign))[0], AcceptConnection)
    # Who leaves makes room.
    again.leave()
    assert isinstance(Browser(server).ask(opened(demo, another))[0], AcceptConnection)


def test_the_screen_of_a_guest_is_seen(demo: Asking, server_id: str, browsers: Any) -> None:
    vnc = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    url = demo.post(f"/servers/{server_id}/remote-consoles", vnc, LATEST).json()["remote_console"]["url"]
    browser = browsers()
    accepted, greeting = browser.ask(url)
    assert isinstance(accepted, AcceptConnection) and bytes(greeting.data) == b"RFB 003.008\n"
    (types,) = browser.send(BytesMessage(b"RFB 003.008\n"))
    assert bytes(types.data) == b"\1\1"
    browser.leave()


def test_who_speaks_no_websocket_is_told_so(browsers: Any) -> None:
    for said in (b"GET /?token=x HTTP/1.1\r\nHost: here\r\n\r\n", b"\x16\x03\x01 nothing of this kind\r\n\r\n"):
        browser = browsers().connect()
        browser.protocol.dataReceived(said)
        assert browser.transport.value().startswith(b"HTTP/1.1 4") and browser.is_hung_up_on
        browser.leave()


def test_what_the_driver_cannot_do_now_is_told(
    demo: Asking, server_id: str, browsers: Any, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("open_serial", error=DriverError("no line"))
    (answer,) = [each for each in browsers().ask(opened(demo, server_id)) if isinstance(each, RejectConnection)]
    assert answer.status_code == 503


def test_who_may_open_consoles_and_of_what(demo: Asking, server_id: str) -> None:
    old = demo.act(server_id, {"os-getSerialConsole": {"type": "serial"}}, "2.5").json()["console"]
    assert old["type"] == "serial" and old["url"].startswith(f"{BASE}/?token=")
    assert demo.act(server_id, {"os-getSerialConsole": {"type": "serial"}}, "2.6").status == 404
    spice = {"remote_console": {"protocol": "spice", "type": "spice-html5"}}
    told = refusal(demo.post(f"/servers/{server_id}/remote-consoles", spice, LATEST))
    assert told == (400, "badRequest", "Unavailable console type spice-html5.")
    assert demo.act(server_id, {"lock": {}}, LATEST).status == 202
    opened(demo, server_id)
    demo.act(server_id, {"unlock": None})
    waiting = demo.create().json()["server"]["id"]
    assert demo.post(f"/servers/{waiting}/remote-consoles", SERIAL, LATEST).status == 409
    demo.cloud.settle()


def test_no_console_is_there_that_the_operator_has_not_enabled() -> None:
    cloud = MemoryCloud()
    demo = Asking(cloud.client("demo"))
    answer = demo.post(f"/servers/{demo.boot()}/remote-consoles", SERIAL, LATEST)
    assert refusal(answer) == (400, "badRequest", "Unavailable console type serial.")
    cloud.close()


def test_where_clients_find_consoles() -> None:
    assert ComputeOptions(console_listen="tcp:6083").console_base("here") == "ws://here:6083"
    assert ComputeOptions(console_listen="ssl:port=443:privateKey=k").console_base("here") == "wss://here:443"
    behind = ComputeOptions(console_listen="unix:/run/c", console_url="wss://cloud/console/")
    assert behind.console_base("here") == "wss://cloud/console"
    with pytest.raises(ValueError, match="console_url must say where"):
        ComputeOptions(console_listen="unix:/run/c")
    with pytest.raises(ValueError, match="console_url"):
        ComputeOptions(console_url="http://here")
    assert vnc_link("https://pages/vnc.html", "wss://cloud/console", "T") == (
        "https://pages/vnc.html?autoconnect=true&host=cloud&port=443&encrypt=1&path=console%3Ftoken%3DT"
    )
