"""Where a fake driver keeps its objects: a dict, or a directory with one small JSON file each.

A file is written beside its place and renamed, so that a process killed at any moment leaves the old object or the
new one. There is no fsync: this survives `kill -9`, not a power cut. Nothing is cached, so a second process on the
same directory sees what the first has done.
"""

from __future__ import annotations

import os
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import orjson
from attrs import define, field, frozen
from cattrs import Converter

from cloudctl.drivers.errors import DriverError, NoCapacity, Unfit, Unreachable, Unusable
from cloudctl.drivers.specs import DriverResources, ImageSource

T = TypeVar("T")

HEAD = 4096  # bytes of a disk's content that a fake keeps

converter = Converter()


class Store(Protocol[T]):
    """Objects of one type by id."""

    def get(self, id: str) -> T | None: ...

    def put(self, id: str, value: T) -> None: ...

    def delete(self, id: str) -> None: ...

    def values(self) -> list[T]:
        """All objects, sorted by id."""
        ...


def _others(memory: Memory[Any], _attribute: Any, objects: dict[str, T]) -> dict[str, T]:
    memory._sorted = memory._values = None
    return objects


@define(eq=False)
class Memory(Generic[T]):
    objects: dict[str, T] = field(factory=dict, on_setattr=_others)
    _sorted: list[str] | None = None  # their ids
    _values: list[T] | None = None  # a list is never changed once it was returned

    def get(self, id: str) -> T | None:
        return self.objects.get(id)

    def put(self, id: str, value: T) -> None:
        if id not in self.objects:
            self._sorted = None
        self.objects[id] = value
        self._values = None

    def delete(self, id: str) -> None:
        if self.objects.pop(id, None) is not None:
            self._sorted = self._values = None

    def values(self) -> list[T]:
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        if self._values is None:
            self._values = [self.objects[id] for id in self._sorted]
        return self._values


@frozen
class Directory(Generic[T]):
    cls: type[T]
    path: Path

    def get(self, id: str) -> T | None:
        return self._read(self._file(id))

    def put(self, id: str, value: T) -> None:
        write(self._file(id), orjson.dumps(converter.unstructure(value)))

    def delete(self, id: str) -> None:
        self._file(id).unlink(missing_ok=True)

    def values(self) -> list[T]:
        if not self.path.is_dir():
            return []
        files = {file.name.removesuffix(".json"): file for file in self.path.iterdir() if file.suffix == ".json"}
        found = (self._read(files[name]) for name in sorted(files))
        return [value for value in found if value is not None]

    def _file(self, id: str) -> Path:
        return self.path / f"{quote(id, safe='')}.json"

    def _read(self, file: Path) -> T | None:
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return converter.structure(orjson.loads(data), self.cls)
        except Exception as error:  # whatever is wrong with the file, its name is what the operator needs
            raise DriverError(f"{file} is damaged: {error}") from error


def write(file: Path, data: bytes) -> None:
    """The file holds `data`, or what it held before if this process is killed. Raises NoCapacity, Unreachable."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        kind = NoCapacity if error.errno in (ENOSPC, EDQUOT) else Unreachable
        raise kind(f"cannot write {file}: {error.strerror}") from error


def directory(durable: bool, resources: DriverResources, wished: str = "") -> Path | None:
    """Where a fake driver keeps its stores; None: in memory, as in a cloud that has no state directory."""
    if not durable:
        return None
    return Path(wished) if wished else resources.state_dir


def open_store(cls: type[T], root: Path | None, name: str) -> Store[T]:
    return Memory() if root is None else Directory(cls, root / name)


def check_writable(root: Path | None) -> None:
    """Raises Unusable if a directory is configured and cannot be written."""
    if root is None:
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"cannot keep its state in {root}: {error}") from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise Unusable(f"cannot keep its state in {root}: it is not writable")


def head(image: ImageSource | None) -> str:
    """The start of an image's bytes, one character per byte. Raises Unfit if its file cannot be read."""
    if image is None or image.path is None:
        return ""
    try:
        with open(image.path, "rb") as file:
            return file.read(HEAD).decode("latin-1")
    except OSError as error:
        raise Unfit(f"image {image.id} cannot be read: {error.strerror}") from error


def spill(content: str, path: str) -> None:
    """Write such content to a file, whole or not at all."""
    write(Path(path), content.encode("latin-1"))
