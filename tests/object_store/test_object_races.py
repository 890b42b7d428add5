"""Changes at once, on a database where transactions really run at once: no data is lost, and no change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import Unavailable
from cloudctl.object_store import accounts, ageing, containers, numbered, objects, orphans, parts, removal
from cloudctl.object_store.api.s3 import acls, buckets
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.parts import Putting, Wanted
from cloudctl.object_store.store import Content
from tests.meanwhile import Meanwhile, Others, at_once, others

NOW = utc(1_800_000_000)
SOURCE, TARGET = Place("p", "one", "source"), Place("p", "other", "target")
NEW = NewObject(Content("file", 3, "e" * 32))
PART = Content("part", 3, "a" * 32)


@pytest.fixture
def meanwhile(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        for place in (SOURCE, TARGET):
            made.db.transact(False, containers.put, place, {}, NOW)
        made.db.transact(False, objects.put, SOURCE, NEW, NOW)
        yield made


def test_a_copy_keeps_the_file_of_a_source_that_is_deleted_meanwhile(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_room = objects._make_room

    def slowly(*args: Any) -> list[str]:
        monkeypatch.undo()
        meanwhile.begin(objects.remove, SOURCE, NOW)
        return make_room(*args)

    source = meanwhile.db.transact(True, objects.get, SOURCE, NOW)
    monkeypatch.setattr(objects, "_make_room", slowly)
    meanwhile.db.transact(False, objects.copy, source, TARGET, NEW, NOW)
    (removed,) = meanwhile.results
    assert meanwhile.db.transact(True, objects.used, removed.freed) == {"file"}
    assert meanwhile.db.transact(True, objects.get, TARGET, NOW).file_id == "file"


def test_of_two_projects_that_give_up_the_same_file_at_once_one_is_the_last(meanwhile: Others) -> None:
    run = meanwhile.db.transact
    other = evolve(TARGET, project_id="q")
    run(False, containers.put, other, {}, NOW)
    run(False, objects.copy, run(True, objects.get, SOURCE, NOW), other, NEW, NOW)
    # Neither sees that the other goes.
    theirs = Meanwhile(meanwhile.db, objects.remove, SOURCE, NOW)
    mine = run(False, objects.remove, other, NOW)
    theirs.commit()
    assert {*mine.freed, *theirs.result.freed} == {"file"}
    assert run(True, objects.used, ["file"]) == set()


def test_a_copy_of_a_source_that_was_replaced_meanwhile_is_to_be_tried_again(meanwhile: Others) -> None:
    run = meanwhile.db.transact
    source = run(True, objects.get, SOURCE, NOW)
    run(False, objects.put, SOURCE, evolve(NEW, content=Content("newer", 3, "f" * 32)), NOW)
    with pytest.raises(Unavailable):
        run(False, objects.copy, source, TARGET, NEW, NOW)


def test_an_account_whose_project_is_gone_keeps_what_is_set_on_it_meanwhile(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = orphans._say

    def late(*args: Any) -> None:
        meanwhile.begin(accounts.change, "p", {"X-Account-Meta-Color": "red"}, NOW)
        say(*args)

    run = meanwhile.db.transact
    run(False, accounts.change, "p", {accounts.SEEN: ""}, NOW)
    monkeypatch.setattr(orphans, "_say", late)
    run(False, orphans.look_at_some, "", 0.0, NOW)
    assert meanwhile.results == [None]
    found = run(True, accounts.headers, "p")
    assert found["X-Account-Meta-Color"] == "red" and found[accounts.SEEN] != ""


def test_a_version_that_becomes_the_object_meanwhile_keeps_its_file(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = meanwhile.db.transact
    run(False, containers.put, SOURCE, {numbered.HEADER: numbered.ON}, NOW)
    run(False, objects.put, SOURCE, NewObject(), NOW)

    def late(conn: Connection, *args: Any) -> Any:
        monkeypatch.undo()
        answer = execute(conn, *args)
        meanwhile.begin(objects.restore, SOURCE, numbered.NULL, NOW)
        return answer

    execute = Connection.execute
    monkeypatch.setattr(Connection, "execute", late)
    assert run(True, objects.used, ["file"]) == {"file"}
    monkeypatch.undo()
    assert len(meanwhile.results) == 1


def test_a_bucket_that_is_created_twice_at_once_is_as_the_first_one_said(meanwhile: Others) -> None:
    place = Place("p", "bucket")

    def public(conn: Connection) -> None:
        buckets._create(conn, place, acls.of_canned("public-read"), NOW)

    def private(conn: Connection) -> None:
        buckets._create(conn, place, acls.of_canned("private"), NOW)

    assert at_once(meanwhile, public, private) == "S3Error"
    assert acls.canned(meanwhile.db.transact(True, containers.get, place)) == "public-read"


UPLOAD = evolve(SOURCE, name="in parts")


def begun(meanwhile: Others) -> str:
    """An upload with a part."""
    upload_id: str = meanwhile.db.transact(False, parts.begin, UPLOAD, NewObject(), NOW)
    meanwhile.db.transact(False, Putting(upload_id, 1), UPLOAD, evolve(NEW, content=PART), NOW)
    return upload_id


def complete(conn: Connection, upload_id: str) -> str:
    wanted = [Wanted(1, PART.etag)]
    return parts.complete(conn, UPLOAD, upload_id, wanted, 100, NewObject(), lambda *_: {}, NOW).etag


def test_an_upload_that_is_completed_twice_at_once_is_completed(meanwhile: Others) -> None:
    upload_id = begun(meanwhile)

    def both(conn: Connection) -> str:
        etag = complete(conn, upload_id)
        meanwhile.begin(complete, upload_id)
        return etag

    etag = meanwhile.db.transact(False, both)
    assert meanwhile.results == [etag]


@pytest.mark.parametrize("what", ["part", "complete"])
def test_a_container_goes_while_an_upload_to_it_goes_on(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    upload_id = begun(meanwhile)
    meanwhile.db.transact(False, objects.remove, SOURCE, NOW)

    def remove(conn: Connection) -> None:
        containers.get(conn, SOURCE, lock=True)
        if what == "part":
            meanwhile.begin(Putting(upload_id, 2), UPLOAD, NEW, NOW)
        else:
            meanwhile.begin(complete, upload_id)
        removal.remove(conn, SOURCE, NOW)

    # Nobody waits for another in a circle, so nothing is tried again.
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    meanwhile.db.transact(False, remove)
    assert [getattr(each, "type", each) for each in meanwhile.errors] == ["NoSuchUpload"]


def test_an_upload_that_ends_while_old_ones_are_aborted_keeps_none_of_them(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begun(meanwhile), begun(meanwhile)
    run = meanwhile.db.transact

    def late(*args: Any) -> bool:
        monkeypatch.undo()
        meanwhile.begin(parts.abort, UPLOAD, first)
        return is_past(*args)

    is_past = ageing.is_past
    monkeypatch.setattr(ageing, "is_past", late)
    container = run(True, containers.get, SOURCE)
    run(False, ageing.abort_uploads, container, [ageing.Rule("r", upload_days=1)], NOW + timedelta(days=3))
    assert [getattr(each, "type", each) for each in meanwhile.errors] == ["NoSuchUpload"]
    for upload_id in (first, second):
        assert run(True, parts.every_part, upload_id) == []
