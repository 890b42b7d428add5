"""What is stored of volumes and snapshots, and where.

    DIRECTORY/volumes/<id>/disk.qcow2    the content, with its snapshots inside
                           volume.json   its record
              snapshots/<id>.json        the record of a snapshot
              unmanaged/<name>.qcow2     volumes that are not the cloud's and can be adopted
              new/<name>/                volumes that are being made; nobody looks there

A volume is made in `new/` and renamed as a whole, so that it has its content and its record from the start. A record is
written beside its place, synced and renamed. Of the processes that share a directory, one at a time changes a volume. A
file of `unmanaged` becomes a volume, and a volume such a file, by getting a second name before the first one goes:
nothing is copied.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

import orjson
from attrs import frozen
from cattrs import Converter
from cattrs.errors import BaseValidationError
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cloudctl.drivers.errors import DriverError, NoCapacity, Unreachable, Unusable
from cloudctl.drivers.specs import SnapshotState, VolumeState

T = TypeVar("T")

DISK = "disk.qcow2"
RECORD = "volume.json"
GIB = 1 << 30
MOST_OF_NAME = 240  # bytes, so that there is room for suffixes

_converter = Converter()
_log = Logger()


@frozen
class Volume:
    """The requested state. The file may lag behind: `moments` and `undo` note what is begun before it is done."""

    id: str
    size_gib: int
    hosts: tuple[str, ...] = ()  # that may use it, sorted
    moments: tuple[str, ...] = ()  # names of snapshots inside the file that may be left over
    place: int | None = None  # where it was last served; None: by the daemon of all volumes without a place
    undo: str | None = None  # the snapshot inside with the right content: what came after it is half done

    @property
    def state(self) -> VolumeState:
        return VolumeState(self.id, self.size_gib, self.hosts)


@frozen
class Snapshot:
    id: str
    volume_id: str
    size_gib: int
    inside: str | None = None  # its name inside the file, if that is not derived from its id

    @property
    def moment(self) -> str:
        return self.inside or written(self.id)

    @property
    def state(self) -> SnapshotState:
        return SnapshotState(self.id, self.volume_id, self.size_gib)


def written(id: str) -> str:
    """An id as a file name, and as the name of a snapshot inside a file."""
    return quote(id, safe="").replace(".", "%2E")


@frozen
class Records:
    """All volumes and snapshots below a directory."""

    root: Path  # absolute
    reactor: Any
    dry_run: bool = False

    # -- paths

    def directory(self, id: str) -> Path:
        return self.root / "volumes" / written(id)

    def disk(self, id: str) -> Path:
        return self.directory(id) / DISK

    # -- reading

    def volume(self, id: str) -> Volume | None:
        return _read(self.directory(id) / RECORD, Volume)

    def volumes(self) -> list[Volume]:
        """All, sorted by id. Raises DriverError for a damaged record."""
        found = (_read(file, Volume) for file in (self.root / "volumes").glob(f"*/{RECORD}"))
        return sorted((each for each in found if each is not None), key=lambda each: each.id)

    def each(self) -> Iterator[tuple[str, Volume | None]]:
        """The id of each volume and its record: None for a damaged one, from which other volumes must not suffer."""
        for file, volume in _readable((self.root / "volumes").glob(f"*/{RECORD}"), Volume):
            yield unquote(file.parent.name), volume

    def readable(self) -> list[Volume]:
        """All but damaged ones, sorted by id."""
        return sorted((volume for _, volume in self.each() if volume is not None), key=lambda each: each.id)

    def snapshot(self, id: str) -> Snapshot | None:
        return _read(self._snapshot_file(id), Snapshot)

    def snapshots(self) -> list[Snapshot]:
        """All, sorted by id. Raises DriverError for a damaged record."""
        found = (_read(file, Snapshot) for file in (self.root / "snapshots").glob("*.json"))
        return sorted((each for each in found if each is not None), key=lambda each: each.id)

    def readable_snapshots(self) -> list[Snapshot]:
        """All but damaged ones, sorted by id."""
        found = (each for _, each in _readable((self.root / "snapshots").glob("*.json"), Snapshot))
        return sorted((each for each in found if each is not None), key=lambda each: each.id)

    def moments(self, volume_id: str) -> frozenset[str]:
        """The names of the volume's snapshots inside its file; also those of damaged records, which may be its own."""
        found = _readable((self.root / "snapshots").glob("*.json"), Snapshot)
        return frozenset(
            file.stem if each is None else each.moment
            for file, each in found
            if each is None or each.volume_id == volume_id
        )

    def unmanaged(self) -> list[Path]:
        """Files that are not volumes of the cloud, sorted by name."""
        return sorted(each for each in (self.root / "unmanaged").glob("*.qcow2") if each.is_file())

    def unmanaged_file(self, name: str) -> Path | None:
        """Where such a file is, or would be; None if it cannot have this name."""
        is_name = name and "/" not in name and "\0" not in name and not name.startswith(".")
        return self.root / "unmanaged" / f"{name}.qcow2" if is_name and len(name.encode()) <= MOST_OF_NAME else None

    def room(self) -> tuple[float, float]:
        """The GiB of the file system, and how many are free."""
        # A dry run does not create the directory.
        found = os.statvfs(next(each for each in (self.root, *self.root.parents) if each.exists()))
        return found.f_blocks * found.f_frsize / GIB, found.f_bavail * found.f_frsize / GIB

    # -- changing

    def open(self) -> None:
        """Create the directories, drop what an earlier process left half made. Blocks. Raises Unusable."""
        if self.dry_run:
            return
        try:
            for name in ("volumes", "snapshots", "unmanaged", "new"):
                (self.root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in (self.root / "new").iterdir():
                # A program of the earlier process may still be writing it; then the next start drops it.
                drop_left(left)
        except OSError as error:
            raise Unusable(f"cannot keep volumes in {self.root}: {error}") from error
        if not os.access(self.root / "volumes", os.W_OK | os.X_OK):
            raise Unusable(f"cannot keep volumes in {self.root}: it is not writable")

    @contextmanager
    def new(self) -> Iterator[Path]:
        """An empty directory for a volume, removed at the end unless it was published."""
        place = self.root / "new" / uuid4().hex
        with nullcontext() if self.dry_run else held(place):
            yield place

    async def publish(self, place: Path, volume: Volume) -> None:
        """From now on `place` is the volume. Raises NoCapacity, Unreachable, as all that follow."""
        await self._change(f"publish volume {volume.id}", _publish, place, self.directory(volume.id), _written(volume))

    async def adopt(self, place: Path, file: Path, volume: Volume) -> None:
        """From now on the unmanaged file is the volume."""
        what = f"adopt {file} as volume {volume.id}"
        await self._change(what, _adopt, place, file, self.directory(volume.id), _written(volume))

    async def unlink(self, file: Path) -> None:
        await self._change(f"remove the name {file}", _unlink, file)

    async def release(self, id: str, file: Path) -> None:
        """From now on the volume is that unmanaged file."""
        doomed = self.root / "new" / uuid4().hex
        await self._change(f"release volume {id} as {file}", _release, self.disk(id), file)
        await self._change(f"forget volume {id}", _remove, self.directory(id), doomed)

    async def put(self, volume: Volume) -> None:
        """Raises NoCapacity."""
        await self._change(f"record {volume}", _write, self.directory(volume.id) / RECORD, _written(volume))

    async def put_snapshot(self, snapshot: Snapshot) -> None:
        """Raises NoCapacity."""
        await self._change(f"record {snapshot}", _write, self._snapshot_file(snapshot.id), _written(snapshot))

    async def drop_snapshot(self, id: str) -> None:
        await self._change(f"forget snapshot {id}", _unlink, self._snapshot_file(id))

    async def drop(self, id: str) -> None:
        """The volume and its content are gone: first its id, then its data on the disk."""
        doomed = self.root / "new" / uuid4().hex
        await self._change(f"remove volume {id}", _remove, self.directory(id), doomed)

    async def cut(self, file: Path, size_bytes: int) -> None:
        await self._change(f"cut {file}", os.truncate, file, size_bytes)

    async def deliver(self, beside: Path, target: Path, size_bytes: int | None) -> None:
        """The file `beside`, cut to `size_bytes`, is synced and has the name `target`. Raises NoCapacity."""
        await self._change(f"deliver {target}", put_in_place, beside, target, size_bytes)

    def _snapshot_file(self, id: str) -> Path:
        return self.root / "snapshots" / f"{written(id)}.json"

    async def _change(self, what: str, function: Callable[..., None], *args: Any) -> None:
        """In a thread, since fsync(2) may take long."""
        if self.dry_run:
            _log.info("would {what}", what=what)
            return
        with room_for(what):
            await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """A full file system is NoCapacity, and one with other troubles is Unreachable."""
    try:
        yield
    except OSError as error:
        kind = NoCapacity if error.errno in (ENOSPC, EDQUOT) else Unreachable
        raise kind(f"cannot {what}: {error.strerror}") from error


@contextmanager
def held(place: Path) -> Iterator[None]:
    """A new directory, removed at the end unless it has another name by then; `drop_left` spares it until then.

    Raises NoCapacity, Unreachable.
    """
    with room_for(f"make {place}"):
        descriptor = _held(place)
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def _held(place: Path) -> int:
    while True:
        place.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(place, os.O_RDONLY)
        _lock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        # Another process that started just now took it for left over.
        os.close(descriptor)


def drop_left(place: Path) -> None:
    """Remove such a directory of a process that has died. Several processes may share a data directory. Blocks."""
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except FileNotFoundError:
        return  # its process has just finished it
    try:
        _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
    except BlockingIOError:
        pass  # its process lives
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int) -> None:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        raise
    except OSError as error:
        # NFS has no such locks of directories.
        _log.debug("no lock: {error}", error=error)


