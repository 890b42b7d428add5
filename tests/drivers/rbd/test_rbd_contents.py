"""Where files are kept for the length of a call, without Ceph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.rbd.contents import Contents


def test_what_a_killed_process_left_goes_and_a_place_for_no_files_is_unusable(tmp_path: Path) -> None:
    nothing: Any = None
    (tmp_path / "scratch-1.part").mkdir()
    (tmp_path / "scratch-1.part" / "content").write_text("left")
    (tmp_path / "scratch-2.part").write_text("left by an earlier release")
    (tmp_path / "file").write_text("kept")
    Contents(nothing, nothing, tmp_path, nothing).open()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    with pytest.raises(Unusable, match="cannot keep files in"):
        Contents(nothing, nothing, tmp_path / "file", nothing).open()


async def test_what_another_process_needs_stays(tmp_path: Path) -> None:
    """Processes share a data directory if something else is kept in it."""
    nothing: Any = None
    one, other = (Contents(nothing, nothing, tmp_path / "rbd", nothing) for _ in range(2))
    async with one._scratch() as file:
        file.write_text("a volume")
        other.open()
        assert file.read_text() == "a volume"
    assert list((tmp_path / "rbd").iterdir()) == []
