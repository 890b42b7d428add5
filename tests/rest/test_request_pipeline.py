"""The path of a request, on a small API of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import pytest
from attrs import evolve, frozen
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from cloudctl.db import Database
from cloudctl.errors import Conflict, Unauthorized
from cloudctl.rest.answers import Answers
from cloudctl.rest.app import ApiApp, Tree
from cloudctl.rest.body import MISSING, Body, Length, Missing, given
from cloudctl.rest.call import Call, Download, Reply
from cloudctl.rest.faults import NAMES, UNAUTHENTICATED, Faults, named, schema_problems
from cloudctl.rest.identity import AccessRule, Identity
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import JSON_LIMIT, Http, Pipeline
from cloudctl.rest.policy import Policy
from cloudctl.rest.route import Routes
from cloudctl.rest.site import PATIENCE, CloudSite
from cloudctl.rest.uploads import SPOOL_PREFIX, Admitted, Uploads
from cloudctl.rest.versions import Microversions
from cloudctl.testing.http import Response, encode, exchange, parse, request

FAULTS = Faults(named(NAMES, "computeFault"), schema_problems)
AT_ROOT = Faults(named({}, "error"), schema_problems)
READER = Identity(user_id="u1", project_id="a" * 32, roles=frozenset({"reader"}))
ADMIN = Identity(user_id="u2", project_id="b" * 32, roles=frozenset({"admin", "manager", "member", "reader"}))
RESTRICTED = Identity(
    user_id="u1",
    project_id="a" * 32,
    roles=frozenset({"reader"}),
    access_rules=(AccessRule("1", "compute", "GET", "/v2.1/things/*"),),
)
TOKENS = {"reader": READER, "admin": ADMIN, "restricted": RESTRICTED}
RULES = {
    "compute:things:list": "reader or admin",
    "compute:things:create": "admin",
    "compute:things:own": "match:user_id",
    "compute:things:record": "match:project_id",
}


class Tokens:
    async def authenticate(self, token: str) -> Identity:
        if token not in TOKENS:
            raise Unauthorized(UNAUTHENTICATED)
        return TOKENS[token]

    authenticate_again = authenticate


@frozen
class Thing:
    name: Annotated[str, Length(1, 10)]
    size: int | Missing | None = MISSING


class Things:
    routes = Routes("Things")

    def __init__(self, file: Path) -> None:
        self.file = file
        self.never: Deferred[None] = Deferred()
        self.full = False
        self.asked: Deferred[None] = succeed(None)

    @routes.get("/things", policy="compute:things:list")
    async def list(self, call: Call) -> dict[str, Any]:
        return {"things": [], "version": list(call.version), "url": call.url, "q": call.query.all("q")}

    @routes.post(
        "/things", policy="compute:things:create", body=Body(Thing, key="thing"), status={(2, 1): 200, (2, 5): 201}
    )
    async def create(self, call: Call, body: Thing) -> dict[str, Any]:
        return {"thing": given(body)}

    @routes.get("/things/<thing_id>", policy="compute:things:list")
    async def show(self, call: Call, thing_id: str) -> dict[str, Any]:
        return {"id": thing_id}

    @routes.delete("/things/<thing_id>", policy="compute:things:list", since=(2, 5))
    async def delete(self, call: Call, thing_id: str) -> None:
        raise Conflict("It is busy.")

    @routes.action("/things/<thing_id>/action", "poke", policy="compute:things:list")
    async def poke(self, call: Call, thing_id: str) -> None:
        return None

    @routes.action("/things/<thing_id>/action", "name", policy="compute:things:create", body=Body(Thing), status=200)
    async def name(self, call: Call, thing_id: str, body: Thing) -> dict[str, Any]:
        return {"name": body.name}

    @routes.get("/users/<user_id>", policy="compute:things:own")
    async def own(self, call: Call, user_id: str) -> dict[str, Any]:
        return {"user": user_id}

    @routes.get("/records/<record>", policy="compute:things:record")
    async def record(self, call: Call, record: str) -> dict[str, Any]:
        call.require(project_id=record)
        return {"record": record}

    @routes.get("/deep/<record>", policy="compute:things:record")
    async def deep(self, call: Call, record: str) -> dict[str, Any]:
        call.caller.require("compute:things:record", project_id=record)
        return {"record": record}

    @routes.get("/careless", policy="compute:things:record")
    async def careless(self, call: Call) -> dict[str, Any]:
        return {}

    @routes.get("/broken", policy=None)
    async def broken(self, call: Call) -> None:
        raise ZeroDivisionError("a secret")

    @routes.get("/slow", policy=None)
    async def slow(self, call: Call) -> None:
        await self.never

    @routes.get("/file", policy=None)
    async def download(self, call: Call) -> Reply:
        return Reply(Download.of(self.file, 2, 3), 206)

    @routes.put("/file", policy="compute:things:create", raw=True, status=204, admits="may_upload")
    async def upload(self, call: Call) -> None:
        (self.file.parent / "name").write_text(str(getattr(call.content, "name", "")))
        (self.file.parent / "kept").write_bytes(call.content.read())

    async def may_upload(self, call: Call) -> Admitted:
        if self.full:
            raise Conflict("It has data already.")
        await self.asked
        return Admitted(call.project_id)


class World:
    def __init__(self, directory: Path) -> None:
        file = directory / "data"
        file.write_bytes(b"0123456789")
        self.clock = Clock()
        self.metrics = Metrics()
        answers = Answers(Database.in_memory(self.clock))
        http = Http(Tokens(), Policy(RULES), self.clock, self.metrics, "", ("127.0.0.1",), answers)
        versions = Microversions("compute", (2, 1), (2, 9), ("X-First",), ("X-After",))
        self.things = Things(file)
        pipeline = Pipeline(http, "compute", FAULTS, versions, legacy_request_id=True)
        app = ApiApp(pipeline, [("/v2.1", self.things)], project_in_path=True)
        root = ApiApp(Pipeline(http, "root", AT_ROOT), [])
        uploads = Uploads(directory / "spool", 1000)
        uploads.sweep()
        self.site = CloudSite(Tree({"compute": lambda: app}, root), self.clock, {"compute": uploads})

    def ask(self, method: str, path: str, body: Any = None, token: str | None = "reader", **headers: str) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["X-Auth-Token"] = token
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return request(self.site, method, path, headers=sent, body=raw)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("cloudctl.rest.site.SMALL", 99)
    return World(tmp_path)


def test_an_answer_is_json_with_its_length_and_request_id(world: World) -> None:
    answer = world.ask("GET", "/compute/v2.1/things?q=1&q=%C3%A4")
    assert answer.status == 200
    assert answer.json() == {
        "things": [],
        "version": [2, 1],
        "url": "http://cloud.example.com/compute/v2.1/things",
        "q": ["1", "ä"],
    }
    assert answer.headers["x-openstack-request-id"] == answer.headers["x-compute-request-id"]
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)


@pytest.mark.parametrize(
    "path", ["/compute/v2.1/things/", "//compute//v2.1//things", f"/compute/v2.1/{'a' * 32}/things"]
)
def test_slashes_and_the_project_id_are_evened_out(world: World, path: str) -> None:
    assert world.ask("GET", path).json()["url"] == "http://cloud.example.com/compute/v2.1/things"


def test_another_project_in_the_path_is_refused(world: World) -> None:
    answer = world.ask("GET", f"/compute/v2.1/{'b' * 32}/things")
    assert answer.status == 400
    assert "Malformed request url" in answer.json()["badRequest"]["message"]


@pytest.mark.parametrize("token", [None, "", "nonsense"])
def test_no_valid_token_is_401_with_a_challenge(world: World, token: str | None) -> None:
    answer = world.ask("GET", "/compute/v2.1/things", token=token, Authorization="Bearer reader")
    assert answer.status == 401
    assert answer.json()["unauthorized"]["code"] == 401
    assert answer.headers["www-authenticate"] == 'Keystone uri="http://cloud.example.com/identity/v3"'


def test_the_policy_comes_before_the_body(world: World) -> None:
    assert world.ask("POST", "/compute/v2.1/things", b"{").status == 403
    assert world.ask("POST", "/compute/v2.1/things", b"{", token="admin").status == 400


def test_a_match_on_the_path_is_decided_at_once(world: World) -> None:
    assert world.ask("GET", "/compute/v2.1/users/u1").status == 200
    assert world.ask("GET", "/compute/v2.1/users/u2").status == 403


def test_a_match_on_the_record_is_decided_by_the_handler(world: World) -> None:
    assert world.ask("GET", f"/compute/v2.1/records/{'a' * 32}").status == 200
    assert world.ask("GET", f"/compute/v2.1/records/{'b' * 32}").status == 403


def test_the_domain_may_decide_the_rule_by_its_name(world: World) -> None:
    assert world.ask("GET", f"/compute/v2.1/deep/{'a' * 32}").status == 200
    assert world.ask("GET", f"/compute/v2.1/deep/{'b' * 32}").status == 403


def test_a_handler_that_forgets_its_record_rule_answers_nothing(world: World, logged_failures: Any) -> None:
    assert world.ask("GET", "/compute/v2.1/careless").status == 500
    assert len(logged_failures.flush(AssertionError)) == 1


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({"X_After": "2.3"}, [2, 3]),
        ({"X_After": "2.3", "OpenStack_API_Version": "volume 3.9, compute 2.4"}, [2, 4]),
        ({"X_After": "2.3", "OpenStack_API_Version": "compute 2.4", "X_First": "2.5"}, [2, 5]),
        ({"OpenStack_API_Version": "compute latest"}, [2, 9]),
        ({"OpenStack_API_Version": "volume 3.9"}, [2, 1]),
    ],
)
def test_the_microversion_is_taken_in_order_and_echoed(
    world: World, headers: dict[str, str], version: list[int]
) -> None:
    answer = world.ask("GET", "/compute/v2.1/things", **headers)
    assert answer.json()["version"] == version
    text = f"2.{version[1]}"
    assert answer.headers["openstack-api-version"] == f"compute {text}"
    assert (answer.headers["x-first"], answer.headers["x-after"]) == (text, text)


def test_a_microversion_out_of_range_is_406_and_a_malformed_one_400(world: World) -> None:
    high = world.ask("GET", "/compute/v2.1/things", X_First="2.99")
    assert (high.status, list(high.json())) == (406, ["computeFault"])
    assert world.ask("GET", "/compute/v2.1/things", X_First="two").status == 400


def test_an_operation_outside_its_versions_is_an_unknown_path(world: World) -> None:
    assert world.ask("DELETE", "/compute/v2.1/things/1").status == 404
    assert world.ask("DELETE", "/compute/v2.1/things/1", X_First="2.5").status == 409


def test_the_status_follows_the_version(world: World) -> None:
    thing = {"thing": {"name": "a"}}
    assert world.ask("POST", "/compute/v2.1/things", thing, token="admin").status == 200
    answer = world.ask("POST", "/compute/v2.1/things", thing, token="admin", X_First="2.5")
    assert (answer.status, answer.json()) == (201, {"thing": {"name": "a"}})


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"\xff", "JSON"),
        (b'{"thing": {"name": "\\u0000"}}', "NUL"),
        ([], "object"),
        ({}, "'thing' is a required property"),
        ({"thing": {"name": "a"}, "other": 1}, "'other' was unexpected"),
        ({"thing": {"name": "a", "x": 1}}, "'x' was unexpected"),
        ({"thing": {"name": 5}}, "5 is not of type 'string' @ $.thing.name"),
        ({"thing": {"name": "x" * 11}}, "too long"),
        ({"thing": {"name": "a", "size": 10**30}}, "size"),
    ],
)
def test_a_wrong_body_is_400_and_says_what_is_wrong(world: World, body: Any, told: str) -> None:
    answer = world.ask("POST", "/compute/v2.1/things", body, token="admin")
    assert answer.status == 400
    assert told in answer.json()["badRequest"]["message"]


def test_null_and_not_given_differ(world: World) -> None:
    answer = world.ask("POST", "/compute/v2.1/things", {"thing": {"name": "a", "size": None}}, token="admin")
    assert answer.json() == {"thing": {"name": "a", "size": None}}


def test_another_media_type_is_415(world: World) -> None:
    answer = world.ask("POST", "/compute/v2.1/things", b"<x/>", token="admin", Content_Type="text/xml")
    assert (answer.status, list(answer.json())) == (415, ["badMediaType"])


def test_an_action_is_chosen_by_the_only_key_of_its_body(world: World) -> None:
    assert world.ask("POST", "/compute/v2.1/things/1/action", {"poke": None}).status == 202
    assert world.ask("POST", "/compute/v2.1/things/1/action", {"name": {"name": "n"}}).status == 403
    named = world.ask("POST", "/compute/v2.1/things/1/action", {"name": {"name": "n"}}, token="admin")
    assert named.json() == {"name": "n"}
    unknown = world.ask("POST", "/compute/v2.1/things/1/action", {"dance": None})
    assert (unknown.status, unknown.json()["badRequest"]["message"]) == (400, "There is no such action: dance")
    assert world.ask("POST", "/compute/v2.1/things/1/action", {"poke": None, "name": {}}).status == 400
    assert world.ask("POST", "/compute/v2.1/things/1/action", [1]).status == 400


def test_an_unknown_path_answers_in_the_envelope_of_its_api(world: World) -> None:
    assert list(world.ask("GET", "/compute/v2.1/nothing").json()) == ["itemNotFound"]
    assert list(world.ask("GET", "/nothing/at/all").json()) == ["error"]
    assert world.ask("GET", "/compute/v2.1/things/%ff").status == 404
    assert world.ask("GET", "/compute/v2.1/things/%00").status == 404


def test_an_unknown_method_is_405_with_the_allowed_ones(world: World) -> None:
    answer = world.ask("PATCH", "/compute/v2.1/things")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert list(answer.json()) == ["badMethod"]


def test_head_answers_as_get_without_a_body(world: World) -> None:
    answer = world.ask("HEAD", "/compute/v2.1/things")
    assert (answer.status, answer.body) == (200, b"")


def test_an_unforeseen_error_is_a_500_with_the_request_id_and_no_detail(world: World, logged_failures: Any) -> None:
    answer = world.ask("GET", "/compute/v2.1/broken")
    assert answer.status == 500
    assert answer.headers["x-openstack-request-id"] in answer.json()["computeFault"]["message"]
    assert b"secret" not in answer.body
    assert len(logged_failures.flush(ZeroDivisionError)) == 1


def test_a_client_that_hangs_up_cancels_quietly(world: World) -> None:
    assert exchange(world.site, encode("GET", "/compute/v2.1/slow", {}, b"")) == b""
    assert world.metrics.running == 0


@pytest.mark.parametrize("query", ["q=%ff", "q=%00", "&".join(f"a{n}=1" for n in range(300))])
def test_a_query_that_is_no_text_is_400(world: World, query: str) -> None:
    assert world.ask("GET", f"/compute/v2.1/things?{query}").status == 400


def test_a_body_over_its_limit_is_413_before_it_has_arrived(world: World) -> None:
    head = encode("POST", "/compute/v2.1/things", {"Content-Length": str(JSON_LIMIT + PATIENCE + 1)}, b"")
    assert parse(exchange(world.site, head), "POST").status == 413


def test_a_body_a_little_over_its_limit_is_413_in_the_services_own_words(world: World) -> None:
    answer = world.ask("POST", "/compute/v2.1/things", b" " * (JSON_LIMIT + 1), token="admin")
    assert (answer.status, list(answer.json())) == (413, ["entityTooLarge"])
    answer = world.ask("POST", "/compute/v2.1/things", b" " * (JSON_LIMIT + 1), token=None)
    assert answer.status == 401


def test_a_chunked_body_is_413_as_soon_as_it_grows_over_its_limit(world: World) -> None:
    head = b"POST /compute/v2.1/things HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert parse(exchange(world.site, head + chunk * (PATIENCE // 0x10000 + 3)), "POST").status == 413


def test_an_upload_is_spooled_where_it_stays_and_gone_afterwards(world: World, tmp_path: Path) -> None:
    answer = world.ask("PUT", "/compute/v2.1/file", b"x" * 500, token="admin", Content_Type="application/octet-stream")
    assert answer.status == 204
    assert (tmp_path / "kept").read_bytes() == b"x" * 500
    assert (tmp_path / "name").read_text().startswith(str(tmp_path / "spool" / "upload-"))
    assert list((tmp_path / "spool").iterdir()) == []


def test_an_upload_without_a_token_is_not_read(world: World) -> None:
    head = encode(
        "PUT", "/compute/v2.1/file", {"Content-Length": "10000000", "Content-Type": "application/octet-stream"}, b""
    )
    assert parse(exchange(world.site, head), "PUT").status == 413


def test_a_download_sends_just_its_part_of_the_file(world: World) -> None:
    answer = world.ask("GET", "/compute/v2.1/file")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (206, b"234", "3")


def test_access_rules_allow_what_they_name_and_nothing_else(world: World) -> None:
    assert world.ask("GET", "/compute/v2.1/things/1", token="restricted").status == 200
    assert world.ask("GET", "/compute/v2.1/things", token="restricted").status == 401


def test_a_start_takes_away_only_uploads_that_nobody_is_receiving(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "spool", 1000)
    uploads.sweep()
    receiving = uploads.spool(Admitted("p"), lambda: None, lambda why: None)
    abandoned = tmp_path / "spool" / f"{SPOOL_PREFIX}abandoned"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1000.0, 1000.0))
    uploads.sweep(before=2000.0)
    assert [file.name for file in (tmp_path / "spool").iterdir()] == [Path(receiving.file.name).name]
    receiving.close()
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["Host", "X-Auth-Token", "OpenStack-API-Version", "Content-Type", "Accept", "X-Forwarded-For", "X-Any"]
)
@pytest.mark.parametrize("path", ["/compute/v2.1/things", "/compute/v2.1/things/%20/"])
def test_a_header_that_is_no_text_is_400(world: World, name: str, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\n".encode() + b"Host: x\r\n" * (name != "Host") + b"Content-Length: 0\r\n"
    answer = parse(exchange(world.site, head + name.encode() + b": a\xff\r\n\r\n"), "POST")
    assert (answer.status, list(answer.json())) == (400, ["badRequest"])


def test_a_header_beyond_ascii_is_text(world: World) -> None:
    assert world.ask("GET", "/compute/v2.1/things", X_Any="é").status == 200


def test_a_host_that_is_no_host_name_is_a_link_like_any_other(world: World) -> None:
    answer = world.ask("GET", "/compute/v2.1/things", Host="a..b")
    assert answer.json()["url"] == "http://a..b/compute/v2.1/things"
    assert world.ask("GET", "/compute/v2.1/nothing", Host="a..b").status == 404


@pytest.mark.parametrize(
    "media", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data"]
)
def test_a_form_is_refused_in_the_words_of_the_service(world: World, media: str) -> None:
    answer = world.ask("POST", "/compute/v2.1/things", b"--x\r\nbroken", token="admin", Content_Type=media)
    assert (answer.status, list(answer.json())) == (415, ["badMediaType"])


def test_a_small_upload_is_taken_without_a_word_where_there_is_room(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.things.asked = Deferred()  # nobody answers, if somebody asks

    def begun(size: int, **more: str) -> tuple[Any, Any]:
        transport = StringTransport()
        channel: Any = world.site.buildProtocol(IPv4Address("TCP", "192.0.2.1", 1))
        channel.makeConnection(transport)
        headers = {"X-Auth-Token": "admin", "Content-Type": "application/octet-stream", "Content-Length": str(size)}
        channel.dataReceived(encode("PUT", "/compute/v2.1/file", {**headers, **more}, b""))
        return channel, transport

    channel, transport = begun(99)
    assert transport.producerState == "producing"
    channel.dataReceived(b"x" * 99)
    assert (parse(transport.value(), "PUT").status, list((tmp_path / "spool").iterdir())) == (204, [])
    assert (tmp_path / "kept").read_bytes() == b"x" * 99
    assert begun(100)[1].producerState == "paused"
    assert begun(99, Expect="100-continue")[1].producerState == "paused"
    monkeypatch.setattr("cloudctl.rest.connections.Channel.free", 0)
    world.site.connections.limits = evolve(world.site.connections.limits, body_memory_per_address=150)
    assert [begun(99)[1].producerState for _ in range(2)] == ["producing", "paused"]


def test_an_upload_that_is_still_asked_about_is_not_read(world: World, tmp_path: Path) -> None:
    """As with PostgreSQL, where a thread answers."""
    world.things.asked = Deferred()
    transport = StringTransport()
    channel: Any = world.site.buildProtocol(IPv4Address("TCP", "192.0.2.1", 1))
    channel.makeConnection(transport)
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/octet-stream", "Content-Length": "500"}
    channel.dataReceived(encode("PUT", "/compute/v2.1/file", headers, b"x" * 100))
    assert transport.producerState == "paused"
    assert list((tmp_path / "spool").iterdir()) == []
    world.things.asked.callback(None)
    assert transport.producerState == "producing"
    assert len(list((tmp_path / "spool").iterdir())) == 1
    channel.dataReceived(b"x" * 400)
    assert parse(transport.value(), "PUT").status == 204
    assert (tmp_path / "kept").read_bytes() == b"x" * 500


def test_an_upload_whose_client_is_gone_before_the_answer_leaves_nothing(world: World, tmp_path: Path) -> None:
    asked = world.things.asked = Deferred()
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/octet-stream", "Content-Length": "500"}
    exchange(world.site, encode("PUT", "/compute/v2.1/file", headers, b"x" * 100))
    asked.callback(None)
    assert list((tmp_path / "spool").iterdir()) == []


class Flying:
    routes = Routes("Flying")

    @routes.get("/flying", policy="compute:things:fly")
    async def fly(self, call: Call) -> None:
        """Fly."""


def test_an_operation_whose_rule_there_is_not_is_found_when_the_api_is_made() -> None:
    http = Http(Tokens(), Policy(RULES), Clock(), Metrics())
    with pytest.raises(LookupError, match="has the rule compute:things:fly"):
        ApiApp(Pipeline(http, "compute", FAULTS), [("", Flying())])
