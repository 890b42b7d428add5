"""Which QEMU is installed."""

from __future__ import annotations

import os
from shutil import which

from attrs import define

from cloudctl.drivers.programs import SEARCH_PATH, Programs
from cloudctl.drivers.qemu import host
from cloudctl.drivers.qemu.command import PROGRAM


@define(eq=False)
class Emulator:
    """Queried again when another version has been installed."""

    programs: Programs
    _known: tuple[object, int] | None = None  # the file that was queried, and its version

    async def version(self) -> int:
        """7002022 for 7.2.22. Raises Unusable if there is none."""
        path = which(PROGRAM, path=SEARCH_PATH)
        found = None if path is None else os.stat(path)
        file = None if found is None else (found.st_dev, found.st_ino, found.st_mtime_ns)
        if self._known is None or self._known[0] != file:
            told = await self.programs.read(PROGRAM, "--version")
            self._known = file, host.version_number(told.decode())
        return self._known[1]
