"""`aws-chunked` bodies: chunks, each with its size and, if signed, its signature; then headers, the trailer.

Reference: object-store.md, B1; AWS, «Signature calculations: transferring payload in multiple chunks».
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from enum import Enum, auto

from attrs import define, field

from cloudctl.errors import CloudError
from cloudctl.object_store.api.s3.faults import error

LONGEST_LINE = 4096  # bytes
LEAST_SIZE = 8192  # bytes of a signed chunk that is not the last
SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(?: *; *chunk-signature *= *([^; ]+) *)?")
EMPTY = hashlib.sha256().hexdigest()
SIGNED, TRAILER = "AWS4-HMAC-SHA256-PAYLOAD", "AWS4-HMAC-SHA256-TRAILER"
TRAILER_SIGNATURE = "x-amz-trailer-signature"


def mismatch(access: str, text: str, given: str) -> dict[str, str]:
    """What an error tells about a signature that does not match a text."""
    return {
        "AWSAccessKeyId": access,
        "StringToSign": text,
        "SignatureProvided": given,
        "StringToSignBytes": text.encode("utf-8", "surrogateescape").hex(" "),
    }


def miscounted(provided: int, expected: int) -> CloudError:
    told = "You did not provide the number of bytes specified by the Content-Length HTTP header"
    return error("IncompleteBody", told, {"NumberBytesExpected": str(expected), "NumberBytesProvided": str(provided)})


@define
class Signing:
    """Each chunk is signed together with the previous signature, the first one with that of the request."""

    key: bytes
    when: str
    scope: str
    last: str
    access: str = ""

    def check(self, kind: str, given: str, *hashes: str) -> None:
        """Raises SignatureDoesNotMatch."""
        text = "\n".join((kind, self.when, self.scope, self.last, *hashes))
        expected = hmac.digest(self.key, text.encode(), "sha256").hex()
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            raise error("SignatureDoesNotMatch", more=mismatch(self.access, text, given))
        self.last = expected


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILER = auto()
    OVER = auto()


@define
class Chunks:
    """Decodes such a body as it arrives: `feed` yields the data in it. `size`: the amount that the client announced;
    `declared`: the header that is its trailer, if there is one.
    """

    size: int
    signing: Signing | None = None
    has_trailer: bool = False
    declared: str = ""
    trailers: dict[str, str] = field(factory=dict, init=False)
    _state: _State = field(default=_State.SIZE, init=False)
    _buffer: bytes = field(default=b"", init=False)
    _at: int = field(default=0, init=False)  # where the unread rest begins: cutting off each chunk would copy the rest
    _left: int = field(default=0, init=False)  # of the chunk
    _number: int = field(default=0, init=False)  # of the chunk, from 1
    _length: int = field(default=0, init=False)  # of the previous chunk
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
                # Ignore what follows.
                self._at = len(self._buffer)
                return
            else:
                line = self._line()
                if line is None:
                    return
                self._read(line)

    def finish(self) -> None:
        """Check that all has arrived. Raises IncompleteBody."""
        if self._state is _State.TRAILER and self._at == len(self._buffer):
            # The empty line after the trailer may be missing.
            self._end()
        if not self.is_over:
            raise error("IncompleteBody")
        if self._seen != self.size:
            raise miscounted(self._seen, self.size)

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", self._at, self._at + LONGEST_LINE + 2)
        if end < 0 and len(self._buffer) - self._at > LONGEST_LINE:
            raise error("IncompleteBody")
        if end < 0:
            return None
        line, self._at = self._buffer[self._at : end], end + 2
        return line

    def _read(self, line: bytes) -> None:
        if self._state is _State.SIZE:
            self._begin(line)
        elif self._state is _State.END_OF_DATA:
            if line:
                raise error("IncompleteBody")
            self._check()
            self._state = _State.SIZE
        else:
            self._trailer(line)

    def _begin(self, line: bytes) -> None:
        found = SIZE.fullmatch(line)
        if found is None or (self.signing is None) != (found[2] is None):
            raise error("IncompleteBody")
        self._left = int(found[1], 16)
        self._number += 1
        if self.signing is not None and self._left and 0 < self._length < LEAST_SIZE:
            told = {"Chunk": str(self._number), "BadChunkSize": str(self._length)}
            raise error("InvalidChunkSizeError", more=told)
        self._length = self._left
        self._seen += self._left
        if self._seen > self.size:
            raise miscounted(self._seen, self.size)
        self._signature = (found[2] or b"").decode("utf-8", "replace")
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
            if name.strip().lower() not in (self.declared, self.signing and TRAILER_SIGNATURE):
                raise error("MalformedTrailerError")
            self.trailers[name.strip().lower()] = value.strip()
        elif not self.has_trailer or self.signing is None or TRAILER_SIGNATURE in self.trailers:
            self._end()

    def _end(self) -> None:
        signature = self.trailers.pop(TRAILER_SIGNATURE, "")
        if self.signing is not None and self.has_trailer:
            if not (signature and self.declared):
                raise error("IncompleteBody")
            text = "".join(f"{name}:{value}\n" for name, value in sorted(self.trailers.items()))
            self.signing.check(TRAILER, signature, hashlib.sha256(text.encode()).hexdigest())
        if self.declared and self.declared not in self.trailers:
            raise error("MalformedTrailerError")
        self._state = _State.OVER
