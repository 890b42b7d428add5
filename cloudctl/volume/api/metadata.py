"""Metadata of volumes on the wire. Reference: volume.md, section 2.

From 3.15 an answer carries an ETag, and a change with `If-Match` is made only if nobody else made one meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound, PreconditionFailed
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.volume import volumes
from cloudctl.volume.api import gates
from cloudctl.volume.api.fields import OneMetadatum, ReplaceMetadata

Values = Mapping[str, str]
Edit = Callable[[Values], Values]


@frozen
class OneEntry:
    meta: OneMetadatum


def tag(values: Values) -> str:
    return f'"{hashlib.sha256(orjson.dumps(dict(values), option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]}"'


def matching(call: Call, edit: Edit) -> Edit:
    """The same edit, unless the request names another state of the metadata: then PreconditionFailed."""
    wanted = call.header("if-match") if call.version in gates.TAGGED else None

    def checked(before: Values) -> Values:
        if wanted is not None and wanted.strip() not in ("*", tag(before)):
            raise PreconditionFailed("The metadata has been changed by another request.")
        return edit(before)

    return checked


def without(key: str, unknown: NotFound) -> Edit:
    """Drops one entry. Raises `unknown` if it is not there."""

    def dropped(before: Values) -> Values:
        if key not in before:
            raise unknown
        return {name: value for name, value in before.items() if name != key}

    return dropped


def reply(call: Call, values: Values) -> Reply:
    headers = (("ETag", tag(values)),) if call.version in gates.TAGGED else ()
    return Reply({"metadata": dict(values)}, headers=headers)


class VolumeMetadata:
    routes = Routes("Volumes")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/volumes/<volume_id>/metadata", policy="volume:volumes:show")
    async def list(self, call: Call, volume_id: str) -> Reply:
        """Show the metadata of a volume."""
        row = await self.db.read(volumes.visible, call.caller, volume_id)
        return reply(call, row.metadata)

    @routes.post("/volumes/<volume_id>/metadata", policy="volume:volumes:update", body=Body(ReplaceMetadata))
    async def merge(self, call: Call, volume_id: str, body: ReplaceMetadata) -> Reply:
        """Add to the metadata of a volume."""
        return await self._change(call, volume_id, lambda before: {**before, **body.metadata})

    @routes.put("/volumes/<volume_id>/metadata", policy="volume:volumes:update", body=Body(ReplaceMetadata))
    async def replace(self, call: Call, volume_id: str, body: ReplaceMetadata) -> Reply:
        """Replace the metadata of a volume."""
        return await self._change(call, volume_id, lambda before: body.metadata)

    @routes.get("/volumes/<volume_id>/metadata/<key>", policy="volume:volumes:show")
    async def show(self, call: Call, volume_id: str, key: str) -> Any:
        """Show one entry."""
        row = await self.db.read(volumes.visible, call.caller, volume_id)
        if key not in row.metadata:
            raise volumes.no_metadata(volume_id, key)
        return {"meta": {key: row.metadata[key]}}

    @routes.put("/volumes/<volume_id>/metadata/<key>", policy="volume:volumes:update", body=Body(OneEntry))
    async def set(self, call: Call, volume_id: str, key: str, body: OneEntry) -> Any:
        """Set one entry."""
        if key not in body.meta:
            raise Invalid("Request body and URI mismatch")
        await self._change(call, volume_id, lambda before: {**before, **body.meta})
        return {"meta": body.meta}

    @routes.delete("/volumes/<volume_id>/metadata/<key>", policy="volume:volumes:update", status=200)
    async def delete(self, call: Call, volume_id: str, key: str) -> None:
        """Delete one entry."""
        await self._change(call, volume_id, without(key, volumes.no_metadata(volume_id, key)))

    async def _change(self, call: Call, volume_id: str, edit: Edit) -> Reply:
        def changed(conn: Connection) -> Values:
            return volumes.change_metadata(conn, call.caller, volume_id, matching(call, edit))

        return reply(call, await self.db.run(changed))
