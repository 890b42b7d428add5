"""The stores of a cloud: where the data of images is kept, once or several times.

A store is a directory; the default one may be elsewhere, with copies of what is read in its directory: see `kept`. The
store WEB has data from addresses: a client says where an image's data is (`POST …/locations`), and it is fetched once,
checked and stored, because guests boot from it and nobody promises that it stays the same at its address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from attrs import frozen

from cloudctl.drivers.interfaces import IObjectData
from cloudctl.errors import ConfigError, Invalid
from cloudctl.image.kept import KeptStore
from cloudctl.image.options import ImageOptions, StoreOptions
from cloudctl.image.store import DEFAULT, HTTP, WEB, ImageStore

# In the data directory.
IMAGES, ADDRESSES = "images", "images-of-addresses"


@frozen
class Stores:
    """`default` is where uploads arrive, and stay unless another store is named; staged data waits there. `cache` is
    not a store, but downloads are read from its copies. None: there is no cache.
    """

    default: ImageStore
    others: tuple[ImageStore, ...] = ()
    cache: ImageStore | None = None

    def __iter__(self) -> Iterator[ImageStore]:
        """The heaviest first; of equals, as they were configured."""
        return iter(sorted((self.default, *self.others), key=lambda store: -store.weight))

    def __getitem__(self, store_id: str) -> ImageStore:
        """Raises Invalid."""
        for store in (self.default, *self.others):
            if store.id == store_id:
                return store
        raise Invalid(f"There is no store {store_id[:64]!r}.")

    @property
    def writable(self) -> list[str]:
        """Ids of the stores that data may go to, in their order."""
        return [store.id for store in self if store.is_writable]

    def to_write(self, store_id: str) -> ImageStore:
        """Raises Invalid."""
        store = self[store_id]
        if not store.is_writable:
            raise Invalid(f"The store {store_id} is read-only.")
        return store

    def ordered(self, ids: Collection[str]) -> list[str]:
        """These ids in the order in which images name their stores; one that is not configured any more comes last."""
        known = [store.id for store in self]
        return sorted(ids, key=lambda store_id: (known.index(store_id) if store_id in known else len(known), store_id))

    def path(self, image_id: str) -> Path:
        """Where the data of the image is; where it would be by default if it is nowhere yet."""
        there = (path for store in self if (path := store.path(image_id)).exists())
        return next(there, self.default.path(image_id))

    def fetch(self, image_id: str) -> Path:
        """As `path`, of an active image: the file exists if any store has the data."""
        path = self.path(image_id)
        return path if path.exists() and path.parent != self.default.directory else self.default.fetch(image_id)

    def open_near(self, image_id: str) -> IO[bytes]:
        """The data of the image, from its copy in the cache if there is one. Raises OSError."""
        if self.cache is not None:
            try:
                return self.cache.path(image_id).open("rb")
            except FileNotFoundError:
                pass  # most images have none
        return self.path(image_id).open("rb")

    def forget_near(self, image_id: str) -> None:
        """Remove the copy in the cache."""
        if self.cache is not None:
            self.cache.remove_all(image_id)

    def _all(self) -> tuple[ImageStore, ...]:
        return (*self, *([self.cache] if self.cache else []))

    def prepare(self) -> None:
        """Make their directories. Call it once, before the listener starts."""
        for store in self._all():
            store.prepare()

    def remove_all(self, image_id: str) -> None:
        """Remove whatever there is of this image, anywhere."""
        for store in self._all():
            store.remove_all(image_id)

    def remove_from(self, ids: Iterable[str], image_id: str) -> None:
        """Remove the data of this image from some stores; one that is not configured any more has nothing here."""
        for store in self:
            if store.id in ids:
                store.drop(image_id)


def configured(options: ImageOptions, data_dir: Path, contents: Callable[[str], IObjectData] | None = None) -> Stores:
    """The store "default" is in `images`, unless the options name another place. `contents`: of a driver.

    Raises ConfigError.
    """
    made: dict[str, ImageStore] = {}
    for name, each in options.stores.items():
        shown = name, each.description, each.weight
        if each.driver and contents is not None:
            made[name] = KeptStore(data_dir / IMAGES, *shown, contents=contents(each.driver))
        else:
            made[name] = ImageStore(data_dir / each.directory, *shown)
    default = made.pop(DEFAULT, ImageStore(data_dir / IMAGES))
    if options.web_store:
        made[WEB] = ImageStore(data_dir / ADDRESSES, WEB, "What is at an address.", kind=HTTP)
    cache = ImageStore(data_dir / options.cache_directory, "cache") if options.cache_size else None
    places = {f"image.stores.{store.id}": store.directory for store in (default, *made.values())}
    _demand_apart({**places, **({"image.cache_directory": cache.directory} if cache else {})})
    return Stores(default, tuple(made.values()), cache)


def _demand_apart(places: Mapping[str, Path]) -> None:
    """Each store removes what is not its own. Raises ConfigError for two that are one directory."""
    taken: dict[Path, str] = {}
    problems = []
    for option, directory in places.items():
        other = taken.setdefault(directory.resolve(), option)
        if other != option:
            problems.append(f"{option}: {directory} is the directory of {other}")
    if problems:
        raise ConfigError(problems)


def in_the_data_directory(options: ImageOptions) -> list[str]:
    """The options by which images are in the data directory, which all processes must share."""
    places = {DEFAULT: StoreOptions(IMAGES), **options.stores}
    named = [f"image.stores.{name}" for name, each in places.items() if not each.driver and each.directory[:1] != "/"]
    return [*named, *(["image.web_store"] if options.web_store else [])]
