"""The HTTP server: limits on bodies as their bytes arrive, uploads spooled where they will stay.

twisted.web takes a whole body before a resource runs, however large, into the default temporary directory. Here a body
over its limit is answered 413 as soon as that is known, and an upload goes to the directory of the store that will keep
it, so that keeping it is a hard link and no copy.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from cloudctl.rest.pipeline import JSON_LIMIT

UPLOAD_TYPE = b"application/octet-stream"
# Bytes over the limit that are read and thrown away, so that the answer is the service's own.
PATIENCE = 4 * 2**20
SPOOL_PREFIX = "upload-"

TOO_LARGE = (
    b"HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
TOO_LARGE_BODY = b'{"error":{"code":413,"title":"Request Entity Too Large","message":"The request body is too large."}}'


@frozen
class Uploads:
    """Bodies of type `application/octet-stream`: at most `limit` bytes, kept in `directory` while they arrive.

    `admits` looks at the request's headers alone (a token that is none is refused before gigabytes are read).
    """

    directory: Path
    limit: int
    admits: Callable[[Headers], bool]

    def spool(self) -> IO[bytes]:
        """A file that is deleted when the request is over, unless somebody has linked it by then."""
        return cast(IO[bytes], tempfile.NamedTemporaryFile(prefix=SPOOL_PREFIX, dir=self.directory))

    def sweep(self, before: float = math.inf) -> None:
        """Delete what a killed process left behind. Call it before the listener starts.

        `before`: only what was last written before this time (seconds since the epoch); another process may be
        receiving the rest.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        for left in self.directory.glob(f"{SPOOL_PREFIX}*"):
            try:
                if left.stat().st_mtime < before:
                    left.unlink()
            except FileNotFoundError:
                continue  # its process has just ended the request


class LimitedRequest(Request):
    """A request whose body cannot grow past its limit."""

    limit = JSON_LIMIT
    received = 0
    # Its body is over the limit: the rest of it is thrown away, and the pipeline answers 413.
    too_large = False
    refused = False

    def gotLength(self, length: int | None) -> None:
        uploads: Uploads | None = getattr(getattr(self.channel, "site", None), "uploads", None)
        media = (self.getHeader(b"content-type") or b"").partition(b";")[0].strip().lower()
        if media == UPLOAD_TYPE and uploads is not None and uploads.admits(self.requestHeaders):
            self.limit = uploads.limit
            self.body: IO[bytes] = uploads.spool()
        else:
            self.body = BytesIO()
        self.content = self.body
        self._judge(length or 0)

    def handleContentChunk(self, data: bytes) -> None:
        self.received += len(data)
        self._judge(self.received)
        if not self.too_large:
            self.body.write(data)

    def _judge(self, size: int) -> None:
        if size > self.limit:
            self.too_large = True
        if size > self.limit + PATIENCE and not self.refused:
            self._refuse()

    def _refuse(self) -> None:
        """Answer and hang up: the rest of the body is not worth reading."""
        self.refused = True
        self.channel.write(TOO_LARGE % (len(TOO_LARGE_BODY), TOO_LARGE_BODY))
        self.channel.loseConnection()

    def process(self) -> None:
        if not self.refused:
            super().process()


class CloudSite(Site):
    """A Site for a cloud's resource tree. The pipeline writes the access log, with request ids."""

    def __init__(self, resource: Resource, clock: IReactorTime, uploads: Uploads | None, idle: float = 65.0) -> None:
        super().__init__(
            resource,
            requestFactory=LimitedRequest,
            reactor=clock,
            timeout=idle,
            # Nobody here takes a form: one is refused by the pipeline, and no content type is taken apart for it.
            parsePOSTFormSubmission=False,
        )
        self.uploads = uploads
        self.displayTracebacks = False

    def log(self, request: Any) -> None:
        """Nothing: see `Pipeline`."""
