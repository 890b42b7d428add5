"""The end of a process that is not a child of ours, noticed at once. Source: pidfd_open(2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer


@implementer(IReadDescriptor)
@define(eq=False)
class Life:
    """`ended` is called once, unless this is closed before."""

    descriptor: int
    reactor: Any
    ended: Callable[[], None]

    def fileno(self) -> int:
        return self.descriptor

    def logPrefix(self) -> str:
        return "pidfd"

    def doRead(self) -> None:
        self.close()
        self.ended()

    def connectionLost(self, reason: Failure) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor >= 0:
            self.reactor.removeReader(self)
            os.close(self.descriptor)
            self.descriptor = -1


def life(pid_file: Path, reactor: Any, ended: Callable[[], None]) -> Life | None:
    """Of the process whose number is in the file. None: it is not there, or has ended."""
    try:
        found = Life(os.pidfd_open(int(pid_file.read_text())), reactor, ended)
    except (OSError, ValueError):
        return None
    reactor.addReader(found)
    return found
