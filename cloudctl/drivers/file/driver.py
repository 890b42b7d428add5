"""The objects driver `file`: contents are `<directory>/<two digits>/<id>`.

A file never changes once it has its name, and a reader that has opened it can read on after the name is gone.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import frozen
from zope.interface import implementer

from cloudctl.drivers.errors import NoCapacity, UnknownContent, Unreachable, Unusable
from cloudctl.drivers.interfaces import IElsewhere, IManyContents, IObjectData
from cloudctl.drivers.objects_interface import ContentState
from cloudctl.drivers.specs import DriverResources

CHUNK = 2**20  # bytes that are in memory at once
FULL = (errno.ENOSPC, errno.EDQUOT)
# Why a hard link fails where a copy can be made: another file system, or one without such links.
UNLINKABLE = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
DIGITS = 2  # of an id, that name its folder
PART = "part-"  # before the name of a folder that belongs to another part than the object store
HALF = "half-"  # before the name of a copy until it is whole
ABANDONED = 86_400.0  # seconds after which a half copy is considered abandoned


@frozen
class Config:
    """`[driver.objects.file]`"""

    directory: str = ""  # empty: "objects" beside all other data; other parts than the object store have folders in it


def create(config: Config, resources: DriverResources) -> ObjectFiles:
    directory = Path(config.directory) if config.directory else resources.state_dir
    if directory is None:
        raise ValueError("the driver needs a directory")
    return ObjectFiles(directory / f"{PART}{resources.part}" if resources.part else directory, bool(config.directory))


@implementer(IObjectData, IManyContents, IElsewhere)
@frozen
class ObjectFiles:
    directory: Path
    elsewhere: bool = False

    async def check(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self.directory):
                """It can be written."""
            # Others may be copying now.
            for half in self.directory.glob(f"{HALF}*"):
                if half.stat().st_mtime < time.time() - ABANDONED:
                    half.unlink(missing_ok=True)
        except OSError as error:
            raise Unusable(f"{self.directory} cannot be written: {error.strerror}") from None

    async def close(self) -> None:
        """Nothing is open."""

    def path(self, id: str) -> Path:
        return self.directory / id[:DIGITS] / id

    def ensure_kept(self, id: str, path: str) -> None:
        self.ensure_all_kept(((id, path),))

    def ensure_all_kept(self, contents: Sequence[tuple[str, str]]) -> None:
        """All syncs of data, then all of names: the file system does most of the work of a group in its first sync."""
        named = {self.path(id): Path(path) for id, path in contents}
        folders = {target.parent for target in named}
        with _told(self.directory):
            if missing := [each for each in folders if not each.exists()]:
                for folder in missing:
                    folder.mkdir(exist_ok=True, mode=0o700)
                _sync(self.directory)
            unnamed = {target: source for target, source in named.items() if not target.exists()}
            for source in unnamed.values():
                _sync(source)
            for target, source in unnamed.items():
                self._name(source, target)
            for folder in folders:
                _sync(folder)

    def open(self, id: str) -> IO[bytes]:
        path = self.path(id)
        with _told(path):
            try:
                return path.open("rb")
            except FileNotFoundError:
                raise UnknownContent(id) from None

    def ensure_absent(self, id: str) -> None:
        """A content that a power cut brings back is in the inventory again."""
        path = self.path(id)
        with _told(path):
            path.unlink(missing_ok=True)

    def inventory(self, after: str) -> tuple[ContentState, ...]:
        with _told(self.directory):
            for folder in sorted(self.directory.iterdir()):
                if len(folder.name) == DIGITS and folder.name >= after[:DIGITS] and folder.is_dir():
                    found = sorted(_contents(folder), key=lambda each: each.id)
                    if found := [each for each in found if each.id > after]:
                        return tuple(found)
            return ()

    def _name(self, source: Path, target: Path) -> None:
        """`target` becomes the content of `source`, which is synced already: so it is whole before it has the name."""
        try:
            os.link(source, target)
            return
        except FileExistsError:
            return  # another call has kept the same content
        except OSError as error:
            if error.errno not in UNLINKABLE:
                raise
        opened, half = tempfile.mkstemp(prefix=HALF, dir=self.directory)
        try:
            with source.open("rb") as read, os.fdopen(opened, "wb") as written:
                shutil.copyfileobj(read, written, CHUNK)
                written.flush()
                os.fsync(written.fileno())
            os.replace(half, target)
        finally:
            Path(half).unlink(missing_ok=True)


def _contents(folder: Path) -> Iterator[ContentState]:
    for entry in os.scandir(folder):
        try:
            yield ContentState(entry.name, entry.stat().st_ctime)
        except FileNotFoundError:
            continue  # somebody has removed it


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """The system's errors as DriverErrors."""
    try:
        yield
    except OSError as error:
        kind = NoCapacity if error.errno in FULL else Unreachable
        raise kind(f"{path}: {error.strerror}") from error
