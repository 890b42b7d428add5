"""The work on images' data: storing, hashing and inspecting files, in its own threads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from cloudctl.db.threads import Threads
from cloudctl.errors import UnsupportedMediaType
from cloudctl.image import inspection
from cloudctl.image.store import CHUNK, ImageStore
from cloudctl.image.stores import Stores

P = ParamSpec("P")
T = TypeVar("T")

HASH = "sha512"


@frozen
class Hash:
    """The hash of some data, by the named algorithm; the value is hexadecimal."""

    algorithm: str
    value: str


@frozen
class Measured:
    """What is known of an image's data once it has been read. Sizes in bytes."""

    size: int
    virtual_size: int
    checksum: str  # MD5, hex
    os_hash_value: str  # hex
    os_hash_algo: str = HASH


# Of an image that consists of properties only.
EMPTY = Measured(0, 0, hashlib.md5(usedforsecurity=False).hexdigest(), hashlib.new(HASH).hexdigest())


@frozen
class ImageData:
    """The stores and the threads in which their files are read and written."""

    stores: Stores
    threads: Threads
    reactor: IReactorFromThreads
    require_format_match: bool = True

    @property
    def store(self) -> ImageStore:
        """Where data arrives."""
        return self.stores.default

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn` in a thread."""
        pool = cast(ThreadPool, self.threads)
        run: Any = copy_context().run
        return deferToThreadPool(self.reactor, pool, run, fn, *args, **kwargs)

    def measure(self, path: Path, disk_format: str, container_format: str, algorithm: str = HASH) -> Deferred[Measured]:
        """Hash the file and check that its format is the image's. Fails with UnsupportedMediaType."""
        return self.run(measure, path, disk_format, container_format, self.require_format_match, algorithm)

    def changed(self, fn: Callable[Concatenate[ImageStore, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(store, …)`, for example `ImageStore.settle`, in a thread."""
        return self.run(fn, self.store, *args, **kwargs)

    def forget(self, image_id: str) -> Deferred[None]:
        """Remove whatever there is of this image."""
        return self.run(self.stores.remove_all, image_id)


def measure(
    path: Path, disk_format: str, container_format: str, require_match: bool = True, algorithm: str = HASH
) -> Measured:
    """Read the whole file once. Raises UnsupportedMediaType if the data is not what the image says, or unsafe.

    For start-up and for files that a driver wrote; requests use `ImageData.measure`.
    """
    md5, chosen = hashlib.md5(usedforsecurity=False), hashlib.new(algorithm)
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            md5.update(chunk)
            chosen.update(chunk)
        found = inspected(file, size, disk_format, container_format, require_match)
    return Measured(size, found.virtual_size, md5.hexdigest(), chosen.hexdigest(), algorithm)


def inspected(
    file: IO[bytes], size: int, disk_format: str, container_format: str, require_match: bool
) -> inspection.Inspected:
    found = inspection.inspect(file, size)
    why = inspection.refusal(disk_format, container_format, found)
    if why and (require_match or found.unsafe):
        raise UnsupportedMediaType(why)
    return found
