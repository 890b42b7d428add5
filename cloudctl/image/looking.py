"""The first look at data that is at an address: it is fetched, measured, stored. Drivers and requests see that copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.drivers.boundary import call, through
from cloudctl.drivers.errors import Unfit, Unreachable
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.specs import ImageSource
from cloudctl.errors import CloudError
from cloudctl.image import images as domain
from cloudctl.image import located
from cloudctl.image.data import HASH, ImageData
from cloudctl.image.store import WEB, held
from cloudctl.image.tables import Image
from cloudctl.image.web import Fetch
from cloudctl.rest.outgoing import FetchError, Unreached


@frozen
class Looking:
    """`look(image_id)`: fetch the data of the image if it is at an address; nothing happens for all other images."""

    db: Database
    data: ImageData
    fetch: Fetch
    locks: Locks = field(factory=Locks)

    async def look(self, image_id: str) -> None:
        """Raises FetchError (Unreached: it may work later), OSError, UnsupportedMediaType, Invalid, NotFound; and
        OverQuota, because the data is counted only now.
        """
        async with self.locks.hold(image_id):
            image = await self.db.read(_located, image_id)
            if image is not None and not await self.data.run(self.data.stores[WEB].has, image_id):
                await self._keep(image)

    async def _keep(self, image: Image) -> None:
        store = self.data.stores[WEB]
        incoming = store.incoming(new_id())
        try:
            await self.data.run(incoming.touch)
            with held(incoming):
                await self._fetch(image, incoming)
                formats = domain.formats(image)
                found = await self.data.measure(incoming, *formats, image.os_hash_algo or HASH)
                # The record comes first: another process that looks at the same time can then store nothing else.
                await self.db.run(located.looked_at, image.id, found, utc(self.db.clock.seconds()))
                await self.data.run(store.receive, incoming, image.id)
        finally:
            await self.data.run(store.remove, incoming)
        if not await self.db.read(domain.exists, image.id):
            await self.data.run(store.drop, image.id)
            raise domain.not_found(image.id)

    async def _fetch(self, image: Image, path: Path) -> None:
        """From the first address that works. Raises the FetchError of the last one."""
        *others, last = [each["url"] for each in image.locations]
        for url in others:
            try:
                return await self.fetch(url, path)
            except FetchError:
                continue
        return await self.fetch(last, path)

    # -- drivers

    def before(self, driver: Any) -> Any:
        """A driver that finds the data of images at the paths in its arguments."""
        return through(self._wrapped, driver)

    def _wrapped(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Deferred[Any]]:
        def called(*args: Any, **kwargs: Any) -> Deferred[Any]:
            if not any(_sources(each) for each in (*args, *kwargs.values())):
                return call(method, *args, **kwargs)
            return Deferred.fromCoroutine(self._around(method, args, kwargs))

        return called

    async def _around(self, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        found = [await self._here(each) for each in args]
        named = {name: await self._here(each) for name, each in kwargs.items()}
        return await call(method, *found, **named)

    async def _here(self, given: Any) -> Any:
        if isinstance(given, ImageSource):
            changed: dict[str, Any] = {
                name: str(await self._path(Path(path)))
                for name in ("path", "kernel_path", "ramdisk_path")
                if (path := getattr(given, name))
            }
            return evolve(given, **changed)
        return evolve(given, image=await self._here(given.image)) if _sources(given) else given

    async def _path(self, path: Path) -> Path:
        """Where the data that belongs at this path is. Raises Unreachable, Unfit."""
        stores = self.data.stores
        if path.parent != stores.default.directory or await self.data.run(path.exists):
            return path
        try:
            await self.look(path.name)
        except (Unreached, OSError) as error:
            raise Unreachable(f"the data of image {path.name}: {error}") from error
        except CloudError as error:
            raise Unfit(f"the data of image {path.name}: {error}") from error
        return await self.data.run(stores.path, path.name)


def _sources(given: Any) -> bool:
    return isinstance(given, ImageSource) or isinstance(getattr(given, "image", None), ImageSource)


def _located(conn: Connection, image_id: str) -> Image | None:
    image = domain.find(conn, image_id)
    return image if image is not None and image.locations else None
