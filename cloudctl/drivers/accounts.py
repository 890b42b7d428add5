"""The users that processes become which others can make do things: they own nothing and can open nothing of a cloud."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from attrs import frozen

# Neither Debian nor systemd gives this number to anybody: 65000 to 65533 and 65520 to 65533 are reserved.
DEFAULT = "65523"
READER = "65522"  # of what reads users' files: no guest can do anything to it
MOST = 65533  # above it are nobody, and what stands for «none»


@frozen
class Account:
    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


def account(user: str) -> Account:
    """Of a name, or of a number, which need not have a name: its group is then the one of the same number.

    Raises ValueError.
    """
    try:
        found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except KeyError:
        if user.isdecimal() and int(user) <= MOST:
            return Account(int(user), int(user))
        raise ValueError(f"is no user of this machine: {user!r}") from None
    return Account(found.pw_uid, found.pw_gid)


def is_account(_instance: object, _attribute: object, value: str) -> None:
    """For an option."""
    account(value)


def lend(descriptor: int, user: Account, *, writable: bool) -> None:
    """Whoever is handed this file of the process's own, and is of the account's group, may open it again by its number.

    The folders above let nobody of that group in, so that who is not handed it does not get there. Raises OSError.
    """
    wanted, found = 0o060 if writable else 0o040, os.fstat(descriptor)
    if found.st_gid != user.gid or found.st_mode & wanted != wanted:
        os.fchown(descriptor, -1, user.gid)
        os.fchmod(descriptor, found.st_mode & 0o7707 | wanted)


def let_through(directory: Path, user: Account) -> None:
    """The directory, of this process's own user, is there, and the account's group goes through it to names it knows.

    So it does through those above that are made for it. Who may enter it anyway still may. A process that is not root's
    lets nobody in: its guests are its own. Raises OSError.
    """
    if not directory.is_dir():
        let_through(directory.parent, user)
        directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    if os.geteuid() == 0 and not user.is_root and not found.st_mode & 0o001:
        os.chown(directory, -1, user.gid)
        directory.chmod(found.st_mode & 0o7707 | 0o010)


def let_connect(socket: Path, user: Account) -> None:
    """The account's group may connect to a UNIX socket of this process's user, as that itself may, and nobody else."""
    if os.geteuid() == 0:
        os.chown(socket, -1, user.gid)
        socket.chmod(0o660)
