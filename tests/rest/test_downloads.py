"""Parts of files, and what stands between them, as one body."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudctl.rest.call import Download, Parts


def test_parts_come_in_chunks(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    parts = Parts([Download.of(file, 2, 5), b"-", Download(lambda: file.open("rb"), 8, 2, file.open("rb"))], 8)
    assert list(parts.chunks(2)) == [b"23", b"45", b"6", b"-", b"89"]


def test_a_file_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123")
    chunks = Download.of(file, 0, 5).chunks(4)
    assert next(chunks) == b"0123"
    with pytest.raises(OSError, match="ends 1 bytes early"):
        next(chunks)


def test_what_was_opened_is_closed_when_nobody_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123")
    opened = file.open("rb")
    parts = Parts([Download(lambda: file.open("rb"), 0, 4, opened)], 4)
    chunks = parts.chunks(1)
    next(chunks)
    chunks.close()
    assert opened.closed
