"""The archive of backups: what goes in comes out, and only what has changed is kept again."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.threadpool import ThreadPool

from cloudctl.errors import ConfigError
from cloudctl.tasks import Transient
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume.archive import Archive, Damaged, Stopped, read_pieces
from cloudctl.volume.archive_threads import ArchiveThreads

PIECE = 512


def go_on() -> bool:
    return False


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive", PIECE)


def content(*pieces: bytes) -> bytes:
    """Pieces of one repeated byte each."""
    return b"".join(piece * PIECE for piece in pieces)


def keep(archive: Archive, tmp_path: Path, backup_id: str, data: bytes, parent: str | None = None) -> int:
    """How many pieces it took."""
    source = tmp_path / "source"
    source.write_bytes(data)
    return archive.store(backup_id, source, parent, go_on).stored


def restored(archive: Archive, tmp_path: Path, backup_id: str) -> bytes:
    target = tmp_path / "target"
    archive.assemble(backup_id, target, go_on)
    return target.read_bytes()


def stored(archive: Archive) -> int:
    """Pieces that there are in all."""
    return sum(path.is_file() and path.name != "manifest.json" for path in archive.directory.rglob("*"))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from((b"\0", b"a", b"b")), max_size=6), min_size=1, max_size=4), st.binary(max_size=9)
)
def test_every_backup_of_a_chain_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, versions: list[list[bytes]], rest: bytes
) -> None:
    tmp_path = tmp_path_factory.mktemp("chain")
    archive = Archive(tmp_path / "archive", PIECE)
    parent = None
    for number, pieces in enumerate(versions):
        keep(archive, tmp_path, f"b{number}", content(*pieces) + rest, parent)
        parent = f"b{number}"
    for number, pieces in enumerate(versions):
        assert restored(archive, tmp_path, f"b{number}") == content(*pieces) + rest


def test_an_incremental_backup_keeps_only_what_has_changed(archive: Archive, tmp_path: Path) -> None:
    assert keep(archive, tmp_path, "full", content(b"a", b"b", b"c", b"b")) == 3
    assert keep(archive, tmp_path, "same", content(b"a", b"b", b"c", b"b"), "full") == 0
    assert keep(archive, tmp_path, "next", content(b"a", b"x", b"c", b"b"), "same") == 1
    assert stored(archive) == 4
    assert restored(archive, tmp_path, "next") == content(b"a", b"x", b"c", b"b")


def test_a_full_backup_needs_no_other(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "one", content(b"a", b"b"))
    keep(archive, tmp_path, "two", content(b"a", b"b"))
    archive.remove("one")
    assert restored(archive, tmp_path, "two") == content(b"a", b"b")


def test_an_incremental_backup_has_pieces_of_its_parents_size(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "full", content(b"a", b"b"))
    other = Archive(archive.directory, 2 * PIECE)
    assert keep(other, tmp_path, "next", content(b"a", b"x"), "full") == 1
    assert restored(other, tmp_path, "next") == content(b"a", b"x")


def test_zeros_are_kept_nowhere_and_take_no_room(archive: Archive, tmp_path: Path) -> None:
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.truncate(64 * 2**20)
        file.seek(32 * 2**20)
        file.write(b"in the middle")
    big = Archive(archive.directory, 2**20)
    made = big.store("sparse", source, None, go_on)
    assert (made.stored, len(made.pieces), made.pieces.count(None)) == (1, 64, 63)
    target = tmp_path / "target"
    big.assemble("sparse", target, go_on)
    assert target.stat().st_size == 64 * 2**20
    assert target.stat().st_blocks * 512 <= 4 * 2**20
    with target.open("rb") as file:
        file.seek(32 * 2**20)
        assert file.read(13) == b"in the middle"


def test_holes_are_not_read(tmp_path: Path) -> None:
    """A terabyte would take hours."""
    source = tmp_path / "hole"
    with source.open("wb") as file:
        file.truncate(2**40)
    with source.open("rb") as file:
        assert sum(piece is not None for piece in read_pieces(file, 2**32)) == 0


def test_nothing_is_a_backup_too(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "empty", b"")
    assert restored(archive, tmp_path, "empty") == b""


def test_storing_again_changes_nothing(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "one", content(b"a"))
    assert keep(archive, tmp_path, "one", content(b"b")) == 1
    assert restored(archive, tmp_path, "one") == content(b"a")


def test_what_a_dead_process_left_is_written_anew(archive: Archive, tmp_path: Path) -> None:
    archive.prepare()
    (archive.directory / "one.new" / "aa").mkdir(parents=True)
    (archive.directory / "one.new" / "aa" / "half").write_bytes(b"?")
    keep(archive, tmp_path, "one", content(b"a"))
    assert stored(archive) == 1


def test_removing_leaves_nothing_and_may_be_repeated(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "one", content(b"a"))
    archive.work("one").write_bytes(b"x")
    archive.work("one.new").write_bytes(b"x")
    for _ in range(2):
        archive.remove("one")
        archive.discard("one")
    assert [path for path in archive.directory.rglob("*") if path.is_file()] == []


def test_an_unknown_backup_is_damaged(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="no backup"):
        archive.assemble("none", tmp_path / "target", go_on)
    with pytest.raises(Damaged, match="no backup"):
        keep(archive, tmp_path, "next", b"x", "none")


def test_a_piece_that_was_changed_is_noticed(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "one", content(b"a"))
    piece = next(path for path in archive.directory.rglob("*") if len(path.name) == 64)
    piece.write_bytes(b"b" * PIECE)
    with pytest.raises(Damaged, match=r"piece \w+ of backup \w+ has changed"):
        restored(archive, tmp_path, "one")


def test_a_piece_that_is_gone_is_noticed(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, "full", content(b"a"))
    keep(archive, tmp_path, "next", content(b"a", b"b"), "full")
    archive.remove("full")
    with pytest.raises(Damaged):
        restored(archive, tmp_path, "next")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "pieces": []}', "null"])
def test_a_manifest_that_cannot_be_read_is_damaged(archive: Archive, tmp_path: Path, text: str) -> None:
    keep(archive, tmp_path, "one", content(b"a"))
    (archive.directory / "one" / "manifest.json").write_text(text)
    with pytest.raises(Damaged):
        restored(archive, tmp_path, "one")


def test_a_directory_that_cannot_be_made_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"volume\.backup_directory"):
        MemoryCloud({"volume": {"backup_directory": str(tmp_path / "file" / "backups")}})


def test_it_stops_when_it_is_told_to(archive: Archive, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(content(b"a", b"b", b"c"))
    asked = iter((False, True))
    with pytest.raises(Stopped):
        archive.store("one", source, None, lambda: next(asked))
    assert not (archive.directory / "one").exists()
    archive.store("one", source, None, go_on)
    with pytest.raises(Stopped):
        archive.assemble("one", tmp_path / "target", lambda: True)


# -- in threads


@pytest.fixture
def threads(archive: Archive) -> object:
    from twisted.internet import reactor

    pool = ThreadPool(0, 2, "archive")
    pool.start()
    yield ArchiveThreads(archive, pool, cast(IReactorFromThreads, reactor))
    pool.stop()


async def test_nothing_is_done_in_the_reactors_thread(threads: ArchiveThreads) -> None:
    def look(_archive: Archive) -> int:
        return threading.get_ident()

    assert await threads.run(look) != threading.get_ident()


async def test_what_the_file_system_refuses_is_tried_again(threads: ArchiveThreads) -> None:
    def full(_archive: Archive) -> None:
        raise OSError(28, os.strerror(28), "/srv/secret")

    with pytest.raises(Transient, match="No space left") as refused:
        await threads.run(full)
    assert "/srv" not in str(refused.value), "the backup's owner reads it"


async def test_work_that_is_interrupted_ends_in_its_thread(threads: ArchiveThreads) -> None:
    from twisted.internet.defer import CancelledError, ensureDeferred

    begun, ended = threading.Event(), threading.Event()

    def slow(_archive: Archive, stop: object) -> None:
        assert callable(stop)
        begun.set()
        while not stop():
            pass
        ended.set()

    class Idle:
        cancelled = False

    doing: Deferred[None] = ensureDeferred(threads.work(Idle(), slow))  # type: ignore[arg-type]  # all it reads
    assert begun.wait(60)
    doing.cancel()
    with pytest.raises(CancelledError):
        await doing
    assert ended.wait(60)
