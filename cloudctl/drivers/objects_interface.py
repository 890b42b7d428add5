"""Where the data of objects are. The rules for all drivers: `interfaces`; this kind has one more.

Its methods block. The cloud calls them in threads of the object store, several at once, and at the start before its
reactor runs; a driver that waits for the reactor would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from attrs import frozen

from cloudctl.drivers.driver_interface import IDriver


@frozen
class ContentState:
    """What is kept under an id, and since when: seconds since the epoch by the clock of whoever keeps it."""

    id: str
    since: float


class IObjectData(IDriver):
    """Contents, each under an id of 32 hexadecimal digits that the cloud uses once: what is there never changes."""

    def ensure_kept(id: str, path: str) -> None:
        """What the file `path` holds is kept under this id, after a power cut, too; what is there stays as it is.

        All of it is there, or nothing. Nobody changes the file any more; its name is gone soon after, so that a hard
        link will do. Raises NoCapacity.
        """

    def open(id: str) -> IO[bytes]:
        """What is kept, to be read from any position (`seek`). It can be read to its end although it is removed
        meanwhile. Raises UnknownContent.
        """

    def ensure_absent(id: str) -> None:
        """Nothing is kept under this id. An unknown one is no error."""

    def inventory(after: str) -> tuple[ContentState, ...]:
        """Some of what is kept, also what the cloud does not know: the next ones after this id, sorted by id.

        Nothing: there are no more.
        """


class IFarData(IObjectData):
    """What is kept is behind a network: the cloud opens and reads it in threads, on its way to clients, too."""


class IManyContents(IObjectData):
    """Several small contents are kept for not much more than one costs."""

    def ensure_all_kept(contents: Sequence[tuple[str, str]]) -> None:
        """As `ensure_kept` for each (id, path). Who is told of an error knows of none of them whether it is kept.

        Raises NoCapacity.
        """
