"""Copies. They share the file of the source, unless made of a part or of several. Reference: object-store.md, A6."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from urllib.parse import quote

from attrs import evolve, frozen

from cloudctl.errors import PreconditionFailed, TooLarge
from cloudctl.object_store import acl, links, metadata, numbered, objects
from cloudctl.object_store.api import conditions, headers
from cloudctl.object_store.api.door import SHOW, version_of
from cloudctl.object_store.api.faults import HTML_TYPE
from cloudctl.object_store.api.manifests import Manifests
from cloudctl.object_store.api.reading import Found, Reader
from cloudctl.object_store.intake import Intake, Keep
from cloudctl.object_store.large import path_of
from cloudctl.object_store.metadata import SUM
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.store import CHUNK, Content
from cloudctl.rest.call import Call, Reply

COPY_FROM = "X-Copy-From"
# Headers that make an object more than its own data.
LEADS_ELSEWHERE = frozenset({"X-Object-Manifest", *links.HEADERS})


def named(header: str, text: str, account: str, *, quoted: bool = True) -> Place:
    """`container/object`, from a header. Raises PreconditionFailed."""
    container, _, name = (path_of(text) if quoted else text).removeprefix("/").partition("/")
    if not container or not name:
        raise PreconditionFailed(f"{header} header must be of the form <container name>/<object name>")
    return placed(account, container, name)


@frozen
class Copying:
    reader: Reader
    intake: Intake
    manifests: Manifests
    max_size: int  # bytes

    def destination(self, call: Call, source: Place) -> Place:
        """Raises PreconditionFailed."""
        account = call.header("Destination-Account") or source.account
        return named("Destination", call.header("Destination") or "", account)

    async def copy(self, call: Call, source: str, account: str, target: Place, *, quoted: bool = True) -> Reply:
        """The caller must be allowed to write to `target`. A version in the query is the source's."""
        place = named(COPY_FROM, source, account, quoted=quoted)
        entered = await self.reader.door.enter(call, place, acl_header=acl.READ, rule=SHOW)
        link = call.query.get("symlink") == "get"
        own = link or call.query.get("multipart-manifest") == "get"
        found = await self.reader.find(call, place, own=own, link=link, version=version_of(call, entered))
        if numbered.is_marker(found.object):
            raise objects.not_found()
        if not conditions.holds(call, found.data.etag, found.object.updated_at):
            raise PreconditionFailed("")
        new = self._new(call, found, own)
        content = await self._copy(call, found, target, new, own)
        told = (
            ("ETag", content.etag),
            ("Last-Modified", headers.last_modified(call.now)),
            ("X-Copied-From", quote(f"{place.container}/{place.name}")),
            ("X-Copied-From-Account", place.account),
            ("X-Copied-From-Last-Modified", headers.last_modified(found.object.updated_at)),
            *((name, value) for name, value in new.headers.items() if name.startswith(metadata.OBJECT)),
            *(((headers.VERSION_ID, content.version),) if content.version else ()),
            HTML_TYPE,
        )
        return Reply(None, 201, told)

    async def _copy(self, call: Call, found: Found, target: Place, new: NewObject, own: bool) -> Content:
        if not own and found.object.large_etag is not None and (number := call.query.get("part-number")) is not None:
            ranges: Sequence[conditions.Range] = [await self.manifests.part(call, found, number, ())]
        else:
            ranges = conditions.ranges(call, found.data.size, found.data.etag, found.object.updated_at)
        if ranges or (found.object.file_id is None and found.data.size):
            # Different data, or the same in one piece.
            new = evolve(new, headers={name: each for name, each in new.headers.items() if not name.startswith(SUM)})
        if len(ranges) < 2:
            return await self.bring(found, target, new, call.now, own=own, span=next(iter(ranges), None))
        body, _, _ = self.reader.body(call, found)
        return await self.intake.write(target, body.chunks(CHUNK), new, call.now)

    async def bring(
        self,
        found: Found,
        target: Place,
        new: NewObject,
        now: datetime,
        *,
        own: bool = False,
        span: conditions.Range | None = None,
        keep: Keep | None = None,
        seen: Callable[[bytes], None] | None = None,
    ) -> Content:
        """Make what was found, or this part of it, the object's data. `own`: not what it is composed of. `seen` gets
        the data, if there is a `keep`. Raises TooLarge.
        """
        record, data = found.object, found.data
        made_of_others = record.large_etag is not None or "X-Object-Manifest" in record.headers
        if span is None and keep is None and record.parts_id is None and (own or not made_of_others):
            content = Content(record.file_id, record.size, record.etag)
            done = await self.intake.change(objects.copy, record, target, evolve(new, content=content), now)
            return evolve(content, version=done.version)
        start, stop = span or (0, data.size)
        if stop - start > self.max_size:
            raise TooLarge(f"The source has {stop - start} bytes; an object has at most {self.max_size}.")
        body = self.reader.pieces([*data.cut(start, stop)])
        chunks = body.chunks(CHUNK)
        return await self.intake.write(target, chunks if seen is None else _seen(chunks, seen), new, now, keep)

    def _new(self, call: Call, found: Found, own: bool) -> NewObject:
        record, given = found.object, headers.of_object(call)
        is_fresh = headers.is_true(call.header("X-Fresh-Metadata"))
        kept = {} if is_fresh else dict(record.headers)
        if own:
            kept |= {name: value for name, value in record.headers.items() if name in LEADS_ELSEWHERE}
        else:
            kept = {name: value for name, value in kept.items() if name not in LEADS_ELSEWHERE}
        kept |= given
        metadata.check(kept, metadata.OBJECT)
        return NewObject(
            content_type=call.header("content-type") or record.content_type,
            headers=kept,
            delete_at=headers.delete_at(call) or (None if is_fresh else record.delete_at),
            large_size=record.large_size if own else None,
            large_etag=record.large_etag if own else None,
        )


def _seen(chunks: Iterable[bytes], seen: Callable[[bytes], None]) -> Iterator[bytes]:
    for chunk in chunks:
        seen(chunk)
        yield chunk
