"""Where the data of objects is stored. The rules for all drivers: `interfaces`; this kind has one more.

Its methods block. The cloud calls them in the object store's threads, several at once, and also at start-up, before its
reactor runs; a driver that waited for the reactor would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from attrs import frozen

from cloudctl.drivers.driver_interface import IDriver


@frozen
class ContentState:
    """A content that is kept under an id, and since when: seconds since the epoch, by the clock of its store."""

    id: str
    since: float


class IObjectData(IDriver):
    """Contents, each under an id of 32 hexadecimal digits that the cloud uses only once: a content never changes."""

    def ensure_kept(id: str, path: str) -> None:
        """The content of the file `path` is kept under this id and survives a power cut; an existing one is unchanged.

        All of it is there, or nothing. The file does not change any more and its name is removed soon afterwards, so a
        hard link will do. Raises NoCapacity.
        """

    def open(id: str) -> IO[bytes]:
        """The content, readable from any position (`seek`), and to its end even if it is removed meanwhile.

        Raises UnknownContent.
        """

    def ensure_absent(id: str) -> None:
        """Nothing is kept under this id. An unknown one is no error."""

    def inventory(after: str) -> tuple[ContentState, ...]:
        """Some of what is kept, including what the cloud does not know: the next contents after this id, sorted by id.

        An empty tuple means that there are no more.
        """


class IFarData(IObjectData):
    """Contents are kept across a network: the cloud opens and reads them in threads, even when it serves clients."""


class IManyContents(IObjectData):
    """Keeping several small contents at once costs little more than keeping one."""

    def ensure_all_kept(contents: Sequence[tuple[str, str]]) -> None:
        """As `ensure_kept` for each (id, path). After an error any of them may or may not be kept.

        Raises NoCapacity.
        """
