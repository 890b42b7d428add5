"""Bodies of S3: decoded, and checked against what the client said about them, while they are written."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from io import BytesIO
from typing import IO, cast

from attrs import define, frozen

from cloudctl.object_store.api.headers import sent
from cloudctl.object_store.api.s3 import checksums
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.chunks import Chunks, Signing
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.signature import STREAMING, UNSIGNED
from cloudctl.object_store.hashing import Digest, HashedFile, Hashing
from cloudctl.rest.call import Call

SEVERAL = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
# Of those headers, the ones that are not sums.
ABOUT_SUMS = ("type", "algorithm", "mode")


@frozen
class Expected:
    """What the headers say about the body."""

    payload: str  # x-amz-content-sha256
    size: int | None  # of the data in it, if it is chunked
    md5: bytes  # empty: not given
    checksums: dict[str, str]  # algorithm → base64, or empty if it is in the trailer
    is_document: bool = False  # errors show its MD5 as it was sent
    wanted: str = ""  # an algorithm whose sum is computed even if the client sends none

    @property
    def is_signed(self) -> bool:
        """Whether its chunks are."""
        return self.size is not None and STREAMING[self.payload][0]

    @classmethod
    def of(cls, call: Call, wanted: str = "", *, summed: bool = True) -> Expected:
        """`summed`: checksums in the headers are of this body. Raises InvalidDigest, InvalidRequest,
        MissingContentLength, MalformedTrailerError.
        """
        payload = call.header("x-amz-content-sha256") or UNSIGNED
        # A signed URL cannot have chunks without a trailer: then this is not a hash, either.
        is_chunked = STREAMING.get(payload, (False, False))[1] or (
            payload in STREAMING and "X-Amz-Signature" not in call.query
        )
        size = call.header("x-amz-decoded-content-length")
        if is_chunked and not (size and size.isascii() and size.isdecimal() and len(size) < 19):
            raise error("MissingContentLength")
        sums = _sums(call) if summed else {}
        if not is_chunked and "" in sums.values():
            raise error("MalformedTrailerError")
        if wanted and not set(sums) <= {wanted}:
            told = f"expected checksum Type: {wanted}, actual checksum Type: {next(iter(sums))}"
            raise error("InvalidRequest", f"Checksum Type mismatch occurred, {told}")
        return cls(payload, int(size) if size and is_chunked else None, _md5(call), sums, wanted=wanted)

    @property
    def algorithms(self) -> list[str]:
        """The algorithms whose sums are sent and stored."""
        return [*self.checksums, *([self.wanted] if self.wanted and self.wanted not in self.checksums else [])]


def _md5(call: Call) -> bytes:
    given = call.header("content-md5")
    if given is None:
        return b""
    try:
        raw = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise error("InvalidDigest", "The Content-MD5 you specified was invalid.", {"Content-MD5": given})
    return raw


def _sums(call: Call) -> dict[str, str]:
    """Raises InvalidRequest."""
    given = {name.lower().removeprefix(HEADER): value for name, value in sent(call) if name.lower().startswith(HEADER)}
    found = {name: value for name, value in given.items() if name not in ABOUT_SUMS}
    if not found.keys() <= ALGORITHMS.keys():
        raise error("InvalidRequest", "The algorithm type you specified in x-amz-checksum- header is invalid.")
    behind = _behind(call)
    if len(found) > 1 or len(behind) > 1:
        raise error("InvalidRequest", SEVERAL)
    if found and behind:
        raise error("InvalidRequest", "Expecting a single x-amz-checksum- header")
    declared = call.header("x-amz-sdk-checksum-algorithm")
    if declared is not None and not (found or behind):
        raise error(
            "InvalidRequest",
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers "
            "were found.",
        )
    if declared is not None and declared.lower() not in (*found, *behind):
        raise error("InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.")
    for name, value in found.items():
        if not checksums.is_one(name, value):
            raise error("InvalidRequest", f"Value for {HEADER}{name} header is invalid.")
    return found | dict.fromkeys(behind, "")


def _behind(call: Call) -> list[str]:
    """The checksums that the trailer must have. Raises InvalidRequest."""
    said = (call.header("x-amz-trailer") or "").strip().rstrip(",")
    names = [each.strip().lower() for each in said.split(",")] if said else []
    if any(not name.startswith(HEADER) or name.removeprefix(HEADER) not in ALGORITHMS for name in names):
        raise error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported")
    return [name.removeprefix(HEADER) for name in names]


@define(eq=False, kw_only=True)
class Incoming(HashedFile):
    """A file that a body is written to as it arrives. `finish` checks it against what was expected."""

    expected: Expected
    chunks: Chunks | None
    digests: Mapping[str, Digest]  # what the file computes besides its MD5

    def write(self, data: bytes) -> int:
        """Raises what is wrong with it."""
        for piece in (data,) if self.chunks is None else self.chunks.feed(data):
            super().write(piece)
        return len(data)

    def finish(self) -> IO[bytes]:
        """Check the body once all of it has arrived. Raises what is wrong with it."""
        given = dict(self.expected.checksums)
        if self.chunks is not None:
            self.chunks.finish()
            for name in given:
                if not given[name] and not checksums.is_one(name, self.chunks.trailers[HEADER + name]):
                    raise error("InvalidRequest", f"Value for {HEADER}{name} trailing header is invalid.")
                given[name] = given[name] or self.chunks.trailers[HEADER + name]
        elif self.expected.payload != UNSIGNED:
            computed = self.digests["sha256"].digest().hex()
            if computed != self.expected.payload.lower():
                more = {"ClientComputedContentSHA256": self.expected.payload, "S3ComputedContentSHA256": computed}
                told = "The provided 'x-amz-content-sha256' header does not match what was computed."
                raise error("XAmzContentSHA256Mismatch", told, more)
        if self.expected.md5 and self.expected.md5 != self.md5.digest():
            wanted = self.expected.md5.hex()
            if self.expected.is_document:
                wanted = base64.b64encode(self.expected.md5).decode()
            calculated = base64.b64encode(self.md5.digest()).decode()
            raise error("BadDigest", more={"ExpectedDigest": wanted, "CalculatedDigest": calculated})
        for name, value in given.items():
            if value != checksums.told(self.digests[name]):
                raise error("BadDigest", f"The {name.upper()} you specified did not match the calculated checksum.")
        return self.file if isinstance(self.file, BytesIO) else cast(IO[bytes], self)

    @property
    def sums(self) -> dict[str, str]:
        """The sums to send and store."""
        return {HEADER + name: checksums.told(self.digests[name]) for name in self.expected.algorithms}


def incoming(file: IO[bytes], expected: Expected, signing: Signing | None, hashing: Hashing | None = None) -> Incoming:
    """`hashing`: for large bodies."""
    chunks = None
    wanted = {name: ALGORITHMS[name]() for name in expected.algorithms}
    if expected.size is not None:
        behind = "".join(HEADER + name for name, value in expected.checksums.items() if not value)
        chunks = Chunks(expected.size, signing, STREAMING[expected.payload][1], behind)
    elif expected.payload != UNSIGNED and "sha256" not in wanted:
        wanted["sha256"] = ALGORITHMS["sha256"]()
    return Incoming(
        file=file,
        hashing=hashing or Hashing(),
        others=tuple(wanted.values()),
        expected=expected,
        chunks=chunks,
        digests=wanted,
    )


def received(body: IO[bytes], expected: Expected, signing: Signing | None) -> Incoming:
    """The body of a request: already such a file, or still in memory. Raises what is wrong with it."""
    file: object = body
    if isinstance(file, Incoming):
        return file
    made = incoming(BytesIO(), expected, signing)
    body.seek(0)
    made.write(body.read())
    return made
