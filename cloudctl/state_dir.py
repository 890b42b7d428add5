"""The state directory: whatever made it, and whatever the umask, nobody else enters it.

The database in it holds user data and passwords of guests, `clouds.yaml` those of the first users.
"""

from __future__ import annotations

import os
from pathlib import Path

from cloudctl.errors import ConfigError

OTHERS = 0o077
DATABASE = "cloudctl.sqlite"
# What tells that a directory is a cloud's; and files that hold secrets, or lead to them.
OURS = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "clouds.yaml", "lock")


def prepare(directory: Path) -> None:
    """It is there, with mode 0700, and so are its files with 0600. Raises ConfigError.

    One that others may enter is closed to them if it is empty or a cloud's; any other one is refused, since it may be
    somebody's home.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = directory.stat()
        names = set(os.listdir(directory))
        if found.st_mode & OTHERS:
            if names and not names.intersection(OURS):
                raise ConfigError(
                    [f"state_dir: others may enter {directory}, which is not a cloud's; choose another, or chmod 700"]
                )
            directory.chmod(0o700)
        for name in names.intersection(OURS):
            file = directory / name
            if file.stat().st_mode & OTHERS:
                file.chmod(0o600)
    except PermissionError as error:
        raise ConfigError([f"state_dir: {directory} must be this user's own, with mode 0700: {error}"]) from None


def touch_database(directory: Path) -> None:
    """SQLite gives its other files the mode of the first one."""
    os.close(os.open(directory / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))
