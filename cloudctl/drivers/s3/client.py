"""Requests to one bucket of a store that speaks S3: signed, with a timeout between bytes, and retried.

It blocks: http.client, in threads, as drivers of this kind are called. Every request that is made here may be repeated
whatever became of it. Connections are kept for the next request.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BytesIO
from typing import IO, TypeVar
from urllib.parse import urlsplit

from attrs import define, field, frozen

from cloudctl import signature_v4
from cloudctl.drivers.errors import DriverError, NoCapacity, Unreachable

T = TypeVar("T")

NOTHING = hashlib.sha256().hexdigest()
MOST = 2**22  # bytes of a document
BLOCK = 2**18  # bytes that are sent at once
# The store is there but cannot serve the request now.
LATER = (429, 500, 502, 503, 504)
FULL = ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage")
PAUSE = 0.3  # seconds before the second try, doubled before each further one


@frozen
class Account:
    """`clock`: seconds since the epoch."""

    access: str
    secret: str = field(repr=False)
    region: str
    clock: Callable[[], float]

    def signed(self, method: str, path: str, query: str, headers: Mapping[str, str], payload: str) -> dict[str, str]:
        """The headers, with those that authenticate the request."""
        when = datetime.fromtimestamp(self.clock(), UTC).strftime(signature_v4.COMPACT)
        scope = f"{when[:8]}/{self.region}/s3/aws4_request"
        told = sorted({**headers, "x-amz-date": when, "x-amz-content-sha256": payload}.items())
        text = signature_v4.canonical(method, path.encode(), query.encode(), told, payload)
        signature = signature_v4.signature(self.secret, when, scope, text)
        return {**dict(told), "authorization": signature_v4.authorization(self.access, scope, told, signature)}


class Refused(DriverError):
    """The store's error. `status`: of HTTP; `code`: of S3, empty if there is none."""

    def __init__(self, what: str, status: int, code: str) -> None:
        super().__init__(f"{what}: the store answered {status} {code}".rstrip())
        self.status, self.code = status, code


def gone(refused: Refused) -> bool:
    """Whether what was requested does not exist; the answer to a HEAD has no body with a code."""
    return refused.code in ("NoSuchKey", "NoSuchUpload") or (refused.status == 404 and not refused.code)


@define(eq=False)
class Span:
    """Some bytes of a file, as the body of a request."""

    file: IO[bytes]
    start: int
    size: int
    _at: int = field(default=0, init=False)
    _payload: str = field(default="", init=False)

    @property
    def payload(self) -> str:
        """The hash of the bytes, hex."""
        if not self._payload:
            digest = hashlib.sha256()
            self.rewind()
            while data := self.read(BLOCK):
                digest.update(data)
            self._payload = digest.hexdigest()
        return self._payload

    def rewind(self) -> None:
        self._at = 0
        self.file.seek(self.start)

    def read(self, most: int = -1) -> bytes:
        """The next bytes, for http.client."""
        left = self.size - self._at
        data = self.file.read(left if most < 0 else min(most, left))
        self._at += len(data)
        return data


