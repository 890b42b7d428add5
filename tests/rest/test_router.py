"""The router chooses what Klein would choose, and leaves to Klein what it does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from klein import Klein
from twisted.internet.task import Clock
from werkzeug.exceptions import HTTPException

from cloudctl.compute.api import FAULTS as OF_COMPUTE
from cloudctl.identity.api.faults import FAULTS as OF_IDENTITY
from cloudctl.rest.app import ApiApp, Tree
from cloudctl.rest.call import Call
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.policy import Policy
from cloudctl.rest.route import Routes
from cloudctl.rest.router import VARIABLE, Endpoint, Router
from cloudctl.rest.site import CloudSite
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response, encode, exchange, parse
from tests.hostile.values import TEXTS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "TRACE")


@pytest.fixture(scope="module")
def apis() -> dict[str, ApiApp]:
    cloud = MemoryCloud().cloud
    return {**cloud.apis, "root": cloud.root_api}


def klein_finds(api: ApiApp, method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
    """What the Klein tree of the API makes of a path."""
    resource: Any = api.klein
    app: Klein = resource._app
    # Klein takes the path as bytes joined by slashes.
    matcher = app.url_map.bind("cloud.example.com", "/compute", path_info=path, default_method=method)
    try:
        rule, variables = matcher.match(return_rule=True)
    except HTTPException:
        return None
    name = str(rule.endpoint)
    public = name.endswith(" (public)")
    return (name.removesuffix(" (public)"), public), dict(variables)


def test_every_operation_is_found_as_klein_finds_it(apis: dict[str, ApiApp]) -> None:
    declared = [(api, path, operation.method) for api in apis.values() for path, operation in api.operations]
    assert len(declared) > 400
    for api, template, method in declared:
        path = VARIABLE.sub(r"some-\1", template)
        found = api.router.find(method.encode(), path)
        assert found is not None, f"{method} {template} is left to Klein"
        assert found == klein_finds(api, method, path)
        assert found[1] == {variable: f"some-{variable}" for variable in VARIABLE.findall(template)}


@st.composite
def paths(draw: st.DrawFn, templates: list[str]) -> str:
    """A declared path, with hostile values, and perhaps with segments that are missing, foreign or empty."""
    template = draw(st.sampled_from(templates))
    literals = {segment for path in templates for segment in path.split("/") if not segment.startswith("<")}
    hostile = [*sorted(literals), *TEXTS, "", "%2F", "a\n", "\n", "\0", "a\u2028"]
    foreign = st.one_of(st.sampled_from(hostile), st.text("ab<>.%;\té ", max_size=5))
    segments = [draw(foreign) if VARIABLE.fullmatch(s) else s for s in template[1:].split("/")]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(segments)))
        segments[at : at + draw(st.integers(0, 1))] = draw(st.lists(foreign, max_size=2))
    return "/" + "/".join(segments)


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_path_is_found_as_klein_finds_it(apis: dict[str, ApiApp], data: st.DataObject) -> None:
    # One that takes names as they come never asks Klein.
    api = apis[data.draw(st.sampled_from(sorted(name for name in apis if not apis[name].pipeline.verbatim)))]
    path = data.draw(paths(sorted({path for path, _ in api.operations})))
    method = data.draw(st.sampled_from(METHODS))
    found, expected = api.router.find(method.encode(), path), klein_finds(api, method, path)
    # Klein evens out slashes and the case of methods; that is left to it.
    odd = method != method.upper() or "" in path[1:].split("/")
    assert found == expected or (odd and found is None)


def test_a_method_that_ends_elsewhere_is_looked_for_there() -> None:
    router = Router(((("/a/<b>", False), ("DELETE",)), (("/a/detail", False), ("GET",)), (("/a/<c>", True), ("GET",))))
    assert router.find(b"GET", "/a/detail") == (("/a/detail", False), {})
    assert router.find(b"DELETE", "/a/detail") == (("/a/<b>", False), {"b": "detail"})
    assert router.find(b"GET", "/a/1") == (("/a/<c>", True), {"c": "1"})
    assert router.find(b"PUT", "/a/1") is None
    assert router.find(b"GET", "/a/") is None


def test_the_first_of_two_endpoints_of_one_path_and_method_is_chosen_as_in_klein() -> None:
    router = Router(((("/a", True), ("GET",)), (("/a", False), ("GET", "PUT"))))
    assert router.find(b"GET", "/a") == (("/a", True), {})
    assert router.find(b"PUT", "/a") == (("/a", False), {})


class Echo:
    """Says which Operation was chosen, and with what."""

    routes = Routes("Echo")

    @routes.get("/", policy=None)
    async def root(self, call: Call) -> dict[str, Any]:
        return {"root": call.url}

    @routes.get("/things", policy=None)
    async def list(self, call: Call) -> dict[str, Any]:
        return {"list": call.url, "project": call.path_project}

    @routes.get("/things/<thing_id>", policy=None)
    async def show(self, call: Call, thing_id: str) -> dict[str, Any]:
        return {"show": thing_id, "url": call.url, "project": call.path_project}

    @routes.delete("/things/<thing_id>", policy=None)
    async def delete(self, call: Call, thing_id: str) -> None:
        return None

    @routes.get("/things/detail", policy=None)
    async def detail(self, call: Call) -> dict[str, Any]:
        return {"detail": call.url}

    @routes.get("/things/<thing_id>/parts/<part>", policy=None)
    async def part(self, call: Call, thing_id: str, part: str) -> dict[str, Any]:
        return {"part": part, "of": thing_id}


class Nobody:
    async def authenticate(self, token: str) -> Any:
        raise AssertionError("no Operation here wants a token")

    authenticate_again = authenticate


def served(routed: bool) -> CloudSite:
    http = Http(Nobody(), Policy({}), Clock(), Metrics())
    api = ApiApp(Pipeline(http, "echo", OF_COMPUTE), [("/v1", Echo())], project_in_path=True)
    root = ApiApp(Pipeline(http, "root", OF_IDENTITY), [])
    if not routed:
        api.router = Router(())
    return CloudSite(Tree({"echo": lambda: api}, root), Clock(), None)


def said(response: Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = response.body.replace(headers.pop("x-openstack-request-id", "").encode() or b"\0", b"")
    headers.pop("date")
    return response.status, headers, body


ID = "a" * 32
WIRE = [
    "/echo/v1", "/echo/v1/", "/echo//v1///things/", "/echo/v1/things", "/echo/v1/things/", "/echo/v1/things/1",
    "/echo/v1/things/detail", "/echo/v1/things/%64etail", "/echo/v1/things/a%2Fb", "/echo/v1/things/%2F",
    "/echo/v1/things/a%2Fparts%2Fb", "/echo/v1/things/a/parts/%2Fb", "/echo/v1%2Fthings", "/echo/%2Fv1/things",
    "/echo/v1/things/a%252Fb", "/echo/v1/things/%20", "/echo/v1/things/%C3%A9", "/echo/v1/things/%ff", "/echo/%ff",
    "/echo/v1/things/%00", "/echo/v1/things/a%0A", "/echo/v1/things/..", "/echo/v1/things/a;b", "/echo/v1/things/<x>",
    f"/echo/v1/{ID}/things", f"/echo/v1/{ID}/things/1", f"/echo/v1/{ID}", f"/echo/v1/{ID}/{ID}/things",
    f"/echo/v1/things/{ID}", "/echo/v1/nothing", "/echo/v2", "/echo", "/echo/", "/", "/%ff", "/echo/v1/things/1/parts",
    "/echo/v1/things/1/parts/", "/echo/v1/things//parts/2", "/echo/v1/things/1/parts/2?x=1/2", "/echo/v1/things?/3",
]  # fmt: skip


@pytest.mark.parametrize("path", WIRE)
def test_the_answer_is_the_one_of_a_cloud_that_has_only_klein(path: str) -> None:
    for method in ("GET", "HEAD", "DELETE", "OPTIONS", "POST", "get"):
        asked = encode(method, path, {}, b"")
        answers = [said(parse(exchange(served(routed), asked), method)) for routed in (True, False)]
        assert answers[0] == answers[1], method


def test_what_is_declared_never_needs_the_klein_tree() -> None:
    site = served(True)
    api: Any = site.resource._apis[b"echo"]._api  # what Tree was made of
    for path in ("/echo/v1/things", "/echo/v1/things/detail", "/echo/v1/things/1", f"/echo/v1/{ID}/things/1"):
        assert parse(exchange(site, encode("GET", path, {}, b"")), "GET").status == 200
    assert "klein" not in vars(api)
    assert parse(exchange(site, encode("PUT", "/echo/v1/things", {}, b"")), "PUT").status == 405
    assert "klein" in vars(api)


def test_the_last_variable_may_stand_for_all_that_follows() -> None:
    found = Router(((("/v1/<a>", False), ("GET",)), (("/v1/<a>/<path:rest>", False), ("GET", "PUT"))))
    assert found.find(b"GET", "/v1/x") == (("/v1/<a>", False), {"a": "x"})
    assert found.find(b"GET", "/v1/x/y//../z/") == (("/v1/<a>/<path:rest>", False), {"a": "x", "rest": "y//../z/"})
    assert found.find(b"GET", "/v1/x/") is None
    assert found.find(b"DELETE", "/v1/x/y") is None
    assert found.methods("/v1/x/y") == ("GET", "PUT")
    assert found.methods("/v2") == ()
