"""The HTTP server: limits on bodies as their bytes arrive, uploads spooled where they will stay.

twisted.web takes a whole body before a resource runs, however large, into the default temporary directory. Here a body
over its limit is answered 413 as soon as that is known, and an upload goes to the directory of the store that will keep
it, so that keeping it is a hard link and not a copy.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from http import HTTPStatus
from io import BytesIO
from typing import IO, Any, cast
from urllib.parse import unquote_to_bytes

from twisted.internet.abstract import FileDescriptor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import RESPONSES
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from cloudctl.config import AdmissionOptions
from cloudctl.errors import CloudError, Unavailable
from cloudctl.rest.app import ApiResource, Tree
from cloudctl.rest.connections import Channel, Connections
from cloudctl.rest.pipeline import JSON_LIMIT, Where
from cloudctl.rest.sendfile import plain
from cloudctl.rest.spool import Spool
from cloudctl.rest.unforeseen import refusal
from cloudctl.rest.uploads import LATER, Admitted, Flow, Uploads

log = Logger()

# Bytes over the limit that are read and thrown away, so that the answer is the service's own.
PATIENCE = 4 * 2**20

# An upload of no more bytes stays in memory until all have come, where there is room: less work than first asking
# whether it may come, and finding a file for it. The handler then asks by itself.
SMALL = 2**14

# Bytes of an upload that are read at once. Many small buffers cost more to allocate and free than to fill.
UPLOAD_READ = 2**19

BUSY = "Too many requests are being received now."

TOO_LARGE = (
    b"HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
TOO_LARGE_BODY = b'{"error":{"code":413,"title":"Request Entity Too Large","message":"The request body is too large."}}'


# What twisted.web calls "Unknown Status", and clients tell their users so.
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus if status not in RESPONSES}


class LimitedRequest(Request):
    """A request whose body cannot grow past its limit, and whose upload is kept once it is known to be allowed."""

    limit = JSON_LIMIT
    received = 0
    # Its body is over the limit: the rest of it is thrown away, and the pipeline answers 413.
    too_large = False
    # What the pipeline answers, whatever else comes: the upload is refused. Its body is thrown away.
    refusal: CloudError | None = None
    # When it was counted in its client's rates, and asked whether its upload may come.
    asked_at: float | None = None
    # Its token was valid then.
    known = False
    hung_up = False
    # None once the request has been answered.
    channel: Any = None
    _uploads: Uploads | None = None
    where: Where
    _flow: Flow | None = None  # of the upload that is being kept
    _asking = False
    _spool: Spool | None = None
    _stalled = False  # what has come of the upload must be written before more is read
    _complete = False
    _taken = False  # there is room for all of the body
    # It is for another page of the application that the cloud is in: all of its body comes, as with twisted.web.
    _foreign = False
    _answering = False

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        super().setResponseCode(code, message or PHRASES.get(code))

    def gotLength(self, length: int | None) -> None:
        site = getattr(self.channel, "site", None)
        if isinstance(site, CloudSite) and site.is_foreign(self.channel._path):
            self._foreign = self._parsePOSTFormSubmission = True
            super().gotLength(length)
            return
        self.content = self.body = cast(IO[bytes], BytesIO())
        if length != 0 and isinstance(site, CloudSite) and site.uploads and not self._takes(length or 0, site):
            self._ask(site, length or 0)
        self._judge(length or 0)

    def handleContentChunk(self, data: bytes) -> None:
        self.received += len(data)
        if self._foreign:
            super().handleContentChunk(data)
            return
        if self.refusal is not None:
            if self.received > PATIENCE:
                self._answer_early()
            return
        self._judge(self.received)
        if self.too_large:
            return
        if self._spool is not None:
            self._keep(data, self._spool)
        elif self._taken or self._holds(len(data)):
            self.body.write(data)
        else:
            self._refuse_with(Unavailable(BUSY, headers=LATER))

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self._complete = True
        if self._uploads is not None:
            self._read_at_once(FileDescriptor.bufferSize)
        if self._spool is None:
            super().requestReceived(command, path, version)
        else:
            self._spool.end().addCallback(self._written, command, path, version)

    def _written(self, _: None, command: bytes, path: bytes, version: bytes) -> None:
        """The upload is in its file, or refused."""
        if self.channel is None:
            return  # the client is gone
        if self._spool is not None:
            self.content, self._spool = self._spool.file, None
        super().requestReceived(command, path, version)

    def process(self) -> None:
        if not self.hung_up:
            super().process()

    # -- limits

    def _judge(self, size: int) -> None:
        if size > self.limit:
            self.too_large = True
        if size > self.limit + PATIENCE and not self.hung_up:
            self._hang_up()

    def _holds(self, size: int) -> bool:
        channel = self.channel
        return not isinstance(channel, Channel) or channel.hold(size)

    def _takes(self, size: int, site: CloudSite) -> bool:
        """Whether a body of this size (0: unknown) may come without asking, as it does in most requests."""
        small = 0 < size <= min(SMALL, *(each.limit for each in site.uploads.values()))
        self._taken = small and not self.requestHeaders.hasHeader(b"expect") and self._holds(size)
        return self._taken

    def _hang_up(self) -> None:
        """Answer and hang up: the rest of the body is not worth reading."""
        self.hung_up = True
        # Else `100 Continue` would follow the answer.
        self.requestHeaders.removeHeader(b"expect")
        self.channel.write(TOO_LARGE % (len(TOO_LARGE_BODY), TOO_LARGE_BODY))
        self.channel.loseConnection()

    def _refuse_with(self, error: CloudError) -> None:
        """Have this error answered, and keep nothing of the body any longer."""
        self.refusal = error
        cast(IO[bytes], self.content).close()
        self.content = self.body = cast(IO[bytes], BytesIO())
        self._spool = None
        if self._uploads is not None:
            self._end(None, self._uploads)

    def _answer_early(self) -> None:
        """Answer now: the rest of the body is not worth reading. Not from within the code that delivers its parts."""
        if not self._answering:
            self._answering = True
            self.channel.callLater(0, self._answer)

    def _answer(self) -> None:
        if not self._complete and self.channel is not None:
            self.channel.persistent = False
            self.responseHeaders.setRawHeaders(b"connection", [b"close"])
            self.channel.allContentReceived()

    # -- uploads

    def _ask(self, site: CloudSite, length: int) -> None:
        """Ask the Operation whether this upload may come. Until it answers, nothing more is read from the client."""
        # As they will be when the body is complete.
        self.method, self.uri = self.channel._command, self.channel._path
        self.path = self.uri.partition(b"?")[0]
        asked = site.admit(self)
        if asked is None:
            return
        uploads = self._uploads = site.uploads[self.where.mounted]
        self.limit = uploads.limit
        self._asking = True
        Deferred.fromCoroutine(asked).addCallback(self._begin, uploads, length).addErrback(self._may_not)
        if self._asking:
            self.channel._networkProducer.pauseProducing()

    def _begin(self, admitted: Admitted, uploads: Uploads, length: int) -> None:
        self._go_on()
        if self.channel is None or self._complete:
            return  # the client is gone; or all of it is in memory, and the handler asks by itself
        uploads.check(admitted, length)
        arrived, self.body = self.body, cast(IO[bytes], BytesIO())
        try:
            self.content = self._spool = uploads.spool(admitted, self._has_room, self._unkept)
        except OSError as error:
            raise self._unwritable(error, uploads) from error
        self._flow = uploads.begin(admitted)
        self._read_at_once(UPLOAD_READ)
        self.notifyFinish().addBoth(self._end, uploads)
        self._keep(cast(BytesIO, arrived).getvalue(), self._spool)

    def _may_not(self, why: Failure) -> None:
        self._go_on()
        error = why.value
        if not isinstance(error, CloudError):
            error = refusal(why, "whether an upload may be", "Unexpected API Error.")
        if self.channel is None or self._complete:
            return
        self._refuse_with(error)
        if self.requestHeaders.hasHeader(b"expect"):
            # The client waits for `100 Continue` before it sends the body, and gets the final answer instead.
            self.requestHeaders.removeHeader(b"expect")
            self._answer_early()

    def _read_at_once(self, size: int) -> None:
        if (transport := plain(self)) is not None:
            transport.bufferSize = size

    @property
    def waits(self) -> bool:
        """Whether it is this side, and not the client, that holds up the body."""
        return self._asking or self._stalled

    def _go_on(self) -> None:
        if self.waits:
            self._asking = self._stalled = False
            if self.channel is not None and not self.channel._waitingForTransport:
                self.channel._networkProducer.resumeProducing()

    def _keep(self, data: bytes, spool: Spool) -> None:
        assert self._uploads is not None and self._flow is not None
        try:
            self._uploads.check(self._flow.admitted, len(data))
        except CloudError as error:
            self._refuse_with(error)
            return
        self._uploads.grow(self._flow, len(data))
        spool.add(data)
        if spool.is_full and not self._complete:
            self._stalled = True
            self.channel._networkProducer.pauseProducing()

    def _has_room(self) -> None:
        self._go_on()

    def _unkept(self, why: Failure) -> None:
        """What has come could not be written, or is not what it should be."""
        self._go_on()
        error = why.value
        if isinstance(error, OSError) and self._uploads is not None:
            error = self._unwritable(error, self._uploads)
        if not isinstance(error, CloudError):
            log.failure("an upload", why)
            error = CloudError("Unexpected API Error.")
        if self.channel is not None:
            self._refuse_with(error)

    @staticmethod
    def _unwritable(error: OSError, uploads: Uploads) -> CloudError:
        log.error("an upload cannot be kept in {where}: {error}", where=str(uploads.directory), error=str(error))
        return uploads.unwritable(error)

    def _end(self, _result: object, uploads: Uploads) -> None:
        if self._flow is not None:
            uploads.end(self._flow)
            self._flow = None


# What serves the APIs of a cloud.
CLOUDS = (Tree, ApiResource)


class CloudSite(Site):
    """A Site for a cloud's resource tree, or for one of an application that has the cloud's in it (`putChild`).

    The pipeline writes the access log, with request ids. `uploads`: of those APIs that take some, by the first segment
    of their paths.
    """

    protocol: Any = Channel  # plain HTTP/1.1: nothing is negotiated

    def __init__(
        self,
        resource: Resource,
        clock: IReactorTime,
        uploads: Mapping[str, Uploads] | None,
        idle: float = 65.0,
        connections: Connections | None = None,
    ) -> None:
        super().__init__(
            resource,
            requestFactory=LimitedRequest,
            reactor=clock,
            timeout=idle,
            # No API takes a form: the pipeline refuses one, and no content type is parsed for it.
            parsePOSTFormSubmission=False,
        )
        self.uploads = uploads or {}
        self.connections = connections or Connections(clock, AdmissionOptions())
        self.displayTracebacks = False
        # Only an application's tree has pages of others.
        self._shared = bool(self.uploads) and not isinstance(resource, CLOUDS)

    def admit(self, request: Any) -> Coroutine[Any, Any, Admitted] | None:
        """As `Tree.admit`."""
        found, above, below = self._way(request.path)
        return found.admit(request, above, below) if isinstance(found, Tree) else None

    def is_foreign(self, uri: bytes) -> bool:
        """Whether no cloud is known to answer there."""
        return self._shared and self._way(uri.partition(b"?")[0])[0] is None

    def _way(self, path: bytes) -> tuple[Any, list[bytes], list[bytes]]:
        """The cloud's resource that a path leads to, and what of the path is above it and below.

        None, if none does that was put where it is: what an application makes for each request is not asked for twice.
        """
        resource: Any = self.resource
        above, below = [], [unquote_to_bytes(each) for each in path[1:].split(b"/")]
        while resource is not None and not isinstance(resource, CLOUDS):
            above.append(below.pop(0) if below else b"")
            resource = getattr(resource, "children", {}).get(above[-1]) if not resource.isLeaf else None
        return resource, above, below

    def buildProtocol(self, addr: Any) -> Any:
        """None, which closes the connection, if there are too many already."""
        if not self.connections.admits(self.connections.client_of(addr)):
            return None
        channel: Any = super().buildProtocol(addr)
        channel.connections = self.connections
        return channel

    def log(self, request: Any) -> None:
        """Nothing: see `Pipeline`."""
