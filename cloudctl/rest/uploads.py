"""Uploads that are under way: how much data they may have, in all and per project, and where it is kept.

Each process counts its own. What an upload takes of a quota for good is counted by its service when the data is there.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from attrs import define, field, frozen
from twisted.python.failure import Failure

from cloudctl.errors import CloudError, OverQuota, Unavailable
from cloudctl.rest.spool import Memory, Run, Spool, at_once

SPOOL_PREFIX = "upload-"

LATER = {"Retry-After": "30"}
UNWRITABLE = "Uploads cannot be kept now."
FULL = "Too much data is being uploaded now."
FULL_SHARE = "The project uploads too much data at once; wait for the end of another upload."


@frozen
class Admitted:
    """An upload that is allowed: whose it is, and the limits that it is held to while it flows.

    `most`: bytes that all uploads of this project for this `purpose` may have together (None: no limit); `over`: the
    message for one that exceeds them. `through`: what looks at its data on the way, in place of the service's own.
    """

    project_id: str
    purpose: str = ""
    most: int | None = None
    over: str = ""
    through: Callable[[IO[bytes]], IO[bytes]] | None = None


@define(eq=False)
class Flow:
    """One upload that is being kept."""

    admitted: Admitted
    kept: int = 0  # bytes


@define
class Uploads:
    """Bodies of uploads, in `directory` as they arrive: at most `limit` bytes each, `budget` together, and `share` of
    one project (0: no limit).

    Its Operation (`admits`) decides whether a request begins an upload, and whether it may, before a byte is kept.
    """

    directory: Path
    limit: int
    budget: int = 0
    share: int = 0
    # What the client is told if the data cannot be kept.
    unwritable: Callable[[OSError], CloudError] = lambda _: Unavailable(UNWRITABLE)
    # Wraps the file that the data goes to, to look at it on the way: to hash it, for example.
    through: Callable[[IO[bytes]], IO[bytes]] = lambda file: file
    # Calls `fn(*args)` in a thread; by default, at once.
    run: Run = at_once
    in_flight: int = field(default=0, init=False)  # bytes
    memory: Memory = field(factory=Memory, init=False)
    _of_project: Counter[str] = field(factory=Counter, init=False)  # bytes
    _for_purpose: Counter[tuple[str, str]] = field(factory=Counter, init=False)  # bytes
    _flows: Counter[str] = field(factory=Counter, init=False)

    def under_way(self, project_id: str) -> int:
        """How many uploads of the project are being kept."""
        return self._flows[project_id]

    def check(self, admitted: Admitted, size: int) -> None:
        """Check that this many more bytes may be under way. Raises Unavailable, OverQuota."""
        if self.budget and self.in_flight + size > self.budget:
            raise Unavailable(FULL, headers=LATER)
        if self.share and self._of_project[admitted.project_id] + size > self.share:
            raise Unavailable(FULL_SHARE, headers=LATER)
        if admitted.most is not None and self._for_purpose[_purpose(admitted)] + size > admitted.most:
            raise OverQuota(admitted.over)

    def begin(self, admitted: Admitted) -> Flow:
        """Count an upload. Call `end` once it is not kept any longer."""
        self._flows[admitted.project_id] += 1
        return Flow(admitted)

    def grow(self, flow: Flow, size: int) -> None:
        flow.kept += size
        self.in_flight += size
        self._of_project[flow.admitted.project_id] += size
        self._for_purpose[_purpose(flow.admitted)] += size

    def end(self, flow: Flow) -> None:
        self.grow(flow, -flow.kept)
        self._flows[flow.admitted.project_id] -= 1
        project, purpose = _purpose(flow.admitted)
        # Nothing is remembered of projects that upload nothing.
        for counter, key in ((self._flows, project), (self._of_project, project)):
            if not counter[key]:
                del counter[key]
        if not self._for_purpose[project, purpose]:
            del self._for_purpose[project, purpose]

    def spool(self, admitted: Admitted, has_room: Callable[[], None], failed: Callable[[Failure], None]) -> Spool:
        """A Spool to a file that is deleted when the request is over, unless it has been linked by then."""
        through = admitted.through or self.through
        return Spool(
            through(cast(IO[bytes], tempfile.NamedTemporaryFile(prefix=SPOOL_PREFIX, dir=self.directory))),
            self.run,
            self.memory,
            has_room,
            failed,
        )

    def sweep(self, before: float = math.inf) -> None:
        """Delete what a killed process left behind. Call it before the listener starts.

        `before`: only what was last written before this time (seconds since the epoch); another process may be
        receiving the rest.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.directory.glob(f"{SPOOL_PREFIX}*"):
            try:
                if left.stat().st_mtime < before:
                    left.unlink()
            except FileNotFoundError:
                continue  # its process has just ended the request


def _purpose(admitted: Admitted) -> tuple[str, str]:
    return admitted.project_id, admitted.purpose
