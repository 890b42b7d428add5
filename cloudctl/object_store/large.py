"""Large objects, whose data is that of other objects. Reference: object-store.md, A7.

Dynamic: all objects with a prefix, in order. Static: the objects named in a manifest, which is the object's file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any
from urllib.parse import unquote

import orjson
from attrs import define, field, frozen

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, Invalid, TooLarge, Unavailable
from cloudctl.object_store import containers, links, listing, parts
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.names import Place
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.tables import Container, Object, Version

MOST_SEGMENTS = 1000
MOST_BYTES = 8 * 2**20  # of a manifest
DEEPEST = 10
# Of all parts of one large object, including their own segments: ten levels of a thousand would be far too many.
MOST_PIECES = 10_000
MOST_OF_MANIFESTS = 2 * MOST_BYTES
LARGEST = 2**63 - 1  # bytes
RANGE = re.compile(r"(\d{0,19})-(\d{0,19})", re.ASCII)
KEYS = frozenset({"path", "etag", "size_bytes", "range", "data"})

MayRead = Callable[[Connection, Container], bool]


@frozen
class Piece:
    """A part of the data: a part of a file, or the bytes themselves."""

    length: int
    file_id: str = ""
    offset: int = 0
    data: bytes = b""

    def cut(self, start: int, stop: int) -> Piece:
        """The part from `start` up to `stop`, counted from the start of the piece."""
        return Piece(stop - start, self.file_id, self.offset + start, self.data[start:stop])


@frozen
class Data:
    """The data of an object, and its tag as shown."""

    size: int
    etag: str
    pieces: Sequence[Piece]
    _starts: Sequence[int] = field(init=False, eq=False, repr=False)

    @_starts.default
    def _first_bytes(self) -> Sequence[int]:
        return [0, *accumulate(each.length for each in self.pieces)]

    def cut(self, start: int, stop: int) -> Iterator[Piece]:
        """The pieces from `start` up to `stop`. The cost is proportional to the result."""
        for index in range(max(bisect_right(self._starts, start) - 1, 0), len(self.pieces)):
            at, piece = self._starts[index], self.pieces[index]
            if at >= stop:
                return
            first, last = max(start - at, 0), min(stop - at, piece.length)
            if first < last:
                yield piece.cut(first, last)


def of_file(found: Object | Version) -> Data:
    pieces = (Piece(found.size, found.file_id),) if found.file_id else ()
    return Data(found.size, found.etag, pieces)


class Replaced(Unavailable):
    """The parts of an object are gone, as it is: it was replaced or deleted after it was read."""


def own(conn: Connection, found: Object | Version) -> Data:
    """Its own data: a file, or parts. Raises Replaced."""
    if found.parts_id is None:
        return of_file(found)
    # The last one may be empty, and have no file. It counts.
    pieces = [Piece(part.size, part.file_id or "") for part in parts.every_part(conn, found.parts_id)]
    if sum(piece.length for piece in pieces) != found.size:
        raise Replaced("The object was replaced or deleted meanwhile; try again.")
    return Data(found.size, found.etag, pieces)


def tag(etags: Sequence[str]) -> str:
    return hashlib.md5("".join(etags).encode(), usedforsecurity=False).hexdigest()


def manifest_of(found: Object | Version) -> str | None:
    """The container/prefix of a dynamic large object, which is escaped in its header."""
    told = found.headers.get("X-Object-Manifest")
    return None if told is None else path_of(told)


def dynamic(conn: Connection, store: ObjectStore, place: Place, now: datetime, may_read: MayRead) -> Data:
    """`place` is a container and a prefix. Raises Forbidden if the container may not be read, Conflict if there are too
    many segments, or if one that is a large object itself has changed.
    """
    container = containers.find(conn, place)
    if container is None:
        return Data(0, f'"{tag(())}"', ())
    if not may_read(conn, container):
        raise Forbidden("A segment may not be read.")
    found = listing.of_objects(conn, container, Wanted(limit=MOST_PIECES + 1, prefix=place.name), now)
    if len(found) > MOST_PIECES:
        raise _too_many()
    assembly, pieces, etags = _Assembly(conn, store, now, may_read), list[Piece](), list[str]()
    for each in found:
        if not isinstance(each, str):
            segment = own(conn, each) if each.large_etag is None else assembly.of(place, each)
            pieces += segment.pieces
            etags.append(segment.etag.strip('"'))
            if len(pieces) > MOST_PIECES:
                raise _too_many()
    return Data(sum(each.length for each in pieces), f'"{tag(etags)}"', pieces)


# -- static


@frozen
class Segment:
    """A segment as a client names it. `range`: the part of it that is meant."""

    path: str = ""
    etag: str | None = None
    size: int | None = None
    range: str | None = None
    data: bytes = b""


def check_length(size: int) -> None:
    """Of a manifest. Raises TooLarge."""
    if size > MOST_BYTES:
        raise TooLarge(f"Manifest File > {MOST_BYTES} bytes")


def parse(raw: bytes) -> list[Segment]:
    """Raises Invalid, TooLarge."""
    check_length(len(raw))
    try:
        given = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise Invalid("Manifest must be valid JSON.") from None
    if not isinstance(given, list):
        raise Invalid("Manifest must be a list.")
    if not given:
        raise Invalid("No segments.")
    if len(given) > MOST_SEGMENTS:
        raise TooLarge(f"Number of object-backed segments must be <= {MOST_SEGMENTS}")
    found = [_segment(index, each) for index, each in enumerate(given)]
    if not any(each.path for each in found):
        raise Invalid("Inline data segments require at least one object-backed segment.")
    return found


def _segment(index: int, given: Any) -> Segment:
    """Raises Invalid."""

    def wrong(why: str) -> Invalid:
        return Invalid(f"Index {index}: {why}")

    if not isinstance(given, dict):
        raise wrong("not a JSON object")
    if unknown := given.keys() - KEYS:
        raise wrong(f"extraneous keys {', '.join(sorted(str(each)[:64] for each in unknown))}")
    if "data" in given:
        try:
            data = base64.b64decode(given["data"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise wrong("data must be valid base64") from None
        if not data or len(given) > 1:
            raise wrong("too small; each segment must be at least 1 byte." if not data else "data stands alone")
        return Segment(data=data)
    path, etag, size, range_ = (given.get(key) for key in ("path", "etag", "size_bytes", "range"))
    if not isinstance(path, str) or "/" not in path.lstrip("/").rstrip("/"):
        raise wrong("path does not refer to an object. Path must be of the form /container/object.")
    if isinstance(size, str) and size.isascii() and size.isdecimal():
        size = int(size[:20])
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        raise wrong("invalid size_bytes")
    if etag is not None and not isinstance(etag, str):
        raise wrong("invalid etag")
    if size is not None and size < 1:
        raise wrong("too small; each segment must be at least 1 byte.")
    if range_ is not None and (not isinstance(range_, str) or RANGE.fullmatch(range_) is None or range_ == "-"):
        raise wrong("invalid range")
    return Segment(path, etag.strip('"') if etag else None, size, range_ or None)


@frozen
class Manifest:
    """What is stored: entries as `?multipart-manifest=get` shows them."""

    entries: Sequence[Mapping[str, Any]]
    size: int
    etag: str


def check(
    conn: Connection, place: Place, segments: Sequence[Segment], now: datetime, may_read: MayRead
) -> tuple[Manifest, list[tuple[str, str]]]:
    """The manifest, and the errors of segments: (path, why) of each. Raises TooLarge."""
    entries: list[dict[str, Any]] = []
    etags: list[str] = []
    wrong: list[tuple[str, str]] = []
    total = 0
    for segment in segments:
        if segment.data:
            entries.append({"data": base64.b64encode(segment.data).decode()})
            etags.append(hashlib.md5(segment.data, usedforsecurity=False).hexdigest())
            total += len(segment.data)
            continue
        entry, why = _checked(conn, place, segment, now, may_read)
        if entry is None:
            wrong.append((segment.path, why))
            continue
        entries.append(entry)
        etags.append(f"{entry['hash']}:{entry['range']};" if "range" in entry else entry["hash"])
        total += _length(entry)
    if total > LARGEST:
        raise TooLarge(f"The segments come to more than {LARGEST} bytes.")
    return Manifest(entries, total, tag(etags)), wrong


def _checked(
    conn: Connection, place: Place, segment: Segment, now: datetime, may_read: MayRead
) -> tuple[dict[str, Any] | None, str]:
    """The entry of one segment, or why there is none."""
    where = place.inside(segment.path)
    try:
        led = links.followed(conn, where, may_read, now)
    except Forbidden:
        return None, "403 Forbidden"
    except Conflict:
        return None, "409 Conflict"
    if led is None:
        return None, "404 Not Found"
    _, found = led
    size = found.size if found.large_size is None else found.large_size
    etag = found.etag if found.large_etag is None else found.large_etag
    if segment.size is not None and segment.size != size:
        return None, "Size Mismatch"
    if segment.etag is not None and segment.etag != etag:
        return None, "Etag Mismatch"
    if size < 1:
        return None, "Too Small; each segment must be at least 1 byte."
    entry: dict[str, Any] = {
        "name": f"/{where.container}/{where.name}",
        "bytes": size,
        "hash": etag,
        "content_type": found.content_type,
        "last_modified": found.updated_at.isoformat(timespec="microseconds"),
    }
    if found.large_etag is not None:
        entry["sub_slo"] = True
    if segment.range is not None:
        start, stop = _span(segment.range, size)
        if start >= stop:
            return None, "Unsatisfiable Range"
        if (start, stop) != (0, size):
            entry["range"] = f"{start}-{stop - 1}"
    return entry, ""


def _span(range_: str, size: int) -> tuple[int, int]:
    first, _, last = range_.partition("-")
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(int(last) + 1, size) if last else size


def _length(entry: Mapping[str, Any]) -> int:
    start, stop = _span(entry.get("range", "0-"), entry["bytes"])
    return stop - start


def read(store: ObjectStore, found: Object | Version) -> list[dict[str, Any]]:
    """The manifest of a static large object. Blocks. Raises OSError, Unavailable."""
    assert found.file_id is not None
    with store.open(found.file_id) as file:
        entries: list[dict[str, Any]] = orjson.loads(file.read())
    return entries


def spans(entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """The start and the end of each entry's data within the whole."""
    ends = [0]
    for entry in entries:
        ends.append(ends[-1] + (len(base64.b64decode(entry["data"])) if "data" in entry else _length(entry)))
    return list(pairwise(ends))


