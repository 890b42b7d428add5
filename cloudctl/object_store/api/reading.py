"""Objects as they are read: the target of a symlink, with the data of all its segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from secrets import token_hex

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Forbidden, NotFound, RangeNotSatisfiable
from cloudctl.object_store import acl, containers, large, links, objects
from cloudctl.object_store.api import conditions, symlinks
from cloudctl.object_store.api.door import SHOW, Door, refusal
from cloudctl.object_store.api.headers import Headers
from cloudctl.object_store.api.temp_url import Signed
from cloudctl.object_store.large import Data, MayRead, Piece
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call, Download, Parts, Run


@frozen
class Found:
    place: Place
    object: Object | Version
    data: Data


def _link(conn: Connection, call: Call, place: Place, version: str) -> Object | Version:
    if version:
        return objects.find_version(conn, containers.get(conn, place), place.name, version, call.now)
    return objects.get(conn, place, call.now)


@frozen
class Reader:
    db: Database
    store: ObjectStore
    door: Door
    run: Run

    async def find(
        self,
        call: Call,
        place: Place,
        *,
        own: bool = False,
        link: bool = False,
        tell: bool = False,
        signed: Signed | None = None,
        unread: bool = False,
        version: str = "",
    ) -> Found:
        """`own`: the object itself, not what it is made of; `link`: nor what it leads to. `unread`: nobody will read
        the data. `tell`: the answer, whatever it is, says where links led.

        The caller must be allowed to read `place`; `signed`: because of a signed URL.

        `version`: the one with this id, which may be a marker; empty: the current object.

        Raises NotFound, Unauthorized, Forbidden, Conflict, Unavailable.
        """

        async def look() -> Found:
            return await self._found(
                call, place, own=own, link=link, tell=tell, signed=signed, unread=unread, version=version
            )

        try:
            return await look()
        except large.Replaced:
            # There is another one now, or none.
            return await look()

    async def _found(
        self,
        call: Call,
        place: Place,
        *,
        own: bool,
        link: bool,
        tell: bool,
        signed: Signed | None,
        unread: bool,
        version: str,
    ) -> Found:
        # A signature covers only the object that it was made for, wherever that leads.
        may_read = self.door.reading(call, place, signed)
        found = await self.db.read(_link, call, place, version)
        if not link:
            place, found = await self._led(call, place, found, signed=signed, tell=tell)
        return Found(place, found, await self._data(call, place, found, may_read, own or link, unread))

    async def _led(
        self,
        call: Call,
        place: Place,
        found: Object | Version,
        *,
        etag: str = "",
        static: bool = False,
        signed: Signed | None = None,
        tell: bool = False,
    ) -> tuple[Place, Object | Version]:
        """What a symlink finally leads to, by static links only if `static`; any other object itself.

        `etag`: the state that it must be in.
        """
        start = place
        for count in range(links.MOST_LINKS + 1):
            target = links.target_of(place, found.headers)
            if static and links.TARGET_ETAG not in found.headers:
                target = None
            links.check(found, etag, is_link=target is not None)
            if target is None:
                return place, found
            if count == links.MOST_LINKS:
                break
            if tell:
                call.also["Content-Location"] = symlinks.url_path(call, target)
            if signed is None or not signed.reaches(start, target):
                await self.door.enter(call, target, acl_header=acl.READ, rule=SHOW)
            etag, place = found.headers.get(links.TARGET_ETAG, ""), target
            found = await self.db.read(_link, call, target, "")
        raise links.too_many()

    async def fixed(self, call: Call, place: Place, new: NewObject) -> NewObject:
        """An object to be made at `place`: unchanged, or, if it is a static link, with what is known of its target.
        Raises Conflict if that does not exist or is in another state.
        """
        target, etag = links.target_of(place, new.headers), new.headers.get(links.TARGET_ETAG)
        if target is None or not etag:
            return new
        await self.door.enter(call, target, acl_header=acl.READ, rule=SHOW)
        try:
            first = await self.db.read(_link, call, target, "")
            _, found = await self._led(call, target, first, etag=etag, static=True)
        except NotFound:
            raise Conflict(f"{links.TARGET} does not exist") from None
        return symlinks.fixed(new, found, keeps_type=call.header("content-type") is not None)

    async def _data(
        self, call: Call, place: Place, found: Object | Version, may_read: MayRead, own: bool, unread: bool
    ) -> Data:
        now = call.now
        if found.parts_id is not None:
            return await self.db.scan(large.own, found)
        if own:
            return large.of_file(found)
        if found.large_etag is not None and unread:
            return large.unread(found)
        if found.large_etag is not None:
            return await self.db.scan(large.static, self.store, place, found, now, may_read)
        if (manifest := large.manifest_of(found)) is not None:
            try:
                return await self.db.scan(large.dynamic, self.store, place.inside(manifest), now, may_read)
            except Forbidden:
                raise refusal(call) from None
        return large.of_file(found)

    def opened(self, pieces: Sequence[Piece]) -> list[Download | bytes]:
        """A single file is opened now, since it may be replaced and removed later. Raises Unavailable."""
        parts: list[Download | bytes] = []
        for piece in pieces:
            if piece.file_id:
                opens = partial(self.store.open, piece.file_id)
                file = opens() if len(pieces) == 1 and not self.store.is_far else None
                parts.append(Download(opens, piece.offset, piece.length, file))
            else:
                parts.append(piece.data)
        return parts

    def body(self, call: Call, found: Found, *, several: bool = True) -> tuple[Parts, int, Headers]:
        """The answer: body, status, and matching headers. `several`: several ranges at once, instead of everything.
        Raises RangeNotSatisfiable.
        """
        data, kind = found.data, found.object.content_type
        wanted = conditions.ranges(call, data.size, data.etag, found.object.updated_at)
        if not wanted or (len(wanted) > 1 and not several):
            return self.pieces([*data.pieces]), 200, (("Content-Type", kind),)
        if len(wanted) == 1:
            return self.part(found, *wanted[0])
        if sum(stop - start for start, stop in wanted) > 2 * data.size:
            # No client needs the same bytes over and over.
            raise RangeNotSatisfiable("", headers={"Content-Range": f"bytes */{data.size}"})
        boundary = token_hex(16)
        pieces: list[Piece] = []
        for start, stop in wanted:
            head = (
                f"--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {start}-{stop - 1}/{data.size}\r\n\r\n"
            )
            pieces += [_text(head), *data.cut(start, stop), _text("\r\n")]
        pieces.append(_text(f"--{boundary}--"))
        told: Headers = (("Content-Type", f"multipart/byteranges;boundary={boundary}"),)
        return self.pieces(pieces), 206, told

    def part(self, found: Found, start: int, stop: int) -> tuple[Parts, int, Headers]:
        """The answer with the bytes from `start` up to `stop`."""
        data, kind = found.data, found.object.content_type
        told = (("Content-Type", kind), ("Content-Range", f"bytes {start}-{stop - 1}/{data.size}"))
        return self.pieces([*data.cut(start, stop)]), 206, told

    def pieces(self, pieces: Sequence[Piece]) -> Parts:
        size = sum(piece.length for piece in pieces)
        return Parts(
            self.opened([each for each in pieces if each.length]), size, self.run if self.store.is_far else None
        )


def _text(text: str) -> Piece:
    raw = text.encode()
    return Piece(len(raw), data=raw)
