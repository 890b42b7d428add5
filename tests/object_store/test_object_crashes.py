"""Whatever fails or dies on the way of data to an object: nothing half is seen, and nothing is left over."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from twisted.internet.defer import Deferred

from cloudctl.drivers.file.driver import ObjectFiles
from cloudctl.object_store import objects
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.sweep import sweep
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import parse
from tests.conftest import LoggedFailures
from tests.image.test_upload_admission import Upload
from tests.object_store.asking import Account, files, rows

DATA = b"x" * 100_000
SMALL = b"y" * 4096  # comes in memory, and goes to the disk with others
SIZES = pytest.mark.parametrize("data", [DATA, SMALL], ids=["large", "small"])


class Killed(BaseException):
    """The process ends here: nothing that follows is done."""


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture
def o(cloud: MemoryCloud) -> Account:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    mine.put("c/o", b"before")
    return mine


def start_again(cloud: MemoryCloud) -> None:
    """What a start does before it listens."""
    for part in cloud.cloud.parts:
        part.recover()


def _dies_in(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, *, after: bool) -> None:
    real = getattr(place, name)

    def die(*args: Any, **kwargs: Any) -> Any:
        if after:
            real(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(place, name, die)


PHASES: list[tuple[Any, str]] = [(os, "link"), (os, "fsync"), (objects, "put")]


@SIZES
@pytest.mark.parametrize(("place", "name"), PHASES, ids=[name for _, name in PHASES])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_process_that_dies_before_the_commit_leaves_the_old_object(
    o: Account,
    data: bytes,
    cloud: MemoryCloud,
    monkeypatch: pytest.MonkeyPatch,
    logged_failures: Any,
    place: Any,
    name: str,
    after: bool,
) -> None:
    with monkeypatch.context() as dying:
        _dies_in(dying, place, name, after=after)
        try:
            o.ask("PUT", "c/o", body=data)
        except (Killed, EOFError):
            """It has no answer."""
    logged_failures.flush(Killed)
    start_again(cloud)
    assert o.get("c/o").body == b"before"
    assert files(cloud) == rows(cloud)


@SIZES
def test_one_that_dies_after_the_commit_has_kept_the_new_one(
    o: Account, data: bytes, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, logged_failures: Any
) -> None:
    with monkeypatch.context() as dying:
        _dies_in(dying, ObjectFiles, "ensure_absent", after=False)
        try:
            o.ask("PUT", "c/o", body=data)
        except (Killed, EOFError):
            """It has no answer."""
    logged_failures.flush(Killed)
    assert o.get("c/o").body == data
    assert len(files(cloud)) > len(rows(cloud))
    start_again(cloud)
    assert o.get("c/o").body == data
    assert files(cloud) == rows(cloud)


def _full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


FULL: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "link": lambda patch: patch.setattr(os, "link", _full),
    "fsync": lambda patch: patch.setattr(os, "fsync", _full),
    "write": lambda patch: patch.setattr("cloudctl.object_store.store.HashedFile.write", _full),
    "small": lambda patch: patch.setattr(os, "fdopen", _full),
    "spool": lambda patch: patch.setattr("tempfile.NamedTemporaryFile", _full),
}


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_507_and_leaves_nothing(
    o: Account, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with monkeypatch.context() as full:
        FULL[what](full)
        assert o.ask("PUT", "c/o", body=SMALL if what == "small" else DATA).status == 507
        if what in ("write", "spool"):
            assert o.ask("PUT", "c/p", Range="bytes=0-1", X_Copy_From="c/o").status == 507
    assert o.get("c/o").body == b"before"
    assert files(cloud) == rows(cloud)


def test_a_transaction_that_fails_leaves_no_file(
    o: Account, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, logged_failures: Any
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(objects, "put", fails)
        assert o.ask("PUT", "c/o", body=DATA).status == 500
    logged_failures.flush(ValueError)
    assert files(cloud) == rows(cloud)


def test_a_body_that_is_cut_off_is_no_object(o: Account, cloud: MemoryCloud, demo_token: str) -> None:
    upload = Upload(cloud, f"{o.url}/c/o", demo_token, 200_000)
    upload.send(DATA)
    assert any(name.startswith("upload-") for name in files(cloud))
    upload.end()
    assert o.get("c/o").body == b"before"
    assert files(cloud) == rows(cloud)


def refused(cloud: MemoryCloud, path: str, token: str | None) -> int:
    """The status that a client gets who waits for a word before it sends the body."""
    upload = Upload(cloud, path, token, Expect="100-continue")
    cloud.advance(0)
    return parse(upload.transport.value(), "PUT").status


def test_what_may_not_come_is_refused_before_it_is_kept(cloud: MemoryCloud, o: Account, demo_token: str) -> None:
    assert refused(cloud, f"{o.url}/none/o", demo_token) == 404
    assert refused(cloud, f"{o.url}/c/o", None) == 401
    o.post("c", X_Container_Meta_Quota_Bytes="10")
    assert refused(cloud, f"{o.url}/c/o", demo_token) == 413
    assert files(cloud) == rows(cloud)


def test_who_reads_goes_on_when_the_object_is_replaced(o: Account, cloud: MemoryCloud) -> None:
    store = cloud.cloud.made(ObjectStore)
    (file_id,) = rows(cloud)
    with store.open(file_id) as reading:
        o.put("c/o", DATA)
        assert file_id not in files(cloud)
        assert reading.read() == b"before"


def test_who_finds_an_object_just_before_it_is_replaced_reads_the_new_one(
    o: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PostgreSQL, an object is found in another thread than the one that opens its file."""
    opened = ObjectStore.open

    def late(store: ObjectStore, file_id: str) -> Any:
        monkeypatch.undo()
        o.put("c/o", DATA)
        return opened(store, file_id)

    monkeypatch.setattr(ObjectStore, "open", late)
    found = o.get("c/o")
    assert (found.status, found.body == DATA) == (200, True)