@define(eq=False)
class Bucket:
    """Threads may share it."""

    endpoint: str
    name: str
    account: Account
    timeout: float
    tries: int
    _idle: deque[HTTPConnection] = field(factory=deque, init=False)

    # -- requests

    def document(
        self, method: str, key: str = "", query: str = "", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The body of a small answer. Raises Refused, NoCapacity, Unreachable."""
        sent = Span(BytesIO(body), 0, len(body)) if body else None
        return self._repeated(lambda: self._finish(self._ask(method, key, query, headers or {}, sent), method, key))

    def has(self, key: str) -> bool:
        """Raises Refused, Unreachable."""
        try:
            self.document("HEAD", key)
        except Refused as refused:
            if gone(refused):
                return False
            raise
        return True

    def put(self, key: str, file: Span, query: str = "", headers: Mapping[str, str] | None = None) -> str:
        """The ETag of what the store has afterwards. Raises Refused, NoCapacity, Unreachable."""

        def put() -> str:
            answer = self._ask("PUT", key, query, headers or {}, file)
            self._finish(answer, "PUT", key)
            return answer.response.headers.get("etag", "")

        return self._repeated(put)

    def get(self, key: str, start: int) -> Answer:
        """The bytes from `start` on; the caller closes the answer. Raises Refused, Unreachable."""
        return self._repeated(lambda: self._get(key, start))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # -- how

    def _repeated(self, request: Callable[[], T]) -> T:
        pause = PAUSE
        for tries in range(1, self.tries + 1):
            try:
                return request()
            except Refused as refused:
                if refused.code in FULL or refused.status == 507:
                    raise NoCapacity(str(refused)) from refused
                if refused.status not in LATER and refused.code != "ConditionalRequestConflict":
                    raise
                why: Exception = refused
            except (OSError, HTTPException) as error:
                why = error
            if tries < self.tries:
                time.sleep(pause)
                pause *= 2
        raise Unreachable(f"{self.endpoint} does not answer: {type(why).__name__}: {why}") from why

    def _get(self, key: str, start: int) -> Answer:
        headers = {"range": f"bytes={start}-"} if start else {}
        answer = self._ask("GET", key, "", headers)
        if answer.response.status not in (200, 206):
            self._finish(answer, "GET", key)
        return answer

    def _finish(self, answer: Answer, method: str, key: str) -> bytes:
        what = f"{method} of {key or self.name}"
        with answer:
            body = answer.response.read(MOST + 1)
            if len(body) > MOST:
                raise Refused(what, answer.response.status, "with too much")
        if answer.response.status // 100 != 2:
            raise Refused(what, answer.response.status, code_of(body))
        return body

    def _ask(self, method: str, key: str, query: str, headers: Mapping[str, str], body: Span | None = None) -> Answer:
        where = urlsplit(self.endpoint)
        path = f"{where.path.rstrip('/')}/{signature_v4.encoded(self.name.encode())}"
        path += f"/{signature_v4.encoded(key.encode(), '/')}" if key else ""
        told = {"host": where.netloc, **headers}
        payload = NOTHING
        if body is not None:
            told["content-length"], payload = str(body.size), body.payload
            body.rewind()
        signed = self.account.signed(method, path, query, told, payload)
        target = f"{path}?{query}" if query else path
        # The store may have closed a kept connection meanwhile: then another one is tried at once.
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # another thread took the last one
            try:
                return self._send(connection, method, target, signed, body)
            except (OSError, HTTPException) as error:
                if isinstance(error, TimeoutError):
                    # It took all the time that a try has: the other kept ones would, too.
                    self.close()
                if body is not None:
                    body.rewind()
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=self.timeout, blocksize=BLOCK)
        return self._send(connection, method, target, signed, body)

    def _send(
        self, connection: HTTPConnection, method: str, target: str, headers: Mapping[str, str], body: Span | None
    ) -> Answer:
        try:
            connection.request(method, target, body, dict(headers))
            return Answer(connection.getresponse(), connection, self._idle)
        except BaseException:
            connection.close()
            raise


@define(eq=False)
class Answer:
    """Its connection is kept if all of it was read, and closed if not."""

    response: HTTPResponse
    _connection: HTTPConnection
    _idle: deque[HTTPConnection]

    def close(self) -> None:
        # A response closes itself at its end; unread bytes would be taken for the next response.
        if self.response.isclosed() and not self.response.will_close:
            self._idle.append(self._connection)
        else:
            self.response.close()
            self._connection.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def code_of(body: bytes) -> str:
    """The code in the body of an error."""
    _, found, rest = body.partition(b"<Code>")
    return rest.partition(b"</Code>")[0].decode("ascii", "replace")[:64] if found else ""
