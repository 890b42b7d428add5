"""What tests of backups have in common: how they are shown and restored, and what a fake volume holds."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
from attrs import evolve
from sqlalchemy import select

from cloudctl.drivers.file.driver import ObjectFiles
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.tables import Object
from cloudctl.testing.cloud import MemoryCloud
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


def in_small_pieces(store: str) -> dict[str, Any]:
    """Of the configuration: a fake volume has several pieces, each in a file or an object of its own."""
    return {"volume": {"backup_store": store, "backup_piece": PIECE, "backup_object": PIECE}}


def kept(cloud: MemoryCloud) -> dict[str, Path]:
    """The files with pieces of backups, by their names, or by those of their objects."""
    directory: Path = cloud.cloud.config.state_dir / "backups"
    found = {path.name: path for path in directory.rglob("*") if path.is_file() and path.name != "manifest.json"}
    data = cloud.cloud.made(ObjectStore).data
    assert isinstance(data, ObjectFiles)
    rows = cloud.transact(lambda conn: conn.execute(select(Object)).all())
    return found | {row.name: data.path(row.file_id) for row in rows if not row.name.endswith("_metadata")}


def changed(record: dict[str, str], **changes: Any) -> dict[str, Any]:
    """A record that says something else."""
    told = orjson.loads(base64.b64decode(record["backup_url"])) | changes
    return {"backup-record": {**record, "backup_url": base64.b64encode(orjson.dumps(told)).decode()}}


def restore(client: Any, backup_id: str, **wish: Any) -> Any:
    return client.post(f"{V3}/backups/{backup_id}/restore", {"restore": wish})
