"""`aws-chunked` bodies: chunks with a size each, and a signature each where they are signed; then headers, the trailer.

Reference: object-store.md, B1; AWS, «Signature calculations: transferring payload in multiple chunks».
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from enum import Enum, auto

from attrs import define, field

from cloudctl.object_store.api.s3.faults import error

LONGEST_LINE = 4096  # bytes
MOST_TRAILERS = 16
SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?")
EMPTY = hashlib.sha256().hexdigest()
SIGNED, TRAILER = "AWS4-HMAC-SHA256-PAYLOAD", "AWS4-HMAC-SHA256-TRAILER"
TRAILER_SIGNATURE = "x-amz-trailer-signature"


@define
class Signing:
    """Each chunk is signed together with the signature before it, the first one with that of the request."""

    key: bytes
    when: str
    scope: str
    last: str

    def check(self, kind: str, given: str, *hashes: str) -> None:
        """Raises SignatureDoesNotMatch."""
        text = "\n".join((kind, self.when, self.scope, self.last, *hashes))
        expected = hmac.digest(self.key, text.encode(), "sha256").hex()
        if not hmac.compare_digest(expected, given):
            raise error("SignatureDoesNotMatch", "A chunk of the body is not signed as it says.")
        self.last = expected


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILER = auto()
    OVER = auto()


@define
class Chunks:
    """Takes such a body apart as it comes: `feed` gives the data in it. `size`: how much the client says there is."""

    size: int
    signing: Signing | None = None
    has_trailer: bool = False
    trailers: dict[str, str] = field(factory=dict, init=False)
    _state: _State = field(default=_State.SIZE, init=False)
    _buffer: bytes = field(default=b"", init=False)
    _at: int = field(default=0, init=False)  # what of it is not read yet: to cut each chunk off would copy the rest
    _left: int = field(default=0, init=False)  # of the chunk
    _seen: int = field(default=0, init=False)  # of all data
    _hash: hashlib._Hash = field(factory=hashlib.sha256, init=False)
    _signature: str = field(default="", init=False)

    @property
    def is_over(self) -> bool:
        return self._state is _State.OVER

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises what is wrong with it."""
        self._buffer, self._at = self._buffer[self._at :] + data, 0
        while True:
            if self._state is _State.DATA:
                piece = self._buffer[self._at : self._at + self._left]
                if not piece:
                    return
                self._at += len(piece)
                self._left -= len(piece)
                if self.signing is not None:
                    self._hash.update(piece)
                if not self._left:
                    self._state = _State.END_OF_DATA
                yield piece
            elif self._state is _State.OVER:
                if self._buffer[self._at :].strip(b"\r\n"):
                    raise error("InvalidRequest", "Something follows the last chunk of the body.")
                return
            else:
                line = self._line()
                if line is None:
                    return
                self._read(line)

    def finish(self) -> None:
        """All has come. Raises IncompleteBody."""
        if self._state is _State.TRAILER:
            # The empty line after the trailer may be missing.
            if left := self._buffer[self._at :]:
                self._read(left)
            self._end()
        if not self.is_over or self._seen != self.size:
            raise error("IncompleteBody", "You did not provide the number of bytes specified.")

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._at, self._at + LONGEST_LINE + 1)
        if end < 0 and len(self._buffer) - self._at > LONGEST_LINE:
            raise error("InvalidRequest", "A line of the chunked body is too long.")
        if end < 0:
            return None
        line, self._at = self._buffer[self._at : end], end + 1
        return line.removesuffix(b"\r")

    def _read(self, line: bytes) -> None:
        if self._state is _State.SIZE:
            self._begin(line)
        elif self._state is _State.END_OF_DATA:
            if line:
                raise error("InvalidRequest", "A chunk of the body is longer than it says.")
            self._check()
            self._state = _State.SIZE
        else:
            self._trailer(line)

    def _begin(self, line: bytes) -> None:
        found = SIZE.fullmatch(line)
        if found is None or (self.signing is None) != (found[2] is None):
            raise error("InvalidRequest", "The size of a chunk of the body cannot be read.")
        self._left = int(found[1], 16)
        self._seen += self._left
        if self._seen > self.size:
            raise error("IncompleteBody", "The body has more bytes than x-amz-decoded-content-length says.")
        self._signature = (found[2] or b"").decode()
        self._hash = hashlib.sha256()
        if self._left:
            self._state = _State.DATA
            return
        self._check()
        self._state = _State.TRAILER

    def _check(self) -> None:
        if self.signing is not None:
            self.signing.check(SIGNED, self._signature, EMPTY, self._hash.hexdigest())

    def _trailer(self, line: bytes) -> None:
        if line:
            name, _, value = line.decode("utf-8", "replace").partition(":")
            if len(self.trailers) >= MOST_TRAILERS:
                raise error("InvalidRequest", "The trailer of the body has too many headers.")
            self.trailers[name.strip().lower()] = value.strip()
        elif not self.has_trailer or self.signing is None or TRAILER_SIGNATURE in self.trailers:
            self._end()

    def _end(self) -> None:
        signature = self.trailers.pop(TRAILER_SIGNATURE, "")
        if self.signing is not None and self.has_trailer:
            text = "".join(f"{name}:{value}\n" for name, value in sorted(self.trailers.items()))
            self.signing.check(TRAILER, signature, hashlib.sha256(text.encode()).hexdigest())
        self._state = _State.OVER
