"""What an incremental backup reads: pieces that have changed, and of those that have in part what they were."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudctl.volume.archive import Archive
from cloudctl.volume.changes import Changes, Comparison, compared


def go_on() -> bool:
    return False


@pytest.mark.parametrize(
    ("extents", "unchanged", "gaps"),
    [
        ((), {0: "a", 1: None, 2: "c"}, {}),
        (((0, 10),), {1: None, 2: "c"}, {}),
        (((2, 3), (7, 1)), {1: None, 2: "c"}, {0: [(0, 2), (5, 2), (8, 2)]}),
        (((9, 2),), {2: "c"}, {0: [(0, 9)]}),  # of zeros nothing is needed
        (((12, 1),), {0: "a", 2: "c"}, {}),
        (((5, 20),), {}, {0: [(0, 5)]}),
        (((24, 1),), {0: "a", 1: None}, {2: [(20, 4)]}),
    ],
)
def test_pieces_beside_those_of_the_backup_before(
    extents: tuple[tuple[int, int], ...], unchanged: dict[int, str | None], gaps: dict[int, list[tuple[int, int]]]
) -> None:
    assert compared(Changes(25, extents), 25, 10, ("a", None, "c")) == Comparison(unchanged, gaps)


def test_a_volume_that_has_grown_has_a_last_piece_that_is_another_one() -> None:
    found = compared(Changes(40, ((22, 1),)), 25, 10, ("a", None, "c"))
    assert found == Comparison({0: "a", 1: None}, {2: [(20, 2), (23, 2)]})
    found = compared(Changes(40, ()), 20, 10, ("a", "b"))
    assert found == Comparison({0: "a", 1: "b"}, {})
    found = compared(Changes(15, ()), 25, 10, ("a", "b", "c"))
    assert found == Comparison({0: "a"}, {1: [(10, 5)]})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
@given(
    before=st.binary(max_size=60),
    now=st.binary(max_size=60),
    piece=st.integers(1, 16),
    blur=st.integers(1, 9),
)
def test_what_is_kept_of_changes_is_what_is_kept_of_all(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, now: bytes, piece: int, blur: int
) -> None:
    """`blur`: more is told than what has changed, in blocks of so many bytes."""
    directory = tmp_path_factory.mktemp("archive")
    archive, source = Archive(directory, piece), directory / "source"
    source.write_bytes(before)
    archive.store("first", source, None, go_on)
    source.write_bytes(now)
    whole = archive.store("whole", source, "first", go_on)

    extents, sparse = [], bytearray(len(now))
    for start in range(0, len(now), blur):
        part = now[start : start + blur]
        if before[start : start + blur].ljust(len(part), b"\0") != part:
            extents.append((start, len(part)))
            sparse[start : start + len(part)] = part
    source.write_bytes(sparse)
    changed = archive.store("changed", source, "first", go_on, Changes(len(now), tuple(extents)))
    assert (changed.pieces, changed.stored, changed.length) == (whole.pieces, whole.stored, whole.length)
    archive.assemble("changed", target := directory / "target", go_on)
    assert target.read_bytes() == now


def test_a_piece_that_has_not_changed_is_not_read(tmp_path: Path) -> None:
    archive, source = Archive(tmp_path, 4), tmp_path / "source"
    source.write_bytes(b"aaaabbbbcccc")
    archive.store("first", source, None, go_on)
    # What the driver has not told is whatever it is.
    source.write_bytes(b"????BBBB????")
    made = archive.store("second", source, "first", go_on, Changes(12, ((4, 4),)))
    assert made.pieces == tuple(hashlib.sha256(each).hexdigest() for each in (b"aaaa", b"BBBB", b"cccc"))
    assert made.stored == 1
