"""Kept answers: the same bytes while nothing is written, and never an old one."""

from __future__ import annotations

import tracemalloc

import pytest
from sqlalchemy import Integer, insert
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, Field, Record
from cloudctl.db.columns import column
from cloudctl.rest.answers import AROUND, LARGEST, MOST_BYTES, Answer, Answers
from cloudctl.testing.cloud import MemoryCloud


class Thing(Record, table="test_things_written"):
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)


@pytest.fixture
def answers() -> Answers:
    return Answers(Database.in_memory(Clock()))


def write(conn: Connection) -> None:
    Thing.table.create(conn.alchemy, checkfirst=True)
    conn.execute(insert(Thing))


def answer(answers: Answers, body: bytes = b"{}", until: float = 10.0) -> Answer:
    assert answers.generation is not None
    return Answer(200, body, (), answers.generation, until)


def test_a_kept_answer_is_found_until_something_is_written(answers: Answers) -> None:
    kept = answer(answers)
    answers.keep("key", kept)
    answers.db.transact(True, lambda conn: None)
    answers.db.transact(False, lambda conn: None)
    assert answers.find("key", 0) is kept
    answers.db.transact(False, write)
    assert answers.find("key", 0) is None


def test_a_write_that_failed_ends_it_too(answers: Answers) -> None:
    answers.keep("key", answer(answers))

    def fail(conn: Connection) -> None:
        write(conn)
        raise ValueError

    with pytest.raises(ValueError):
        answers.db.transact(False, fail)
    assert answers.find("key", 0) is None


def test_an_answer_that_was_read_before_a_write_is_not_kept(answers: Answers) -> None:
    old = answer(answers)
    answers.db.transact(False, write)
    answers.keep("key", old)
    assert answers.find("key", 0) is None


def test_an_answer_ends_at_its_time(answers: Answers) -> None:
    answers.keep("key", answer(answers, until=10.0))
    assert answers.find("key", 9.9) is not None
    assert answers.find("key", 10.0) is None


def test_what_is_kept_has_a_limit(answers: Answers) -> None:
    for number in range(10):
        answers.keep(number, answer(answers, bytes(LARGEST)))
    kept = [number for number in range(10) if answers.find(number, 0) is not None]
    assert kept == list(range(10 - MOST_BYTES // (LARGEST + AROUND), 10))
    answers.keep("large", answer(answers, bytes(LARGEST + 1)))
    assert answers.find("large", 0) is None


def test_the_limit_counts_what_was_asked_too(answers: Answers) -> None:
    """A client may ask one thing in thousands of ways, each of them long."""
    tracemalloc.start()
    try:
        for number in range(8000):
            answers.keep(("compute", b"/servers?name=%08d" % number + b"x" * 8000), answer(answers))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 1.25 * MOST_BYTES


def test_callers_scopes_and_versions_do_not_share_answers() -> None:
    cloud = MemoryCloud()
    path = "/volume/v3/volumes/detail"
    demo, admin = cloud.client("demo"), cloud.client("admin")
    assert demo.get(path).json() == {"volumes": []} == admin.get(path).json()
    demo.post("/volume/v3/volumes", {"volume": {"size": 1}})
    cloud.settle()
    for _ in range(2):
        assert len(demo.get(path).json()["volumes"]) == 1
        assert admin.get(path).json() == {"volumes": []}
        newer = demo.get(path, headers={"OpenStack-API-Version": "volume 3.71"}).json()
        assert newer != demo.get(path).json()


def test_a_revoked_token_is_seen_at_once() -> None:
    cloud = MemoryCloud()
    admin = cloud.client("admin")
    token = cloud.login("demo", "demo-secret")
    subject = {"X-Subject-Token": token}
    for _ in range(2):
        assert admin.get("/identity/v3/auth/tokens", headers=subject).status == 200
    assert admin.delete("/identity/v3/auth/tokens", headers=subject).status == 204
    assert admin.get("/identity/v3/auth/tokens", headers=subject).status == 404


def test_a_token_that_expired_is_not_answered_from_memory() -> None:
    cloud = MemoryCloud()
    subject = {"X-Subject-Token": cloud.login("demo", "demo-secret")}
    cloud.advance(10)
    admin = cloud.client("admin")
    assert admin.get("/identity/v3/auth/tokens", headers=subject).status == 200
    cloud.advance(3591)
    assert admin.get("/identity/v3/auth/tokens", headers=subject).status == 404
