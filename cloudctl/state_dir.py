"""The state directory: whatever created it, and whatever the umask, no other user can enter it.

The database in it holds user data and passwords of guests, `clouds.yaml` the passwords of the first users. What all
processes of a cloud must share (images, backups, objects, drivers' data) is in its data directory. That is the state
directory unless [server] data_dir names another, and a file in it holds the cloud's id: see `belongs_to`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet

from cloudctl.errors import ConfigError

OTHERS = 0o077
DATABASE = "cloudctl.sqlite"
# The files that identify a directory as a cloud's, and those that hold secrets or lead to them.
SEALING_KEY, CLOUD_ID = "sealing-key", "cloud-id"
OURS = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "clouds.yaml", "lock", SEALING_KEY, CLOUD_ID)


def prepare(directory: Path, option: str = "state_dir") -> None:
    """Ensure that the directory exists with mode 0700, and its files have mode 0600. Raises ConfigError.

    A directory that others may enter is closed to them if it is empty or a cloud's; any other one is refused, since it
    may be somebody's home.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = directory.stat()
        names = set(os.listdir(directory))
        if found.st_mode & OTHERS:
            if names and not names.intersection(OURS):
                raise ConfigError(
                    [f"{option}: others may enter {directory}, which is not a cloud's; choose another, or chmod 700"]
                )
            directory.chmod(0o700)
        for name in names.intersection(OURS):
            file = directory / name
            if file.stat().st_mode & OTHERS:
                file.chmod(0o600)
    except FileExistsError:
        raise ConfigError([f"{option}: {directory} is no directory"]) from None
    except PermissionError as error:
        raise ConfigError([f"{option}: {directory} must be this user's own, with mode 0700: {error}"]) from None


def touch_database(directory: Path) -> None:
    """SQLite gives its other files the mode of the first one."""
    os.close(os.open(directory / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))


def sealing_key(directory: Path) -> str:
    """The key that seals secrets in the database if no option names one: made when it is first needed.

    Raises ConfigError if the file holds something else.
    """
    path = directory / SEALING_KEY
    if not path.exists():
        # Of processes that start at the same moment, the first one's key wins.
        fresh = directory / f".{SEALING_KEY}.{os.getpid()}"
        _write(fresh, Fernet.generate_key())
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
        _sync(directory)
    try:
        key = path.read_text().strip()
        Fernet(key)
    except ValueError:  # or a UnicodeDecodeError, which is one
        raise ConfigError([f"state_dir: {path} holds no key; it is part of a backup of the cloud"]) from None
    return key


# -- the data directory


def propose(directory: Path, cloud_id: str) -> None:
    """Mark the directory as the cloud's, if the transaction that names the cloud commits. Raises ConfigError."""
    other = _content(directory / CLOUD_ID)
    if other is not None and other != cloud_id:
        raise ConfigError(
            [
                f"server.data_dir: {directory} has the data of cloud {other}, but the database is empty: restore that "
                "cloud's database, or begin a new cloud in another directory"
            ]
        )
    _write(directory / f"{CLOUD_ID}.new", cloud_id.encode())


def belongs_to(directory: Path, cloud_id: str, keeping: Sequence[str], alone: bool) -> None:
    """Raises ConfigError unless the directory is this cloud's: two processes with different ones would diverge.

    `keeping`: the options that put into it what other processes need; if none do, each process has its own directory.
    `alone`: no other process can have another directory, so an unmarked one is taken to be the cloud's.
    """
    mark = directory / CLOUD_ID
    found = _content(mark)
    if found is None and not keeping:
        return
    if found is None and (alone or _content(mark.with_name(f"{CLOUD_ID}.new")) == cloud_id):
        _write(mark, cloud_id.encode())
        found = cloud_id
    if found is None:
        raise ConfigError(
            [
                f"server.data_dir: {directory} is not where the other processes of this cloud keep its data, or it is "
                f"a copy without its file {CLOUD_ID}, which must hold {cloud_id}. It is needed by {', '.join(keeping)}"
            ]
        )
    if found != cloud_id:
        raise ConfigError([f"server.data_dir: {directory} is that of another cloud, {found}"])
    mark.with_name(f"{CLOUD_ID}.new").unlink(missing_ok=True)


def _content(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Replace the file: even after a power cut it holds this content, or what it held before."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
