"""Drivers that read and write files of images on this machine, while the store is elsewhere: see `kept`."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred

from cloudctl.drivers.boundary import call, through
from cloudctl.drivers.errors import NoCapacity, Unreachable
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.specs import ImageSource
from cloudctl.image.data import ImageData
from cloudctl.image.kept import KeptStore


@frozen
class Near:
    """`near(driver)`: what a call reads is fetched before it, and what it writes is stored after it.

    Files of images are recognized by their directory, whichever argument names them: a source is read, a plain path is
    written. A file that is not stored anywhere is not here either, and the driver says so if it needs it.
    """

    data: ImageData
    store: KeptStore
    locks: Locks = field(factory=Locks)

    def __call__(self, driver: Any) -> Any:
        return through(self._wrapped, driver)

    def _wrapped(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Deferred[Any]]:
        def called(*args: Any, **kwargs: Any) -> Deferred[Any]:
            given = [*args, *kwargs.values()]
            read = sorted({id for each in given for id in self._read(each)})
            written = {each: id for each in given if isinstance(each, str) for id in self._ids(each)}
            if not read and not written:
                return call(method, *args, **kwargs)
            return Deferred.fromCoroutine(self._around(method, args, kwargs, read, written))

        return called

    async def _around(
        self, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any, read: list[str], written: dict[str, str]
    ) -> Any:
        for id in read:
            # An image that many servers are made from is fetched once.
            async with self.locks.hold(id):
                await self._kept(self.store.fetch, id)
        # Not under the name of a copy, which would be taken for the stored content.
        instead = {path: self.store.staged(id) for path, id in written.items()}
        changed = [str(instead.get(each, each)) if isinstance(each, str) else each for each in args]
        named = {name: str(instead.get(each, each)) if isinstance(each, str) else each for name, each in kwargs.items()}
        found = await call(method, *changed, **named)
        for path, id in written.items():
            await self._kept(self.store.receive, instead[path], id)
            await self._kept(self.store.remove, instead[path])
        return found

    async def _kept(self, fn: Callable[..., Any], *args: Any) -> None:
        try:
            await self.data.run(fn, *args)
        except OSError as error:
            kind = NoCapacity if error.errno == errno.ENOSPC else Unreachable
            raise kind(f"the image store: {error.strerror}") from error

    def _read(self, given: Any) -> Iterator[str]:
        source = given if isinstance(given, ImageSource) else getattr(given, "image", None)
        if isinstance(source, ImageSource):
            for path in (source.path, source.kernel_path, source.ramdisk_path):
                yield from self._ids(path or "")

    def _ids(self, path: str) -> Iterator[str]:
        file = Path(path)
        # An id has no suffix; a file that has one is nowhere, and says that an image is gone.
        if file.parent == self.store.directory and not file.suffix:
            yield file.name