def raw(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A manifest in the form in which it can be sent again."""
    names = (("path", "name"), ("etag", "hash"), ("size_bytes", "bytes"), ("range", "range"), ("data", "data"))
    return [{ours: each[theirs] for ours, theirs in names if theirs in each} for each in entries]


def static(
    conn: Connection, store: ObjectStore, place: Place, found: Object | Version, now: datetime, may_read: MayRead
) -> Data:
    """Raises Conflict if a segment has changed, or if there are too many."""
    return _Assembly(conn, store, now, may_read).of(place, found)


@define
class _Assembly:
    """One reading of static large objects: each part is looked up once, however often it is named."""

    conn: Connection
    store: ObjectStore
    now: datetime
    may_read: MayRead
    known: dict[Place, Data] = field(factory=dict)
    looked_at: int = 0  # segments
    parsed: int = 0  # bytes of manifests

    def of(self, place: Place, found: Object | Version, depth: int = 1) -> Data:
        self.parsed += found.size
        if self.parsed > MOST_OF_MANIFESTS:
            raise _too_many()
        pieces: list[Piece] = []
        for entry in read(self.store, found):
            if "data" in entry:
                data = base64.b64decode(entry["data"])
                pieces.append(Piece(len(data), data=data))
            else:
                part = self._part(place.inside(entry["name"]), entry, depth)
                pieces += part.cut(*_span(entry.get("range", "0-"), part.size))
            if len(pieces) > MOST_PIECES:
                raise _too_many()
        return Data(sum(each.length for each in pieces), f'"{found.large_etag}"', pieces)

    def _part(self, where: Place, entry: Mapping[str, Any], depth: int) -> Data:
        part = self.known.get(where)
        if part is None:
            self.looked_at += 1
            if self.looked_at > MOST_PIECES:
                raise _too_many()
            part = self.known[where] = self._looked_up(where, "sub_slo" in entry, depth)
        if part.etag.strip('"') != entry["hash"] or part.size != entry["bytes"]:
            raise Conflict(f"The segment {entry['name'][:64]} was changed.")
        return part

    def _looked_up(self, where: Place, is_large: bool, depth: int) -> Data:
        """`where` may be a link: a manifest gives no access to what the caller may not read there."""
        try:
            led = links.followed(self.conn, where, self.may_read, self.now)
        except Forbidden:
            led = None
        if led is None or depth > DEEPEST:
            raise Conflict(f"The segment /{where.container[:64]}/{where.name[:64]} cannot be read.")
        place, segment = led
        if is_large and segment.large_etag is not None:
            return self.of(place, segment, depth + 1)
        return own(self.conn, segment)


def _too_many() -> Conflict:
    return Conflict(f"The large object is made of more than {MOST_PIECES} parts.")


def unread(found: Object | Version) -> Data:
    """For a static large object whose data is not requested: as in its manifest, with a hole in place of the data."""
    assert found.large_size is not None
    return Data(found.large_size, f'"{found.large_etag}"', (Piece(found.large_size),))


def segments_of(store: ObjectStore, place: Place, found: Object | Version) -> list[Place]:
    """The objects that a static large object is made of. Blocks. Raises OSError, Unavailable."""
    return [place.inside(entry["name"]) for entry in read(store, found) if "name" in entry]


def path_of(text: str) -> str:
    """A path from a header or a list, unescaped."""
    return unquote(text, errors="surrogateescape")
