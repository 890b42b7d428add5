"""How much of a file system is promised to volumes: to those that there are, and to those that are being made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.qcow2.images import header
from cloudctl.drivers.qcow2.records import GIB, Records


@define(eq=False)
class Room:
    """`overcommit`: how many times the size of the file system may be promised."""

    records: Records
    overcommit: float
    _coming: dict[str, int] = field(factory=dict)  # the GiB of volumes that are being made or extended

    def sizes(self) -> dict[str, int]:
        """The GiB of each volume, by its id; of one whose record is damaged those of its file."""
        return {
            id: volume.size_gib if volume is not None else _size_of(self.records.disk(id))
            for id, volume in self.records.each()
        }

    @contextmanager
    def promised(self, id: str, size_gib: int) -> Iterator[None]:
        """The volume may have this size, which nobody else is promised meanwhile. Raises NoCapacity.

        For one call per volume at a time.
        """
        total, _free = self.records.room()
        there = self.sizes()
        others = sum(max(there.get(each, 0), self._coming.get(each, 0)) for each in {*there, *self._coming} - {id})
        left = total * self.overcommit - others - there.get(id, 0)
        more = size_gib - there.get(id, 0)
        if more > left:
            raise NoCapacity(f"{more} GiB requested, {max(0, int(left))} GiB left to allocate")
        self._coming[id] = size_gib
        try:
            yield
        finally:
            del self._coming[id]


def _size_of(disk: Path) -> int:
    try:
        return -(-header(disk).size_bytes // GIB)
    except DriverError:
        return 0  # it is damaged, too, or just gone
