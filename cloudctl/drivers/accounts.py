"""The users that processes become which others can make do things: they own nothing and can open nothing of a cloud."""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Container
from hashlib import sha256
from pathlib import Path

from attrs import frozen

# Neither Debian nor systemd gives these numbers to anybody: systemd has 1879048192 to 2147483647 as unused.
GUESTS = "1879048192-2013265919"
READERS = range(2_013_265_920, 2_147_483_647)
# Nor these, from 65520 to 65533: for machines (containers) that have no larger ones.
DEFAULT = "65523"
READERS_GROUP = 65522  # of files that are lent to what reads them: no guest is of it
MOST = 65533  # above it are nobody, and what stands for «none»
UID_MAP = Path("/proc/self/uid_map")


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


def numbers(text: str) -> range:
    """Of "100-200", with both ends. Raises ValueError."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 1 << 31):
        raise ValueError(f"is not of the form FIRST-LAST, users' numbers from 1 to 2147483647: {text!r}")
    return range(int(first), int(last) + 1)


def are_numbers(_instance: object, _attribute: object, value: str) -> None:
    """For an option."""
    numbers(value)


def exist(wanted: range) -> bool:
    """Whether processes can be of these users: a container may have fewer."""
    maps = (line.split() for line in UID_MAP.read_text().splitlines())
    return any(int(first) <= wanted[0] and wanted[-1] < int(first) + int(count) for first, _outside, count in maps)


def reader() -> Account:
    """Of one run of what reads users' files: nobody else's, so that two at a time can do nothing to each other."""
    found = secrets.choice(READERS) if exist(READERS) else READERS_GROUP
    return Account(found, READERS_GROUP)


def own_number(wanted: range, name: str, taken: Container[int]) -> int | None:
    """One that nobody has. It begins where the name says, so that clouds that share a machine seldom meet.

    None: all are taken.
    """
    start = int.from_bytes(sha256(name.encode()).digest()[:8])
    in_turn = (wanted[(start + step) % len(wanted)] for step in range(len(wanted)))
    return next((each for each in in_turn if each not in taken), None)


def is_account(_instance: object, _attribute: object, value: str) -> None:
    """For an option."""
    account(value)


def optional_account(instance: object, attribute: object, value: str) -> None:
    """For an option that may be empty."""
    if value:
        is_account(instance, attribute, value)


def lend(descriptor: int, group: int, *, writable: bool) -> None:
    """Whoever is handed this file of the process's own, and is of the group, may open it again by its number.

    The folders above let nobody of that group in, so that who is not handed it does not get there. Raises OSError.
    """
    wanted, found = 0o060 if writable else 0o040, os.fstat(descriptor)
    if found.st_gid != group or found.st_mode & wanted != wanted:
        os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, found.st_mode & 0o7707 | wanted)


def let_through(directory: Path) -> None:
    """The directory, of this process's own user, is there, and everybody goes through it to names that he knows.

    What is in it says who may use it. So it is with those above that are made for it. A process that is not root's lets
    nobody in: its guests are its own. Raises OSError.
    """
    if not directory.is_dir():
        let_through(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    if os.geteuid() == 0 and not found.st_mode & 0o001:
        directory.chmod(found.st_mode & 0o7707 | 0o011)
