"""Metadata of snapshots on the wire: as that of volumes. Reference: volume.md, section 5."""

from __future__ import annotations

from typing import Any

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.volume import snapshots
from cloudctl.volume.api.fields import ReplaceMetadata
from cloudctl.volume.api.metadata import Edit, OneEntry, Values, matching, reply, without

METADATA = "/snapshots/<snapshot_id>/metadata"
ENTRY = f"{METADATA}/<key>"


class SnapshotMetadata:
    routes = Routes("Snapshots")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get(METADATA, policy="volume:snapshots:show")
    async def list(self, call: Call, snapshot_id: str) -> Reply:
        """Show the metadata of a snapshot."""
        row = await self.db.read(snapshots.visible, call.caller, snapshot_id)
        return reply(call, row.metadata)

    @routes.post(METADATA, policy="volume:snapshots:update", body=Body(ReplaceMetadata))
    async def merge(self, call: Call, snapshot_id: str, body: ReplaceMetadata) -> Reply:
        """Add to the metadata of a snapshot."""
        return await self._change(call, snapshot_id, lambda before: {**before, **body.metadata})

    @routes.put(METADATA, policy="volume:snapshots:update", body=Body(ReplaceMetadata))
    async def replace(self, call: Call, snapshot_id: str, body: ReplaceMetadata) -> Reply:
        """Replace the metadata of a snapshot."""
        return await self._change(call, snapshot_id, lambda before: body.metadata)

    @routes.get(ENTRY, policy="volume:snapshots:show")
    async def show(self, call: Call, snapshot_id: str, key: str) -> Any:
        """Show one entry."""
        row = await self.db.read(snapshots.visible, call.caller, snapshot_id)
        if key not in row.metadata:
            raise snapshots.no_metadata(snapshot_id, key)
        return {"meta": {key: row.metadata[key]}}

    @routes.put(ENTRY, policy="volume:snapshots:update", body=Body(OneEntry))
    async def set(self, call: Call, snapshot_id: str, key: str, body: OneEntry) -> Any:
        """Set one entry."""
        if key not in body.meta:
            raise Invalid("Request body and URI mismatch")
        await self._change(call, snapshot_id, lambda before: {**before, **body.meta})
        return {"meta": body.meta}

    @routes.delete(ENTRY, policy="volume:snapshots:update", status=200)
    async def delete(self, call: Call, snapshot_id: str, key: str) -> None:
        """Delete one entry."""
        await self._change(call, snapshot_id, without(key, snapshots.no_metadata(snapshot_id, key)))

    async def _change(self, call: Call, snapshot_id: str, edit: Edit) -> Reply:
        def changed(conn: Connection) -> Values:
            return snapshots.change_metadata(conn, call.caller, snapshot_id, matching(call, edit))

        return reply(call, await self.db.run(changed))
