"""What has changed in a volume since the backup that the next one builds on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

from attrs import frozen

Extent = tuple[int, int]
"""Offset and length, in bytes."""


@frozen
class Changes:
    """The changes of a volume that has `length` bytes now. `extents`: sorted, none within another."""

    length: int
    extents: tuple[Extent, ...]


@frozen
class Comparison:
    """Pieces of a volume, by number, compared with those of the previous backup."""

    unchanged: Mapping[int, str | None]  # what they were: they need not be read
    gaps: Mapping[int, Sequence[Extent]]  # of partly changed pieces: the unchanged parts


def compared(changes: Changes, length: int, piece: int, pieces: Sequence[str | None]) -> Comparison:
    """Compare with a backup of `length` bytes, in `pieces` of `piece` bytes each; None: a piece of zeros."""
    inside: dict[int, list[Extent]] = {}
    for extent in changes.extents:
        for number in range(extent[0] // piece, -(-(extent[0] + extent[1]) // piece)):
            inside.setdefault(number, []).append(extent)
    count = -(-changes.length // piece)
    # The last piece of a volume that has grown may be longer now, and those after it are new.
    grown = count if changes.length == length else min(length, changes.length) // piece
    unchanged = {number: pieces[number] for number in range(grown) if number not in inside}
    gaps = {}
    for number in (*(each for each in inside if each < grown), *range(grown, min(count, len(pieces)))):
        if pieces[number] is not None:
            bounds = number * piece, min((number + 1) * piece, length, changes.length)
            if found := list(_between(bounds, inside.get(number, []))):
                gaps[number] = found
    return Comparison(unchanged, gaps)


def _between(bounds: Extent, extents: Sequence[Extent]) -> Sequence[Extent]:
    """The parts within `bounds` (start and end) that are in none of the extents."""
    start, end = bounds
    edges = [start, *chain.from_iterable((offset, offset + size) for offset, size in extents), end]
    found = ((max(start, first), min(end, last)) for first, last in list(pairwise(edges))[::2])
    return [(first, last - first) for first, last in found if first < last]