def test_the_audit_spares_what_is_young(o: Account, cloud: MemoryCloud) -> None:
    store = cloud.cloud.made(ObjectStore)
    left = store.write([b"left over"])
    assert left.file_id is not None
    assert sweep(cloud.db, store, before=1.0) == 0
    assert left.file_id in files(cloud)
    assert sweep(cloud.db, store) == 1
    assert files(cloud) == rows(cloud)


@pytest.fixture
def demo_token(cloud: MemoryCloud) -> str:
    return str(cloud.client("demo").token)


def test_data_are_kept_when_the_answer_of_a_commit_is_lost(
    cloud: MemoryCloud, o: Account, monkeypatch: pytest.MonkeyPatch, logged_failures: LoggedFailures
) -> None:
    """Whether the row names the file is not known then: a row without its file would be worse than a file too many."""
    real = cloud.db.run

    def losing(fn: Any, *args: Any, **kwargs: Any) -> Deferred[Any]:
        done = real(fn, *args, **kwargs)
        return done.addCallback(lost) if fn is objects.put else done

    def lost(_: object) -> None:
        raise OperationalError("COMMIT", None, Exception("the connection was lost"))

    monkeypatch.setattr(cloud.db, "run", losing)
    assert o.ask("PUT", "c/o", body=DATA).status >= 500
    monkeypatch.undo()
    logged_failures.flush(OperationalError)
    assert o.get("c/o").body == DATA


def test_data_that_cannot_be_read_are_503(o: Account, cloud: MemoryCloud) -> None:
    (file_id,) = rows(cloud)
    cloud.cloud.made(ObjectStore).remove([file_id])
    assert o.get("c/o").status == 503
    assert o.head("c/o").status == 503


def test_a_download_breaks_off_where_the_data_of_a_segment_cannot_be_read(o: Account, cloud: MemoryCloud) -> None:
    o.put("c/s1", b"first")
    before = rows(cloud)
    o.put("c/s2", b"second")
    o.put("c/large", X_Object_Manifest="c/s")
    assert o.get("c/large").body == b"firstsecond"
    cloud.cloud.made(ObjectStore).remove(rows(cloud) - before)
    with pytest.raises(IncompleteRead):
        o.get("c/large")
