"""The objects driver `s3`: contents are objects of one bucket, each under its id, in a store that speaks S3.

    PREFIX<id>              of the object store
    PREFIXpart-NAME/<id>    of another part of the cloud

Large ones are uploaded in parts, and are one object to readers.

A reader in this process can read on although the content is removed meanwhile: it is only removed once closed. A reader
in another process of the cloud gets the rest from the store; most stores go on sending.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from threading import Lock
from typing import IO, cast
from urllib.parse import urlsplit

from attrs import define, field, frozen
from zope.interface import implementer

from cloudctl import signature_v4
from cloudctl.drivers.errors import DriverError, UnknownContent, Unreachable, Unusable
from cloudctl.drivers.interfaces import IElsewhere, IFarData, IObjectData
from cloudctl.drivers.objects_interface import ContentState
from cloudctl.drivers.s3 import documents, parts
from cloudctl.drivers.s3.client import Account, Answer, Bucket, Refused, Span, gone
from cloudctl.drivers.specs import DriverResources
from cloudctl.options import parts_of

PAGE = 1000  # contents


@frozen
class Config:
    """`[driver.objects.s3]`"""

    endpoint: str = ""
    bucket: str = ""
    region: str = "us-east-1"
    prefix: str = ""  # of the names in the bucket
    access_key: str = ""
    # A file whose first line is the secret.
    secret_file: str = ""
    # Seconds without a byte after which a connection is given up.
    timeout: float = 60.0
    # Tries of a request that the store does not answer or cannot serve now.
    tries: int = 3
    # Bytes. Larger contents are uploaded in parts of this size, or larger parts if there would be more than 10,000.
    part_size: int = 2**26


def create(config: Config, resources: DriverResources) -> ObjectsByS3:
    if urlsplit(config.endpoint).scheme not in ("http", "https") or not config.bucket:
        raise ValueError("the driver needs an endpoint (http:// or https://) and a bucket")
    parts_of(config.endpoint)
    if config.timeout <= 0 or config.tries < 1:
        raise ValueError("timeout and tries must be greater than 0")
    if not parts.LEAST <= config.part_size <= parts.MOST_OF_ONE:
        raise ValueError(f"part_size must be from {parts.LEAST} to {parts.MOST_OF_ONE}")
    return ObjectsByS3(config, resources)


@implementer(IObjectData, IFarData, IElsewhere)
@define(eq=False)
class ObjectsByS3:
    config: Config
    resources: DriverResources
    prefix: str = field(init=False)
    _made: Bucket | None = field(default=None, init=False)
    _lock: Lock = field(factory=Lock, init=False)
    # By id: how many readers there are, and which contents are removed when there are none.
    _readers: Counter[str] = field(factory=Counter, init=False)
    _removed: set[str] = field(factory=set, init=False)

    elsewhere = True

    @prefix.default
    def _prefix(self) -> str:
        part = self.resources.part
        return f"{self.config.prefix}part-{part}/" if part else self.config.prefix

    async def check(self) -> None:
        try:
            self._bucket.document("HEAD")
            parts.sweep(self._bucket, self.prefix, self.resources.clock.seconds())
        except (Refused, Unreachable) as error:
            raise Unusable(f"the bucket {self.config.bucket} cannot be used: {error}") from None

    async def close(self) -> None:
        if self._made is not None:
            self._made.close()

    @property
    def _bucket(self) -> Bucket:
        """Raises Unusable."""
        if self._made is None:
            config = self.config
            try:
                secret = Path(config.secret_file).read_text().partition("\n")[0].strip()
            except (OSError, UnicodeDecodeError):
                raise Unusable(f"the secret cannot be read in {config.secret_file or 'secret_file'}") from None
            account = Account(config.access_key, secret, config.region, self.resources.clock.seconds)
            self._made = Bucket(config.endpoint, config.bucket, account, config.timeout, config.tries)
        return self._made

    def _key(self, id: str) -> str:
        return f"{self.prefix}{id}"

    # -- contents

    def ensure_kept(self, id: str, path: str) -> None:
        with self._lock:
            self._removed.discard(id)
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > self.config.part_size:
                    parts.keep(self._bucket, self._key(id), file, size, self.config.part_size)
                else:
                    self._keep(id, Span(file, 0, size))
        except OSError as error:
            raise DriverError(f"{path}: {error.strerror}") from error

    def _keep(self, id: str, content: Span) -> None:
        try:
            self._bucket.put(self._key(id), content, headers={"if-none-match": "*"})
        except Refused as refused:
            if refused.status != 412:  # 412: it is there already
                raise

    def open(self, id: str) -> IO[bytes]:
        with self._lock:
            if id in self._removed:
                raise UnknownContent(id)
            self._readers[id] += 1
        try:
            reader = Reader(self, id)
            reader.seek(0)
            reader.begin()
        except BaseException:
            self._read(id)
            raise
        return cast(IO[bytes], io.BufferedReader(reader, 2**18))

    def _answer(self, id: str, start: int) -> Answer:
        try:
            return self._bucket.get(self._key(id), start)
        except Refused as refused:
            if gone(refused):
                raise UnknownContent(id) from None
            raise

    def _read(self, id: str) -> None:
        """A reader is done with it."""
        with self._lock:
            self._readers[id] -= 1
            if self._readers[id]:
                return
            del self._readers[id]
            if id not in self._removed:
                return
            self._removed.discard(id)
        self._remove(id)

    def ensure_absent(self, id: str) -> None:
        with self._lock:
            if self._readers[id]:
                self._removed.add(id)
                return
            del self._readers[id]
        self._remove(id)

    def _remove(self, id: str) -> None:
        try:
            self._bucket.document("DELETE", self._key(id))
        except Refused as refused:
            if refused.code != "NoSuchKey":
                raise

    def inventory(self, after: str) -> tuple[ContentState, ...]:
        while True:
            asked = {
                "list-type": "2",
                "max-keys": str(PAGE),
                "prefix": self.prefix,
                "delimiter": "/",  # nothing of another part
                "start-after": f"{self.prefix}{after}",
            }
            page = documents.read(self._bucket.document("GET", "", signature_v4.query(asked)))
            listed = [
                ContentState(documents.text(each, "Key")[len(self.prefix) :], documents.moment(each, "LastModified"))
                for each in page.iterfind("Contents")
            ]
            with self._lock:
                found = tuple(each for each in listed if each.id not in self._removed)
            if found or not listed:
                return found
            after = listed[-1].id


class Reader(io.RawIOBase):
    """Reading forwards uses one answer of the store; after a seek another one is requested."""

    def __init__(self, driver: ObjectsByS3, id: str) -> None:
        self._driver, self._id = driver, id
        self._at = 0
        self._answer: Answer | None = None

    def begin(self) -> None:
        """Raises UnknownContent, Unreachable."""
        self._answer = self._driver._answer(self._id, self._at)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + (self._at if whence == os.SEEK_CUR else 0)
        if whence == os.SEEK_END or at < 0:
            raise OSError("from the start, or from here")
        if at != self._at:
            self._drop()
            self._at = at
        return at

    def readinto(self, room: bytearray) -> int:  # type: ignore[override]  # any buffer; BufferedReader gives this
        """Raises OSError."""
        try:
            if self._answer is None:
                self.begin()
            assert self._answer is not None
            count = self._answer.response.readinto(room)
        except Refused as refused:
            if refused.status == 416:  # past its end
                return 0
            raise OSError(f"the content {self._id} cannot be read on: {refused}") from refused
        except (HTTPException, DriverError) as error:
            raise OSError(f"the content {self._id} cannot be read on: {error}") from error
        if not count and self._answer.response.length:
            raise OSError(f"the content {self._id} ends early")
        self._at += count
        return count

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._drop()
            self._driver._read(self._id)