def _read(file: Path, cls: type[T]) -> T | None:
    with room_for(f"read {file}"):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
    try:
        return _converter.structure(orjson.loads(data), cls)
    except (orjson.JSONDecodeError, BaseValidationError, TypeError) as error:
        raise DriverError(f"{file} is damaged: {error}") from error


def _readable(files: Iterable[Path], cls: type[T]) -> Iterator[tuple[Path, T | None]]:
    """Each file with what it holds; a damaged one is logged."""
    for file in files:
        try:
            found = _read(file, cls)
        except (NoCapacity, Unreachable):
            raise  # the file system's trouble: nothing is known of any
        except DriverError as error:
            _log.error("it is left out: {error}", error=error)
            yield file, None
        else:
            if found is not None:
                yield file, found


def _written(record: Volume | Snapshot) -> bytes:
    return orjson.dumps(_converter.unstructure(record))


# In a thread:


def _write(file: Path, data: bytes) -> None:
    beside = file.with_suffix(".new")
    with beside.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)
    sync(file.parent)


def _publish(place: Path, directory: Path, data: bytes) -> None:
    sync(place / DISK)
    _write(place / RECORD, data)
    # A rename replaces a directory only if it is empty: an existing volume stays as it is.
    place.rename(directory)
    sync(directory.parent)


def _adopt(place: Path, file: Path, directory: Path, data: bytes) -> None:
    os.link(file, place / DISK)
    _publish(place, directory, data)
    _unlink(file)


def _release(disk: Path, file: Path) -> None:
    if not file.exists():
        os.link(disk, file)
    sync(file.parent)


def _remove(directory: Path, doomed: Path) -> None:
    directory.rename(doomed)
    sync(directory.parent)
    shutil.rmtree(doomed)


def _unlink(file: Path) -> None:
    file.unlink(missing_ok=True)
    sync(file.parent)


def put_in_place(beside: Path, target: Path, size_bytes: int | None) -> None:
    """The file `beside`, cut to `size_bytes`, is synced and has the name `target`. Blocks."""
    if size_bytes is not None:
        os.truncate(beside, size_bytes)
    sync(beside)
    beside.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """The content of the file, or the names in the directory, are on the disk. Blocks."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
