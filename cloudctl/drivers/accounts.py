"""Users for processes that users' data could subvert: they own nothing and can open nothing of a cloud."""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Container
from hashlib import sha256
from pathlib import Path

from attrs import frozen

# Neither Debian nor systemd assigns these numbers: systemd lists 1879048192 to 2147483647 as unused.
GUESTS = "1879048192-2013265919"
READERS = range(2_013_265_920, 2_147_483_647)
# Nor do they assign 65520 to 65533: for machines (containers) that have no larger numbers.
DEFAULT = "65523"
READERS_GROUP = 65522  # of files that are lent to their readers: no guest belongs to it
MOST = 65533  # above it are nobody, and the number that stands for «none»
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
    """The account of a name or of a number. A number without a name has the group of the same number.

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
    """The range in "100-200", both ends included. Raises ValueError."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 1 << 31):
        raise ValueError(f"is not of the form FIRST-LAST, users' numbers from 1 to 2147483647: {text!r}")
    return range(int(first), int(last) + 1)


def are_numbers(_instance: object, _attribute: object, value: str) -> None:
    """A validator of an option."""
    numbers(value)


def exist(wanted: range) -> bool:
    """Whether processes can run as these users: a container may have fewer."""
    maps = (line.split() for line in UID_MAP.read_text().splitlines())
    return any(int(first) <= wanted[0] and wanted[-1] < int(first) + int(count) for first, _outside, count in maps)


def reader() -> Account:
    """A user for one run of a program that reads users' files, so that two runs can do nothing to each other."""
    found = secrets.choice(READERS) if exist(READERS) else READERS_GROUP
    return Account(found, READERS_GROUP)


def own_number(wanted: range, name: str, taken: Container[int]) -> int | None:
    """A free number. The search starts where the name's hash points, so that clouds on one machine seldom collide.

    None: all are taken.
    """
    start = int.from_bytes(sha256(name.encode()).digest()[:8])
    in_turn = (wanted[(start + step) % len(wanted)] for step in range(len(wanted)))
    return next((each for each in in_turn if each not in taken), None)


def is_account(_instance: object, _attribute: object, value: str) -> None:
    """A validator of an option."""
    account(value)


def optional_account(instance: object, attribute: object, value: str) -> None:
    """A validator of an option that may be empty."""
    if value:
        is_account(instance, attribute, value)


def lend(descriptor: int, group: int, *, writable: bool) -> None:
    """A program in the group that is handed this file of this process may open it again by its descriptor's number.

    The folders above admit nobody of that group, so a program that is not handed the file cannot reach it. Raises
    OSError.
    """
    wanted, found = 0o060 if writable else 0o040, os.fstat(descriptor)
    if found.st_gid != group or found.st_mode & wanted != wanted:
        os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, found.st_mode & 0o7707 | wanted)


def let_through(directory: Path) -> None:
    """The directory exists, owned by this process's user, and anybody may pass through it to names they know.

    The modes of its entries decide who may use them. The same holds for parents that are created for it. A process
    that does not run as root admits nobody: its guests run as its own user. Raises OSError.
    """
    if not directory.is_dir():
        let_through(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    if os.geteuid() == 0 and not found.st_mode & 0o001:
        directory.chmod(found.st_mode & 0o7707 | 0o011)
