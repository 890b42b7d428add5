"""Metadata of volumes and of snapshots on the wire. Reference: volume.md, sections 2 and 5.

From 3.15 an answer carries an ETag, and a change with `If-Match` is made only if nobody else has made one meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

import orjson
from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound, PreconditionFailed
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.caller import Caller
from cloudctl.rest.route import Operation, Routes
from cloudctl.volume import snapshots, volumes
from cloudctl.volume.api import gates
from cloudctl.volume.api.fields import OneMetadatum, ReplaceMetadata
from cloudctl.volume.tables import Snapshot, Volume

R = TypeVar("R", Volume, Snapshot)

Values = Mapping[str, str]
Edit = Callable[[Values], Values]


@frozen
class OneEntry:
    meta: OneMetadatum


def tag(values: Values) -> str:
    return f'"{hashlib.sha256(orjson.dumps(dict(values), option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]}"'


def matching(call: Call, edit: Edit) -> Edit:
    """The edit, which raises PreconditionFailed if the request names another state of the metadata, and TooLarge."""
    wanted = call.header("if-match") if call.version in gates.TAGGED else None

    def checked(before: Values) -> Values:
        if wanted is not None and wanted.strip() not in ("*", tag(before)):
            raise PreconditionFailed("The metadata has been changed by another request.")
        after = edit(before)
        volumes.check_size(after)
        return after

    return checked


def without(key: str, unknown: NotFound) -> Edit:
    """Drops one entry. Raises `unknown` if it is absent."""

    def dropped(before: Values) -> Values:
        if key not in before:
            raise unknown
        return {name: value for name, value in before.items() if name != key}

    return dropped


def reply(call: Call, values: Values) -> Reply:
    headers = (("ETag", tag(values)),) if call.version in gates.TAGGED else ()
    return Reply({"metadata": dict(values)}, headers=headers)


@frozen(eq=False)
class Owner(Generic[R]):
    """A kind of resource with metadata, volumes or snapshots, and the functions of its domain."""

    name: str
    visible: Callable[[Connection, Caller, str], R]
    change: Callable[[Connection, Caller, str, Edit], Values]
    no_metadata: Callable[[str, str], NotFound]

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named after the methods of Metadata that answer them."""
        routes = Routes(f"{self.name.capitalize()}s")
        every = f"/{self.name}s/<{self.name}_id>/metadata"
        one = f"{every}/<key>"

        def add(method: str, path: str, handler: str, rule: str, summary: str, **options: Any) -> None:
            rule = f"volume:{self.name}s:{rule}"
            routes.operations.append(Operation(routes.tag, method, path, handler, rule, summary=summary, **options))

        add("GET", every, "list", "show", f"Show the metadata of a {self.name}.")
        add("POST", every, "merge", "update", f"Add to the metadata of a {self.name}.", body=Body(ReplaceMetadata))
        add("PUT", every, "replace", "update", f"Replace the metadata of a {self.name}.", body=Body(ReplaceMetadata))
        add("GET", one, "show", "show", "Show one entry.")
        add("PUT", one, "set", "update", "Set one entry.", body=Body(OneEntry))
        add("DELETE", one, "delete", "update", "Delete one entry.", status=200)
        return routes


VOLUME = Owner("volume", volumes.visible, volumes.change_metadata, volumes.no_metadata)
SNAPSHOT = Owner("snapshot", snapshots.visible, snapshots.change_metadata, snapshots.no_metadata)


@frozen
class Metadata(Generic[R]):
    """The Operations on the metadata of an owner; `routes` lists them."""

    db: Database
    owner: Owner[R]

    @property
    def routes(self) -> Routes:
        return self.owner.routes

    async def list(self, call: Call, **path: str) -> Reply:
        return reply(call, await self._read(call, path))

    async def merge(self, call: Call, body: ReplaceMetadata, **path: str) -> Reply:
        return await self._change(call, path, lambda before: {**before, **body.metadata})

    async def replace(self, call: Call, body: ReplaceMetadata, **path: str) -> Reply:
        return await self._change(call, path, lambda before: body.metadata)

    async def show(self, call: Call, key: str, **path: str) -> Any:
        found = await self._read(call, path)
        if key not in found:
            raise self.owner.no_metadata(self._id(path), key)
        return {"meta": {key: found[key]}}

    async def set(self, call: Call, key: str, body: OneEntry, **path: str) -> Any:
        if key not in body.meta:
            raise Invalid("Request body and URI mismatch")
        await self._change(call, path, lambda before: {**before, **body.meta})
        return {"meta": body.meta}

    async def delete(self, call: Call, key: str, **path: str) -> None:
        await self._change(call, path, without(key, self.owner.no_metadata(self._id(path), key)))

    def _id(self, path: Mapping[str, str]) -> str:
        return path[f"{self.owner.name}_id"]

    async def _read(self, call: Call, path: Mapping[str, str]) -> Values:
        return (await self.db.read(self.owner.visible, call.caller, self._id(path))).metadata

    async def _change(self, call: Call, path: Mapping[str, str], edit: Edit) -> Reply:
        changed = await self.db.run(self.owner.change, call.caller, self._id(path), matching(call, edit))
        return reply(call, changed)
