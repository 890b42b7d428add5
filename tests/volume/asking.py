"""Requests that the tests of block storage make again and again."""

from __future__ import annotations

from typing import Any

from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response

V3 = "/volume/v3"
LATEST = {"OpenStack-API-Version": "volume latest"}


def at(version: str) -> dict[str, str]:
    """The headers of a request for one microversion."""
    return {"OpenStack-API-Version": f"volume {version}"}


def volume(client: Client, volume_id: str, **headers: str) -> dict[str, Any]:
    answer = client.get(f"{V3}/volumes/{volume_id}", headers=headers)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()["volume"]
    return found


def act(client: Client, volume_id: str, action: str, body: Any = None, version: str = "3.71") -> Response:
    return client.post(f"{V3}/volumes/{volume_id}/action", {action: body}, headers=at(version))
