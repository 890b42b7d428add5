"""Files with holes as differences that `rbd` reads, without Ceph."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.rbd.difference import CHUNK, EXTENT, HEADER, SIZE, is_mostly_holes, pack, unpack

GIB = 1 << 30
# Where there is something, by what the file system keeps together.
PARTS = {0: b"a" * 4096, 5 << 20: b"b" * (CHUNK + 4096), GIB - 4096: b"c" * 4096}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    with made.open("wb") as it:
        it.truncate(GIB)
        for offset, data in PARTS.items():
            it.seek(offset)
            it.write(data)
    return made


def test_what_was_packed_is_unpacked_where_it_was(file: Path, tmp_path: Path) -> None:
    packed, again = tmp_path / "packed", tmp_path / "again"
    assert pack(file, packed) == GIB
    assert packed.stat().st_size < sum(map(len, PARTS.values())) + 100
    assert unpack(packed, again) == tuple((offset, len(data)) for offset, data in PARTS.items())
    assert again.stat().st_size == GIB
    with again.open("rb") as made:
        for offset, data in PARTS.items():
            made.seek(offset)
            assert made.read(len(data)) == data


def test_of_a_hole_only_its_size_is_packed(tmp_path: Path) -> None:
    hole, packed = tmp_path / "hole", tmp_path / "packed"
    with hole.open("wb") as file:
        file.truncate(GIB)
    assert pack(hole, packed) == GIB
    assert packed.read_bytes() == HEADER + b"s" + SIZE.pack(GIB) + b"e"


def test_a_file_is_mostly_holes_when_less_than_half_of_it_is_there(file: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.write_bytes(b"a" * CHUNK)
    assert is_mostly_holes(file) and not is_mostly_holes(full)


@pytest.mark.parametrize("cut", [1, 20, 4100])
def test_half_of_a_difference_is_none(file: Path, tmp_path: Path, cut: int) -> None:
    packed = tmp_path / "packed"
    pack(file, packed)
    packed.write_bytes(packed.read_bytes()[:-cut])
    with pytest.raises(DriverError):
        unpack(packed, tmp_path / "again")


def test_what_is_no_part_of_a_difference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "packed").write_bytes(HEADER + b"s" + SIZE.pack(CHUNK) + b"x" + EXTENT.pack(0, 1))
    with pytest.raises(DriverError, match="unknown part"):
        unpack(tmp_path / "packed", tmp_path / "again")
