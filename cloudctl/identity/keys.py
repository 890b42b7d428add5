"""The keys that seal tokens: files named by a number in one directory, shared by every process of the cloud.

0 is staged: it will be the next primary, and is known to all before anything is sealed with it. The highest number is
the primary; the rest only open what they sealed. Reference: identity.md, «Token formats».
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet

# The directories, in the state directory: of tokens, and of what is stored as credentials.
FERNET_KEYS, CREDENTIAL_KEYS = "fernet-keys", "credential-keys"

STAGED = 0
LOCK = ".lock"


class KeyDirectory:
    """Keys in files; read again as soon as the directory has changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._seen = 0
        self._fernet: MultiFernet | None = None

    def fernet(self) -> MultiFernet:
        """Seals with the primary, opens with any. Raises FileNotFoundError if there are no keys: see `ensure`."""
        changed = self.directory.stat().st_mtime_ns
        if self._fernet is None or changed != self._seen:
            keys = load(self.directory)
            self._fernet = MultiFernet([Fernet(keys[number]) for number in sorted(keys, reverse=True)])
            self._seen = changed
        return self._fernet


class KeysInMemory:
    """The keys of a cloud that ends with its process."""

    def __init__(self) -> None:
        self._fernet = MultiFernet([Fernet(Fernet.generate_key())])

    def fernet(self) -> MultiFernet:
        return self._fernet


def load(directory: Path) -> dict[int, bytes]:
    """Number → key. Raises FileNotFoundError for an empty directory, ValueError for a file that holds no key."""
    keys = {int(path.name): path.read_bytes().strip() for path in directory.iterdir() if path.name.isdigit()}
    if not keys:
        raise FileNotFoundError(f"{directory} contains no keys")
    for number, key in keys.items():
        try:
            Fernet(key)
        except ValueError:
            raise ValueError(f"{directory / str(number)} is not a Fernet key") from None
    return keys


def ensure(directory: Path) -> None:
    """Make the directory (mode 0700) and its first keys (mode 0600), unless they exist."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    with _alone(directory):
        numbers = _numbers(directory)
        if not any(number > STAGED for number in numbers):
            _write(directory, 1, Fernet.generate_key())
        if STAGED not in numbers:
            _write(directory, STAGED, Fernet.generate_key())


def rotate(directory: Path, max_keys: int) -> int:
    """The staged key becomes the primary, a new one is staged, the oldest go. The new primary's number.

    Rotating more often than every `token lifetime / (max_keys - 2)` makes valid tokens unreadable. A crash at any point
    leaves a set of keys that works, and a repetition completes it.
    """
    if max_keys < 2:
        raise ValueError("a staged and a primary key are the fewest that can be kept")
    with _alone(directory):
        keys = load(directory)
        primary = max(keys)
        # Staged and primary are the same only if a rotation was cut short in between.
        if keys[STAGED] != keys[primary]:
            primary += 1
            _write(directory, primary, keys[STAGED])
        _write(directory, STAGED, Fernet.generate_key())
        used = sorted(number for number in _numbers(directory) if number > STAGED)
        for number in used[: max(0, len(used) - (max_keys - 1))]:
            (directory / str(number)).unlink()
    return primary


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in directory.iterdir() if path.name.isdigit()]


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Processes that start at the same moment take turns."""
    with open(directory / LOCK, "w", opener=_private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(directory: Path, number: int, key: bytes) -> None:
    """A reader sees the old key or the new one, never a part, and a power cut loses neither."""
    partial = directory / f".{number}.new"
    with open(partial, "wb", opener=_private) as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(directory / str(number))
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
