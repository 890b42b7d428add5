"""What programs that users' data could subvert may do: declared for each program, and put before its command.

All are declared alike: the user the program runs as, which of root's capabilities it keeps, and what it may consume.
Limits and capabilities are set by `prlimit` and `setpriv`, which then become the program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import ceil
from typing import Literal

from attrs import frozen

from cloudctl.drivers.accounts import reader

MIB = 1 << 20
FILES = "+dac_read_search"  # files belong to the process that runs it; the folders above them need not
# For a program that becomes another user once it has opened what it needs: it then loses all capabilities it kept.
BECOMING = "+setuid,+setgid"


@frozen
class Confinement:
    """`user`: one per run, which can open nothing but what it is handed ("own"), or that of the caller ("same")."""

    user: Literal["own", "same"] = "own"
    capabilities: str = ""  # those of root's, in setpriv's terms, that it keeps while it runs as root
    addresses: int | None = None  # bytes (RLIMIT_AS)
    timed: bool = False  # it may use as many CPU seconds as its time limit has (RLIMIT_CPU)

    @property
    def is_limited(self) -> bool:
        return self.addresses is not None


CONFINED: Mapping[str, Confinement] = {
    # A one-sector VDI can make it request 2 GiB.
    "qemu-img": Confinement(addresses=1536 * MIB, timed=True),
    # It trusts the answers of a daemon that guests talk to. Only as root can it reach a socket of root's.
    "qemu-nbd": Confinement("same", addresses=1536 * MIB, timed=True),
    # Each client may have 16 requests of 32 MiB under way.
    "qemu-storage-daemon": Confinement(addresses=4096 * MIB),
    # It becomes its guest's user by itself: before that it opens, by name, the interface that it is plugged into.
    "qemu-system-x86_64": Confinement("same", f"{FILES},+net_admin"),
}
"""Program that parses what users made, or runs it → what it may do. None of them leaves a core file with its limits."""


def environment(name: str) -> Mapping[str, str]:
    """What it needs besides what all programs get: glibc reserves 64 MiB of addresses per thread unless limited."""
    return {"MALLOC_ARENA_MAX": "4"} if name in CONFINED and CONFINED[name].is_limited else {}


def is_of_another_user(name: str) -> bool:
    """Whether it can open only what it is handed. A process that does not run as root can only pass file names."""
    return os.geteuid() == 0 and name in CONFINED and CONFINED[name].user == "own"


def confined(name: str, seconds: float, file_bytes: int | None = None, *, becomes: bool = False) -> list[str]:
    """The words before the program's name. `file_bytes`: how large a file it may write, if it is limited at all.

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
