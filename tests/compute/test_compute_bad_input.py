"""Whatever a client sends, it is answered, and never with a 500."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cloudctl.compute.api.server_filters import QUERY
from cloudctl.compute.options import HIGHEST
from cloudctl.rest.body import wire_names
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, V21, Asking, at
from tests.hostile.values import TEXTS, VALUES, raw

RAW = [*raw("server"), b'{"os-stop": null, "os-start": null}']
VERSIONS = ("2.1", LATEST)


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture(scope="module")
def admin(cloud: MemoryCloud) -> Asking:
    """Without quotas that would end a request early."""
    asking = Asking(cloud.client("admin"))
    project = asking.server(asking.boot("2.37", networks="none"))["tenant_id"]
    unlimited = {"quota_set": dict.fromkeys(("instances", "cores", "ram", "key_pairs", "server_groups"), -1)}
    assert asking.put(f"/os-quota-sets/{project}", unlimited).status == 200
    return asking


@pytest.fixture(scope="module")
def server_id(admin: Asking) -> str:
    return admin.boot(LATEST, networks="none")


@pytest.fixture(scope="module")
def operations(cloud: MemoryCloud) -> list[Any]:
    return [
        (path, operation) for path, operation in cloud.cloud.apis["compute"].operations if path.startswith("/v2.1/")
    ]


def filled(path: str, server_id: str, other: str | None = None) -> str:
    """The path below /v2.1 with its variables replaced; `other` for all of them."""
    parts = []
    for part in path.removeprefix("/v2.1").split("/"):
        if not part.startswith("<"):
            parts.append(part)
        elif other is not None:
            parts.append(other)
        else:
            parts.append({"<server_id>": server_id, "<flavor_id>": "1"}.get(part, "x"))
    return "/".join(parts)


def ask(admin: Asking, method: str, path: str, version: str, json: Any = None, body: bytes | None = None) -> int:
    headers = {**at(version), "Content-Type": "application/json"}
    answer = admin.client.request(method, V21 + path, json, headers=headers, body=body)
    assert answer.status < 500, (method, path, version, json, body, answer)
    return answer.status


def bodies(operation: Any, version: tuple[int, int]) -> Iterator[Any]:
    """Each hostile value in the place of the body, and of each of its fields."""
    body = operation.body_at(version)
    if body is None:
        return

    def wrapped(value: Any) -> Any:
        return {operation.action: value} if operation.action else {body.key: value} if body.key else value

    for value in VALUES:
        yield wrapped(value)
    if hasattr(body.type, "__attrs_attrs__"):
        for name in wire_names(body.type):
            for value in VALUES:
                yield wrapped({name: value})


def test_hostile_bodies(admin: Asking, server_id: str, operations: list[Any]) -> None:
    for path, operation in operations:
        if operation.method == "DELETE" or "os-quota-sets" in path:
            continue
        for version, pair in zip(VERSIONS, ((2, 1), (2, HIGHEST)), strict=True):
            for body in bodies(operation, pair):
                ask(admin, operation.method, filled(path, server_id), version, body)


def test_hostile_fields_of_a_create_that_is_otherwise_right(cloud: MemoryCloud, admin: Asking) -> None:
    from cloudctl.compute.api.server_bodies import BlockDevice, CreateServer, NetworkItem

    right = admin.body(networks="none")["server"]
    for name in wire_names(CreateServer):
        for value in VALUES:
            ask(admin, "POST", "/servers", LATEST, {"server": {**right, name: value}})
            ask(
                admin,
                "POST",
                "/servers",
                LATEST,
                {"server": right, "os:scheduler_hints": {"group": value, name: value}},
            )
    for kind, field in ((BlockDevice, "block_device_mapping_v2"), (NetworkItem, "networks")):
        for name in wire_names(kind):
            for value in VALUES:
                item = {"source_type": "blank", "destination_type": "local"} if kind is BlockDevice else {}
                ask(admin, "POST", "/servers", LATEST, {"server": {**right, field: [{**item, name: value}]}})
    cloud.settle()


def test_bytes_that_are_no_body(admin: Asking, server_id: str, operations: list[Any]) -> None:
    for path, operation in operations:
        if operation.body is not None or operation.action:
            for raw in RAW:
                ask(admin, operation.method, filled(path, server_id), LATEST, body=raw)


def test_hostile_paths(admin: Asking, operations: list[Any]) -> None:
    for path, operation in operations:
        if "<" in path:
            for text in TEXTS:
                ask(admin, operation.method, filled(path, "x", quote(text, safe="%")), LATEST, {})


def test_every_filter_of_servers_takes_every_text(admin: Asking) -> None:
    for name in sorted(QUERY):
        for text in TEXTS:
            ask(admin, "GET", f"/servers/detail?all_tenants=1&{name}={quote(text, safe='%')}", LATEST)


def test_repeated_and_too_many_parameters(admin: Asking) -> None:
    ask(admin, "GET", "/servers?" + "&".join(["status=ACTIVE"] * 150), LATEST)
    ask(admin, "GET", "/servers?" + "&".join(["sort_key=created_at&sort_dir=asc"] * 90), LATEST)
    ask(admin, "GET", "/servers?" + "&".join(f"a{n}=1" for n in range(500)), LATEST)
    ask(admin, "GET", "/servers?tags=" + ",".join(f"t{n}" for n in range(500)), LATEST)
