"""How much of a file system is promised to volumes: to those that there are, and to those that are being made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field

from cloudctl.drivers.errors import NoCapacity
from cloudctl.drivers.qcow2.records import Records


@define(eq=False)
class Room:
    """`overcommit`: how many times the size of the file system may be promised."""

    records: Records
    overcommit: float
    _coming: dict[str, int] = field(factory=dict)  # the GiB of volumes that are being made or extended

    @contextmanager
    def promised(self, id: str, size_gib: int) -> Iterator[None]:
        """The volume may have this size, which nobody else is promised meanwhile. Raises NoCapacity.

        For one call per volume at a time.
        """
        total, _free = self.records.room()
        there = {volume.id: volume.size_gib for volume in self.records.volumes()}
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
