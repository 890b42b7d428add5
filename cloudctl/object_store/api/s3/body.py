"""Bodies of S3: what comes is taken apart, and held against what the client said of it, while it is written."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from io import BytesIO
from typing import IO, cast

from attrs import define, frozen

from cloudctl.db.threads import Inline, Threads
from cloudctl.object_store.api.s3 import checksums
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.chunks import Chunks, Signing
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.signature import UNSIGNED
from cloudctl.object_store.store import Digest, HashedFile
from cloudctl.rest.call import Call

# What is said of a chunked body in the place of its hash, and whether it is signed, and has a trailer.
STREAMING = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": (True, False),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": (True, True),
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": (False, True),
}
HASH = re.compile("[0-9a-f]{64}")


@frozen
class Expected:
    """What the headers say of the body."""

    payload: str  # x-amz-content-sha256
    size: int | None  # of the data in it, where it is chunked
    md5: str  # hex; empty: nothing is said
    checksums: dict[str, str]  # algorithm → base64, or empty where it is in the trailer
    wanted: str = ""  # an algorithm whose sum is reckoned although the client says none

    @property
    def is_signed(self) -> bool:
        """Whether its chunks are."""
        return STREAMING.get(self.payload, (False, False))[0]

    @classmethod
    def of(cls, call: Call, wanted: str = "", *, summed: bool = True) -> Expected:
        """`summed`: checksums in the headers are those of this body. Raises InvalidDigest,
        InvalidRequest, MissingContentLength.
        """
        payload = call.header("x-amz-content-sha256") or UNSIGNED
        if payload not in (UNSIGNED, *STREAMING) and HASH.fullmatch(payload) is None:
            raise error(
                "InvalidArgument", f"x-amz-content-sha256 must be a hash or one of {UNSIGNED}, {', '.join(STREAMING)}."
            )
        size = call.header("x-amz-decoded-content-length")
        if payload in STREAMING and not (size and size.isascii() and size.isdecimal() and len(size) < 19):
            raise error("MissingContentLength", "You must provide the x-amz-decoded-content-length HTTP header.")
        sums = _sums(call) if summed else {}
        if wanted and not set(sums) <= {wanted}:
            told = f"expected checksum Type: {wanted}, actual checksum Type: {next(iter(sums))}"
            raise error("InvalidRequest", f"Checksum Type mismatch occurred, {told}")
        return cls(payload, int(size) if size and payload in STREAMING else None, _md5(call), sums, wanted)

    @property
    def algorithms(self) -> list[str]:
        """Those whose sums are told and kept."""
        return [*self.checksums, *([self.wanted] if self.wanted and self.wanted not in self.checksums else [])]


def _md5(call: Call) -> str:
    given = call.header("content-md5")
    if given is None:
        return ""
    try:
        raw = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise error("InvalidDigest", "The Content-MD5 you specified is not valid.")
    return raw.hex()


def _sums(call: Call) -> dict[str, str]:
    """Raises InvalidRequest."""
    found = {name: call.header(HEADER + name) or "" for name in ALGORITHMS if call.header(HEADER + name) is not None}
    for each in (call.header("x-amz-trailer") or "").lower().split(","):
        name = each.strip().removeprefix(HEADER)
        if each.strip() and name not in ALGORITHMS:
            raise error(
                "InvalidRequest", f"The value specified in the x-amz-trailer header is not supported: {each[:64]}"
            )
        if each.strip():
            found[name] = ""
    if len(found) > 1:
        raise error("InvalidRequest", "Expecting a single x-amz-checksum- header.")
    return found


@define
class Incoming:
    """A file that a body is written to as it comes. `finish` says whether it was what it should be."""

    file: HashedFile
    expected: Expected
    chunks: Chunks | None
    _digests: Mapping[str, Digest]  # what the file reckons, beside its MD5

    def write(self, data: bytes) -> int:
        """Raises what is wrong with it."""
        for piece in (data,) if self.chunks is None else self.chunks.feed(data):
            self.file.write(piece)
        return len(data)

    def finish(self) -> IO[bytes]:
        """All of it has come. Raises what is wrong with it."""
        given = dict(self.expected.checksums)
        if self.chunks is not None:
            self.chunks.finish()
            for name in given:
                given[name] = given[name] or self.chunks.trailers.get(HEADER + name, "")
        elif self.expected.payload != UNSIGNED and self._digests["sha256"].digest().hex() != self.expected.payload:
            raise error(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )
        if self.expected.md5 and self.expected.md5 != self.file.md5.hexdigest():
            raise error("BadDigest")
        for name, value in given.items():
            if value != checksums.told(self._digests[name]):
                raise error("BadDigest", f"The {name.upper()} you specified did not match the calculated checksum.")
        return self.file.file if isinstance(self.file.file, BytesIO) else cast(IO[bytes], self.file)

    @property
    def sums(self) -> dict[str, str]:
        """Those that are told and kept, as they are."""
        return {HEADER + name: checksums.told(self._digests[name]) for name in self.expected.algorithms}

    # -- as a file

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def flush(self) -> None:
        self.file.flush()

    def fileno(self) -> int:
        return self.file.fileno()

    def close(self) -> None:
        self.file.close()


def incoming(file: IO[bytes], expected: Expected, signing: Signing | None, threads: Threads | None = None) -> Incoming:
    """`threads` hash what is much."""
    chunks = None
    wanted = {name: ALGORITHMS[name]() for name in expected.algorithms}
    if expected.size is not None:
        chunks = Chunks(expected.size, signing, STREAMING[expected.payload][1])
    elif expected.payload != UNSIGNED and "sha256" not in wanted:
        wanted["sha256"] = ALGORITHMS["sha256"]()
    return Incoming(HashedFile(file, threads or Inline(), tuple(wanted.values())), expected, chunks, wanted)


def received(body: IO[bytes], expected: Expected, signing: Signing | None) -> Incoming:
    """The body of a request, which went through such a file already, or is in memory. Raises what is wrong with it."""
    if isinstance(body, Incoming):
        return body
    made = incoming(BytesIO(), expected, signing)
    body.seek(0)
    made.write(body.read())
    return made
