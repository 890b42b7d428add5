"""Static large objects: manifests are stored, shown, deleted with what they name. Reference: object-store.md, A7."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import orjson
from attrs import evolve, frozen
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from cloudctl.db import Connection
from cloudctl.errors import CloudError, Invalid, NotFound, RangeNotSatisfiable, TooLarge, Unprocessable
from cloudctl.object_store import acl, containers, large, objects
from cloudctl.object_store.api import bulk_answers, headers
from cloudctl.object_store.api.door import SHOW
from cloudctl.object_store.api.faults import HTML_TYPE
from cloudctl.object_store.api.headers import VERSION_ID, Headers
from cloudctl.object_store.api.reading import Found, Reader
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.large import Segment
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done, NewObject
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.faults import UNFORESEEN
from cloudctl.rest.stream import Stream, beating
from cloudctl.rest.unforeseen import refusal

# Seconds between spaces. Those between here and the client wait for longer than this.
BEAT = 10
# Proxies are not to collect them.
UNBUFFERED = (("X-Accel-Buffering", "no"),)


@frozen
class Manifests:
    reader: Reader
    intake: Intake

    async def create(self, call: Call, place: Place, new: NewObject) -> Reply:
        """The body is a manifest. The caller must be allowed to write to `place`."""
        body = call.content
        body.seek(0)
        raw = body.read(large.MOST_BYTES + 1)
        segments = await self.intake.run(large.parse, raw)
        for index, each in enumerate(segments):
            if each.path and place.inside(each.path) == place:
                raise Invalid(f"Index {index}: manifest must not include itself as a segment")
        if headers.is_true(call.query.get("heartbeat")):
            return self._create_later(call, place, new, segments)
        wrong, told = await self._create(call, place, new, segments)
        return bulk_answers.errors(call, wrong) if wrong else Reply(None, 201, (*told, HTML_TYPE))

    def _create_later(self, call: Call, place: Place, new: NewObject, segments: Sequence[Segment]) -> Reply:
        """For clients that expect the status in the body, after one that says nothing and comes at once."""
        form = bulk_answers.media(call)

        async def end() -> bytes:
            return b"\r\n\r\n" + bulk_answers.rest(form, await self._outcome(call, place, new, segments))

        first = bulk_answers.beginning(form) + b" "
        clock = self.intake.db.clock
        kind = f"{form}; charset=utf-8"
        return Reply(Stream(kind, lambda: beating(end, first, clock, BEAT), watched=False), 202, UNBUFFERED)

    async def _outcome(
        self, call: Call, place: Place, new: NewObject, segments: Sequence[Segment]
    ) -> dict[str, object]:
        said, why = {"Last Modified": "", "Etag": ""}, ""
        wrong: Sequence[tuple[str, str]] = ()
        try:
            wrong, told = await self._create(call, place, new, segments)
            status = "400 Bad Request" if wrong else "201 Created"
            said |= {name.replace("-", " ").title(): value for name, value in told if name != VERSION_ID}
        except CancelledError:
            raise
        except Exception as error:  # whatever it is: the status has been sent
            known = error if isinstance(error, CloudError) else _unforeseen(call)
            status, why = bulk_answers.status_of(known), known.message
        return {"Response Status": status, "Response Body": why, **said, "Errors": bulk_answers.escaped(wrong)}

    async def _create(
        self, call: Call, place: Place, new: NewObject, segments: Sequence[Segment]
    ) -> tuple[Sequence[tuple[str, str]], Headers]:
        """The errors of segments, or the headers that describe what was made. Raises Unprocessable, TooLarge."""
        manifest, wrong = await self.intake.db.scan(
            large.check, place, segments, call.now, self.reader.door.reading(call, place)
        )
        if wrong:
            return wrong, ()
        etag = (call.header("etag") or "").strip('"').lower()
        if etag and etag != manifest.etag:
            raise Unprocessable("")
        if sum(1 for _ in manifest.entries) > large.MOST_SEGMENTS:
            raise TooLarge("")
        made = evolve(new, large_size=manifest.size, large_etag=manifest.etag)
        content = await self.intake.write(place, (orjson.dumps(manifest.entries),), made, call.now)
        told = [("ETag", f'"{manifest.etag}"'), ("Last-Modified", headers.last_modified(call.now))]
        if content.version:
            told.append((VERSION_ID, content.version))
        return (), tuple(told)

    async def show(self, call: Call, found: Found, said: Headers) -> Reply:
        """The manifest itself."""
        entries = await self.intake.run(large.read, self.reader.store, found.object)
        if call.query.get("format") == "raw":
            # It is not the stored document, so it has another tag.
            body = orjson.dumps(large.raw(entries))
            etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
            said = (*(each for each in said if each[0] != "ETag"), ("ETag", etag))
            return Reply(body, 200, (*said, ("Content-Type", found.object.content_type)))
        return Reply(orjson.dumps(entries), 200, (*said, ("Content-Type", "application/json; charset=utf-8")))

    async def part(self, call: Call, found: Found, number: str, said: Headers) -> tuple[int, int]:
        """The start and the end of the data of one segment, counted from 1; the answer says how many there are.
        Raises Invalid, RangeNotSatisfiable.
        """
        if not (number.isascii() and number.isdecimal() and int(number[:20])):
            raise Invalid("Part number must be an integer greater than 0")
        if call.header("range") is not None:
            raise Invalid("Range requests are not supported with part number queries")
        spans = large.spans(await self.intake.run(large.read, self.reader.store, found.object))
        call.also["X-Parts-Count"] = str(len(spans))
        if int(number[:20]) > len(spans):
            told = {**dict(said), "Content-Range": f"bytes */{found.data.size}"}
            raise RangeNotSatisfiable("The requested part number is not satisfiable", headers=told)
        return spans[int(number[:20]) - 1]

    async def delete(self, call: Call, place: Place, version: str) -> Reply:
        """Delete the large object and all its segments. The caller must be allowed to delete `place`. `version`: the
        one with this id; empty: the current object.
        """
        found = await self.intake.db.read(_get, place, call, version)
        outcome = bulk_answers.Outcome()
        named: dict[Place, None] = {}
        await self._name(call, place, found, named)
        for each in reversed(named):
            await self._delete(call, each, outcome)
        await self._delete(call, place, outcome, version)
        return outcome.reply(call)

    async def _name(
        self, call: Call, place: Place, found: Object | Version, named: dict[Place, None], depth: int = 1
    ) -> None:
        """Add the objects it is made of, each once. Raises TooLarge, Unauthorized, Forbidden."""
        if found.large_etag is None or depth > large.DEEPEST:
            return
        # Deleting segments must not reveal which ones there are.
        await self.reader.door.enter(call, place, acl_header=acl.READ, method="DELETE", rule=SHOW)
        for each in await self.intake.run(large.segments_of, self.reader.store, place, found):
            if each in named:
                continue
            if len(named) == large.MOST_PIECES:
                raise TooLarge("The large object is made of too many parts.")
            named[each] = None
            try:
                inner = await self.intake.db.read(_get, each, call)
            except NotFound:
                continue
            await self._name(call, each, inner, named, depth + 1)

    async def _delete(self, call: Call, place: Place, outcome: bulk_answers.Outcome, version: str = "") -> None:
        with outcome.of(f"/{place.container}/{place.name}"):
            await self.reader.door.enter(call, place, acl_header=acl.WRITE, method="DELETE")
            outcome.count(await self.intake.change(_removal(version), place, call.now))


def _unforeseen(call: Call) -> CloudError:
    id = call.caller.request_id
    return refusal(Failure(), f"{id} a large object", UNFORESEEN.format(request_id=id))


def _get(conn: Connection, place: Place, call: Call, version: str = "") -> Object | Version:
    if version:
        return objects.find_version(conn, containers.get(conn, place), place.name, version, call.now)
    return objects.get(conn, place, call.now)


def _removal(version: str) -> Callable[[Connection, Place, datetime], Done]:
    if version:
        return lambda conn, place, now: objects.remove_version(conn, place, version, now, brings_back=False)
    return partial(objects.remove, marks=False)
