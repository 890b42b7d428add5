"""Lists of users besides a file's owner and group (POSIX ACLs): who may connect to a UNIX socket.

As the kernel stores them: a version, then for each entry its kind, its permissions, and the user's or group's number.
Source: acl(5), linux/posix_acl_xattr.h.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path

NAME = "system.posix_acl_access"
VERSION, ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
OWNER, USER, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
NOBODYS = 0xFFFFFFFF  # the number of an entry that belongs to no user
READ_WRITE = 6


def users(path: Path) -> frozenset[int]:
    """The users on the list. Raises OSError."""
    return frozenset(number for kind, _, number in _entries(path) if kind == USER)


def put(path: Path, wanted: Iterable[int]) -> None:
    """Exactly these users may read and write, or connect, besides those whom the file's mode allows. Raises OSError."""
    mode = os.stat(path).st_mode
    group = next((allowed for kind, allowed, _ in _entries(path) if kind == GROUP), mode >> 3 & 7)
    found = sorted(set(wanted))
    if not found:
        try:
            os.removexattr(path, NAME)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP):
                raise
        os.chmod(path, mode & 0o7707 | group << 3)
        return
    entries = [(OWNER, mode >> 6 & 7, NOBODYS), *((USER, READ_WRITE, each) for each in found)]
    entries += [(GROUP, group, NOBODYS), (MASK, group | READ_WRITE, NOBODYS), (OTHERS, mode & 7, NOBODYS)]
    os.setxattr(path, NAME, VERSION.pack(2) + b"".join(ENTRY.pack(*each) for each in entries))


def copy(path: Path, target: Path) -> None:
    """Whoever may use `path` may use `target`, which has the same owner. Raises OSError."""
    found = os.stat(path)
    os.chown(target, -1, found.st_gid)
    os.chmod(target, found.st_mode & 0o777)
    if users(path):
        os.setxattr(target, NAME, os.getxattr(path, NAME))


def _entries(path: Path) -> list[tuple[int, int, int]]:
    try:
        return list(ENTRY.iter_unpack(os.getxattr(path, NAME)[VERSION.size :]))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return []
        raise
