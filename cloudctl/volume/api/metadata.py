"""Metadata of volumes and of snapshots on the wire. Reference: volume.md, sections 2 and 5.

From 3.15 an answer carries an ETag, and a change with `If-Match` is made only if nobody else has made one meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import orjson
from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound, PreconditionFailed
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.caller import Caller
from cloudctl.rest.declared import ONE, Named, Verb
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


ALL = f"{ONE}/metadata"
ENTRY = f"{ALL}/<key>"
VERBS = (
    Verb("list", "GET", ALL, "Show the metadata of {noun}."),
    Verb("merge", "POST", ALL, "Add to the metadata of {noun}."),
    Verb("replace", "PUT", ALL, "Replace the metadata of {noun}."),
    Verb("show", "GET", ENTRY, "Show one entry."),
    Verb("set", "PUT", ENTRY, "Set one entry."),
    Verb("delete", "DELETE", ENTRY, "Delete one entry."),
)


@frozen(kw_only=True, eq=False)
class Owner(Named, Generic[R]):
    """A kind of resource with metadata, volumes or snapshots, and the functions of its domain."""

    visible: Callable[[Connection, Caller, str], R]
    change: Callable[[Connection, Caller, str, Edit], Values]
    no_metadata: Callable[[str, str], NotFound]

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """Named after the methods of Metadata that answer them."""
        every, one = {"body": Body(ReplaceMetadata)}, {"body": Body(OneEntry)}
        return self.offer(VERBS, self._rule, {}, merge=every, replace=every, set=one)

    def _rule(self, verb: str) -> str:
        return f"volume:{self.plural}:{'show' if verb in ('list', 'show') else 'update'}"


VOLUME = Owner(name="volume", visible=volumes.visible, change=volumes.change_metadata, no_metadata=volumes.no_metadata)
SNAPSHOT = Owner(
    name="snapshot", visible=snapshots.visible, change=snapshots.change_metadata, no_metadata=snapshots.no_metadata
)


@frozen
class Metadata(Generic[R]):
    """The Operations on the metadata of an owner; `routes` lists them."""

    db: Database
    owner: Owner[R]

    @property
    def routes(self) -> Routes:
        return Routes(self.owner.title, self.owner.operations)

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
        return path[self.owner.id]

    async def _read(self, call: Call, path: Mapping[str, str]) -> Values:
        return (await self.db.read(self.owner.visible, call.caller, self._id(path))).metadata

    async def _change(self, call: Call, path: Mapping[str, str], edit: Edit) -> Reply:
        changed = await self.db.run(self.owner.change, call.caller, self._id(path), matching(call, edit))
        return reply(call, changed)
