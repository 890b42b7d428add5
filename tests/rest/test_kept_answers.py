"""Kept answers: the same bytes while nothing is written, and never an old one."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.db import Database
from cloudctl.rest.answers import LARGEST, MOST_BYTES, Answer, Answers
from cloudctl.testing.cloud import MemoryCloud


@pytest.fixture
def answers() -> Answers:
    return Answers(Database.in_memory(Clock()))


def answer(answers: Answers, body: bytes = b"{}", until: float = 10.0) -> Answer:
    assert answers.generation is not None
    return Answer(200, body, (), answers.generation, until)


def test_a_kept_answer_is_found_until_something_is_written(answers: Answers) -> None:
    kept = answer(answers)
    answers.keep("key", kept)
    answers.db.transact(True, lambda conn: None)
    assert answers.find("key", 0) is kept
    answers.db.transact(False, lambda conn: None)
    assert answers.find("key", 0) is None


def test_a_write_that_failed_ends_it_too(answers: Answers) -> None:
    answers.keep("key", answer(answers))

    def fail(conn: Any) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        answers.db.transact(False, fail)
    assert answers.find("key", 0) is None


def test_an_answer_that_was_read_before_a_write_is_not_kept(answers: Answers) -> None:
    old = answer(answers)
    answers.db.transact(False, lambda conn: None)
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
    assert kept == list(range(10 - MOST_BYTES // LARGEST, 10))
    answers.keep("large", answer(answers, bytes(LARGEST + 1)))
    assert answers.find("large", 0) is None


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
