"""Whatever a client sends to any Operation, the service itself answers: never a 500, never nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cloudctl.rest.route import Operation
from cloudctl.testing.http import encode, exchange, parse
from tests.generated.bodies import JUNK, requests
from tests.generated.world import VARIABLE, World

EXAMPLES = int(os.environ.get("CLOUDCTL_FUZZ_EXAMPLES", "12"))
QUERY_NAMES = (
    "limit", "marker", "sort_key", "sort_dir", "sort", "name", "status", "all_tenants", "fields", "page_reverse",
    "changes-since", "visibility", "id", "project_id", "tenant_id", "not-tags", "name__contains", "detail", "x",
)  # fmt: skip
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
SEGMENTS = st.sampled_from(("0", "-1", "x" * 300, "a b", "ü", "%00", "..", "detail", "null", "9" * 40, "%ff", "a'b"))
QUERIES = st.lists(
    st.tuples(st.sampled_from(QUERY_NAMES), SEGMENTS | st.sampled_from(("true", "1", "asc", "name"))), max_size=3
)
RAW = st.none() | st.sampled_from((b"", b"{", b"\xff\xfe", b'{"a":' * 2000, b"null", b'{"a":1e999}'))
# API, path below it, Operation.
Found = tuple[str, str, Operation]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def named(world: World) -> Mapping[str, Found]:
    return {f"{api} {path} {operation.key}": (api, path, operation) for api, path, operation in world.operations()}


def operations() -> list[Any]:
    """Names to parametrize with; a World is made only once, in the test's own process."""
    from cloudctl.testing.cloud import MemoryCloud

    cloud = MemoryCloud().cloud
    return sorted(
        f"{name} {path} {operation.key}" for name, api in cloud.apis.items() for path, operation in api.operations
    )


def quoted(segment: str) -> str:
    from urllib.parse import quote

    return segment if "%" in segment else quote(segment, safe="")


@pytest.mark.parametrize("name", operations())
def test_an_operation_survives_anything(world: World, named: Mapping[str, Found], name: str) -> None:
    api, path, operation = named[name]
    shapes = [requests(body, operation.action) for body in (operation.body or {}).values()]
    if operation.action and not shapes:
        shapes = [JUNK.map(lambda value: {operation.action: value})]
    bodies = st.one_of(*shapes, JUNK) if shapes else st.none()

    # Hypothesis reads and parses the source of this function each time, so it is short.
    @SETTINGS
    @given(
        body=bodies, segment=st.none() | SEGMENTS, query=QUERIES, persona=st.sampled_from(("member", "admin")), raw=RAW
    )
    def attack(**sent: Any) -> None:
        survives(world, api, path, operation, **sent)

    try:
        attack()
    finally:
        world.restore()
        world.cloud.clock.advance(0)


def survives(
    world: World,
    api: str,
    path: str,
    operation: Operation,
    body: Any,
    segment: str | None,
    query: list[tuple[str, str]],
    persona: str,
    raw: bytes | None,
) -> None:
    names = VARIABLE.findall(path)
    values = {names[-1]: quoted(segment)} if names and segment else {}
    target = world.fill(api, path, **values)
    if query:
        target += "?" + "&".join(f"{key}={quoted(value)}" for key, value in query)
    sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    client = world.clients[persona]
    headers = {**client.headers, "X-Auth-Token": str(client.token), "Content-Type": media(operation)}
    answer = parse(
        exchange(world.cloud.site, encode(operation.method.replace("*", "GET"), target, headers, sent)),
        operation.method,
    )
    assert answer.status < 500 or answer.status == 501, (target, sent, answer)
    if answer.status >= 400 and operation.method != "HEAD":
        # The object store reports errors in HTML, and S3 in XML, whatever is requested.
        told = answer.body.decode() if api in ("object-store", "s3") else json.dumps(answer.json())
        assert re.search(r"\w", told), answer


def media(operation: Operation) -> str:
    for body in (operation.body or {}).values():
        if body.types:
            return body.types[0]
    return "application/json"


@pytest.mark.parametrize("at", [1, 20, 60, 120, 200, -1])
def test_a_client_that_hangs_up_in_the_middle_loses_nothing(world: World, at: int) -> None:
    client = world.clients["member"]
    headers = {**client.headers, "X-Auth-Token": str(client.token), "Content-Type": "application/json"}
    body = json.dumps({"volume": {"size": 1, "name": "interrupted"}}).encode()
    request = encode("POST", "/volume/v3/volumes", headers, body)
    exchange(world.cloud.site, request[:at])
    exchange(world.cloud.site, request)
    world.cloud.settle()
    found = client.get("/volume/v3/volumes/detail?name=interrupted").json()["volumes"]
    assert [each["status"] for each in found] == ["available"]
    world.restore()


@pytest.mark.parametrize("token", ["", "x", "é", "gAAAAA" + "A" * 200, "x" * 5000, " ", "\t"])
def test_a_token_that_is_none_is_401(world: World, token: str) -> None:
    answer = exchange(world.cloud.site, encode("GET", "/compute/v2.1/servers", {"X-Auth-Token": token}, b""))
    assert parse(answer, "GET").status == 401
