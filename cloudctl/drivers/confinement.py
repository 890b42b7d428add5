"""What programs may do that users can make do things: declared for each, and put before its command.

One shape for all of them: the user that it is of, what it keeps of root's capabilities, and what it may take. Limits
and capabilities are set by `prlimit` and `setpriv`, which then become the program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import ceil
from typing import Literal

from attrs import frozen

from cloudctl.drivers.accounts import reader

MIB = 1 << 20
FILES = "+dac_read_search"  # files are those of the process that runs it, whose the folders above them are is not
# For one that becomes another user when it has opened what it needs: with that it loses all that it has kept.
BECOMING = "+setuid,+setgid"


@frozen
class Confinement:
    """`user`: one that each run has to itself, which opens nothing but what it is handed; or that of who starts it."""

    user: Literal["own", "same"] = "own"
    capabilities: str = ""  # of root's, in setpriv's words, where it stays root's
    addresses: int | None = None  # bytes (RLIMIT_AS)
    timed: bool = False  # it may use as many seconds of a processor as it has time (RLIMIT_CPU)

    @property
    def is_limited(self) -> bool:
        return self.addresses is not None


CONFINED: Mapping[str, Confinement] = {
    # A VDI of one sector can ask for 2 GiB.
    "qemu-img": Confinement(addresses=1536 * MIB, timed=True),
    # It believes what a daemon says that guests talk to. A socket of root's it can reach only as that.
    "qemu-nbd": Confinement("same", addresses=1536 * MIB, timed=True),
    # Each client may have 16 requests of 32 MiB under way.
    "qemu-storage-daemon": Confinement(addresses=4096 * MIB),
    # It becomes its guest's user by itself: it opens the interface that it is plugged into by its name before.
    "qemu-system-x86_64": Confinement("same", f"{FILES},+net_admin"),
}
"""Program that parses what users made, or runs it → what it may do. None of them leaves a core file with its limits."""


def environment(name: str) -> Mapping[str, str]:
    """What it needs beside what all programs get: glibc reserves 64 MiB of addresses for each thread, unless told."""
    return {"MALLOC_ARENA_MAX": "4"} if name in CONFINED and CONFINED[name].is_limited else {}


def is_of_another_user(name: str) -> bool:
    """Whether it can open only what it is handed. A process that is not root's can only name files."""
    return os.geteuid() == 0 and name in CONFINED and CONFINED[name].user == "own"


def confined(name: str, seconds: float, file_bytes: int | None = None, *, becomes: bool = False) -> list[str]:
    """What stands before the program's name. `file_bytes`: how large a file it may write, if it is limited at all.

    `becomes`: it becomes another user by itself.
    """
    found = CONFINED.get(name)
    if found is None:
        return []
    words = []
    if found.is_limited:
        words += ["prlimit", f"--as={found.addresses}", "--core=0"]
        words += [f"--cpu={ceil(seconds)}"] if found.timed else []
        words += [f"--fsize={file_bytes}"] if file_bytes is not None else []
    if os.geteuid() == 0:
        words += ["setpriv", "--no-new-privs", "--clear-groups", "--inh-caps=-all"]
        if found.user == "own":
            user = reader()
            words += [f"--reuid={user.uid}", f"--regid={user.gid}", "--bounding-set=-all"]
        else:
            kept = (found.capabilities, BECOMING if becomes else "")
            words.append(",".join(filter(None, ("--bounding-set=-all", *kept))))
    return words
