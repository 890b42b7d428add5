"""Whatever a client sends, it is answered and never with a 500."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.hostile import values as hostile
from tests.hostile.values import TEXTS, VALUES
from tests.volume.asking import LATEST, V3


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture(scope="module")
def admin(cloud: MemoryCloud) -> Client:
    return cloud.client("admin")


@pytest.fixture(scope="module")
def volume_id(cloud: MemoryCloud, admin: Client) -> str:
    found: str = admin.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    return found


def operations(cloud: MemoryCloud) -> list[Any]:
    return [(path, operation) for path, operation in cloud.cloud.apis["volume"].operations]


def filled(path: str, volume_id: str, other: str | None = None) -> str:
    """The path with its variables replaced; `other` for all of them."""
    parts = []
    for part in path.split("/"):
        if part.startswith("<"):
            parts.append(other if other is not None else volume_id if part == "<volume_id>" else "x")
        else:
            parts.append(part)
    return "/volume" + "/".join(parts)


def test_hostile_bodies(cloud: MemoryCloud, admin: Client, volume_id: str) -> None:
    for path, operation in operations(cloud):
        body = operation.body_at((3, 71))
        if body is None:
            continue
        for value in VALUES:
            wrapped = {operation.action: value} if operation.action else {body.key: value} if body.key else value
            answer = admin.request(operation.method, filled(path, volume_id), wrapped, headers=LATEST)
            assert answer.status < 500, (operation.key, value, answer)


def test_hostile_fields(cloud: MemoryCloud, admin: Client, volume_id: str) -> None:
    fields = (
        "size", "name", "description", "metadata", "imageRef", "source_volid", "snapshot_id", "volume_type",
        "availability_zone", "multiattach", "group_id", "backup_id",
    )  # fmt: skip
    for field in fields:
        for value in VALUES:
            body = {"volume": {"size": 1, field: value}}
            answer = admin.post(f"{V3}/volumes", body, headers=LATEST)
            assert answer.status < 500, (body, answer)


@pytest.mark.parametrize("raw", hostile.raw("volume"))
def test_bodies_that_are_hardly_json(admin: Client, volume_id: str, raw: bytes) -> None:
    for method, path in (
        ("POST", "/volumes"),
        ("POST", f"/volumes/{volume_id}/action"),
        ("PUT", f"/volumes/{volume_id}"),
    ):
        answer = admin.request(method, V3 + path, body=raw, headers={**LATEST, "Content-Type": "application/json"})
        assert 400 <= answer.status < 500, (path, raw, answer)


def test_hostile_paths(cloud: MemoryCloud, admin: Client, volume_id: str) -> None:
    for path, operation in operations(cloud):
        if "<" not in path or operation.method != "GET":
            continue
        for text in TEXTS:
            answer = admin.get(filled(path, volume_id, quote(text, safe="%")), headers=LATEST)
            assert answer.status < 500, (path, text, answer)
