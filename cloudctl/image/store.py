"""The files of one store, a directory: an image's data is `<image id>`; until it is in place it has another name.

    <image id>            the data
    staged-<image id>     data that waits for an import
    incoming-<upload id>  an upload that is being checked, or data on its way from elsewhere

A process that works on a file holds a lock on it (flock, which ends with the process), so that `is_held` tells a file
in use, even by another process, from one that a killed process left behind. All functions here block: see `data`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import frozen

from cloudctl.db.columns import new_id

INCOMING, STAGED = "incoming-", "staged-"
CHUNK = 2**20  # bytes that are in memory at once
# Ids: of the store where data arrives, and of the one for data fetched from addresses.
DEFAULT, WEB = "default", "web"
# Kinds of stores: data gets into a store of kind HTTP only by naming its address.
FILE, HTTP = "file", "http"


@frozen
class ImageStore:
    directory: Path
    id: str = DEFAULT
    description: str = ""
    weight: int = 0
    kind: str = FILE

    @property
    def is_writable(self) -> bool:
        """Whether uploads, imports and copies may go here."""
        return self.kind == FILE

    def prepare(self) -> None:
        """Make the directory. Call it once, before the listener starts."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, image_id: str) -> Path:
        """Where the data of the image is, if it has any here."""
        return self.directory / image_id

    def fetch(self, image_id: str, *, settled: bool = True) -> Path:
        """Where it is now, if the store has it. `settled`: it is active, so its data never changes again."""
        return self.path(image_id)

    def has(self, image_id: str) -> bool:
        """Whether the data that an import brings is here already, so that nothing is left to do."""
        return self.path(image_id).exists()

    def staged(self, image_id: str) -> Path:
        return self.directory / f"{STAGED}{image_id}"

    def incoming(self, upload_id: str) -> Path:
        return self.directory / f"{INCOMING}{upload_id}"

    def take(self, content: IO[bytes], upload_id: str) -> bool:
        """Keep the file behind `content` as this upload by a hard link; False if it is not a file of this directory."""
        name = getattr(content, "name", None)
        if not isinstance(name, str) or Path(name).parent != self.directory:
            return False
        content.flush()
        try:
            os.link(name, self.incoming(upload_id))
        except OSError:
            # Somebody else removed the name, or the file system has no hard links: a copy will do.
            return False
        return True

    def copy(self, content: IO[bytes], upload_id: str) -> None:
        """Keep the bytes of `content` as this upload."""
        content.seek(0)
        with self.incoming(upload_id).open("wb") as target:
            fcntl.flock(target, fcntl.LOCK_EX)
            while chunk := content.read(CHUNK):
                target.write(chunk)

    def receive(self, source: Path, image_id: str) -> None:
        """Take over an image's data from the file `source`, of this store or another. A failed copy leaves nothing."""
        if source.parent == self.directory:
            self.settle(source, self.path(image_id))
            return
        incoming = self.incoming(new_id())
        try:
            with source.open("rb") as content, incoming.open("xb") as target:
                fcntl.flock(target, fcntl.LOCK_EX)
                shutil.copyfileobj(content, target, CHUNK)
                target.flush()
                self.settle(incoming, self.path(image_id))
        finally:
            incoming.unlink(missing_ok=True)

    def stage(self, source: Path, image_id: str) -> None:
        """Let the data in `source`, of this directory, wait for an import."""
        self.settle(source, self.staged(image_id))

    def fetch_staged(self, image_id: str) -> Path | None:
        """Where the data that waits for an import is, if there is any."""
        staged = self.staged(image_id)
        return staged if staged.exists() else None

    def settle(self, source: Path, target: Path) -> None:
        """Rename a file; the new name survives a power cut."""
        with source.open("rb") as file:
            os.fsync(file.fileno())
        source.replace(target)
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def remove(self, *paths: Path) -> None:
        """What a power cut brings back is found by `recovery`."""
        for path in paths:
            path.unlink(missing_ok=True)

    def drop(self, image_id: str) -> None:
        """Remove the data of the image."""
        self.remove(self.path(image_id))

    def drop_staged(self, image_id: str) -> None:
        self.remove(self.staged(image_id))

    def remove_all(self, image_id: str) -> None:
        """Remove whatever there is of this image."""
        self.drop(image_id)
        self.drop_staged(image_id)

    def has_died(self, image_id: str, upload_id: str, since: float) -> bool:
        """Whether nobody works on this upload any more; the record has named it for `since` seconds."""
        return not any(map(is_held, (self.incoming(upload_id), self.path(image_id), self.staged(image_id))))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.directory))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Mark the file as being worked on, under whatever name it has by the end. Raises FileNotFoundError."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_held(path: Path) -> bool:
    """Whether somebody works on this file; False if there is none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
