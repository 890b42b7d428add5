"""A store whose data a driver of objects keeps, so that processes that share no directory all have it.

Its directory has what is on its way there, and copies of what was read: only of active images, whose data never
changes. A copy is as good as the content, so readers use it, and the driver is asked only where there is none. A copy
that nobody has used for a day is removed.

The content of an image is kept under its id, and data that waits for an import under an id derived from that.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid5

from attrs import field, frozen

from cloudctl.db.columns import new_id
from cloudctl.drivers.errors import DriverError, NoCapacity, UnknownContent
from cloudctl.drivers.interfaces import IObjectData
from cloudctl.image.store import CHUNK, ImageStore, held, is_held

STAGED = UUID("5e0b1f0e-6a54-4c2e-9b7c-3b7c6f1d2a90")
# Seconds.
COPY_KEPT = 86_400.0
GIVEN_UP = 86_400.0  # after which an upload whose machine has not come back counts as died
YOUNG = 3600.0  # for which a content without an image may still get one

Known = Callable[[Collection[str]], Iterable[tuple[str, bool]]]
"""Ids of images → those that have data, and those that have staged data: (id, whether it is that)."""


@frozen
class KeptStore(ImageStore):
    contents: IObjectData = field(kw_only=True)

    def fetch(self, image_id: str, *, settled: bool = True) -> Path:
        # Until the image is active, other content may take its name: such a copy is not for other readers.
        path = self.path(image_id) if settled else self.staged(image_id)
        if settled and path.exists():
            os.utime(path)
        else:
            self._copy(_content(image_id), path)
        return path

    def has(self, image_id: str) -> bool:
        """It may be what an upload that died has left: only storing it again makes sure."""
        return False

    def receive(self, source: Path, image_id: str) -> None:
        self._keep(_content(image_id), source)

    def stage(self, source: Path, image_id: str) -> None:
        self._keep(_staged(image_id), source)
        self.remove(source)

    def fetch_staged(self, image_id: str) -> Path | None:
        path = self.staged(image_id)
        return path if self._copy(_staged(image_id), path) else None

    def drop(self, image_id: str) -> None:
        super().drop(image_id)
        with _told():
            self.contents.ensure_absent(_content(image_id))

    def drop_staged(self, image_id: str) -> None:
        super().drop_staged(image_id)
        with _told():
            self.contents.ensure_absent(_staged(image_id))

    def has_died(self, image_id: str, upload_id: str, since: float) -> bool:
        """Known for sure on the machine where it arrived; if that never starts again, assumed after a day."""
        arrived = self.incoming(upload_id)
        return since > GIVEN_UP or (arrived.exists() and not is_held(arrived))

    def sweep(self, known: Known, before: float) -> int:
        """Remove contents that no image has, if kept before this time; returns how many."""
        removed, after = 0, ""
        with _told():
            while page := self.contents.inventory(after):
                after = page[-1].id
                found = known([str(UUID(each.id)) for each in page])
                wanted = {_staged(id) if staged else _content(id) for id, staged in found}
                for each in page:
                    if each.id not in wanted and each.since < before:
                        self.contents.ensure_absent(each.id)
                        removed += 1
        return removed

    def _keep(self, id: str, source: Path) -> None:
        """Replaces what an upload that died may have left."""
        with _told():
            self.contents.ensure_absent(id)
            self.contents.ensure_kept(id, str(source))

    def _copy(self, id: str, target: Path) -> bool:
        """Copy the content to the file; returns whether there is such a content."""
        self._forget_copies()
        arriving = self.incoming(new_id())
        try:
            with _told(), self.contents.open(id) as content, arriving.open("xb") as file, held(arriving):
                shutil.copyfileobj(content, file, CHUNK)
                file.flush()
                # It is fetched again when needed, so it need not survive a power cut; but half a file must not.
                os.fsync(file.fileno())
                arriving.replace(target)
        except UnknownContent:
            target.unlink(missing_ok=True)
            return False
        finally:
            arriving.unlink(missing_ok=True)
        return True

    def _forget_copies(self) -> None:
        """Readers that have one open can read on."""
        for name in self.names():
            path = self.directory / name
            try:
                UUID(name)
                if path.stat().st_mtime < time.time() - COPY_KEPT and not is_held(path):
                    path.unlink()
            except (ValueError, FileNotFoundError):
                """No copy; or another has done it."""


def _content(image_id: str) -> str:
    return UUID(image_id).hex


def _staged(image_id: str) -> str:
    return uuid5(STAGED, image_id).hex


@contextmanager
def _told() -> Iterator[None]:
    """A driver's errors as OSError, except UnknownContent, which is for the caller."""
    try:
        yield
    except UnknownContent:
        raise
    except DriverError as error:
        raise OSError(errno.ENOSPC if isinstance(error, NoCapacity) else errno.EIO, str(error)) from error
