"""What tests of backups have in common: how they are shown and restored, and what a fake volume holds."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from tests.volume.asking import V3, at

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"
PIECE = 512


def shown(client: Any, backup_id: str, version: str = "3.71") -> dict[str, Any]:
    answer = client.get(f"{V3}/backups/{backup_id}", headers=at(version))
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()["backup"]
    return found


def content(*pieces: str) -> str:
    return "".join(piece * PIECE for piece in pieces)


def fill(backend: Any, volume_id: str, text: str) -> None:
    backend.volumes.put(volume_id, evolve(backend.volumes.get(volume_id), head=text))


def held(backend: Any, volume_id: str) -> str:
    found: str = backend.volumes.get(volume_id).head
    return found


def restore(client: Any, backup_id: str, **wish: Any) -> Any:
    return client.post(f"{V3}/backups/{backup_id}/restore", {"restore": wish})
