"""A database that does not answer, as the clients of all APIs and the operator see it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from twisted.internet.defer import Deferred, fail
from twisted.logger import LogLevel, capturedLogs, formatEvent

from cloudctl.rest.site import SMALL
from cloudctl.testing.cloud import MemoryCloud


@pytest.mark.parametrize(
    ("method", "path", "size"),
    [
        ("GET", "/compute/v2.1/servers", 0),
        ("GET", "/networking/v2.0/networks", 0),
        ("GET", "/identity/v3/users", 0),
        ("GET", "/object-store/v1/AUTH_x", 0),
        ("PUT", "/object-store/v1/AUTH_x/c/o", 2 * SMALL),
    ],
)
def test_a_database_that_does_not_answer_is_a_503_and_one_line(
    monkeypatch: pytest.MonkeyPatch, logged_failures: Any, method: str, path: str, size: int
) -> None:
    cloud = MemoryCloud()
    demo = cloud.client("demo")

    def away(*args: Any) -> Deferred[Any]:
        return fail(OperationalError(None, None, Exception("connection failed: a secret\nIs it running?")))

    with monkeypatch.context() as patched, capturedLogs() as lines:
        for way in ("read", "scan", "run"):
            patched.setattr(cloud.db, way, away)
        answer = demo.request(method, path, body=bytes(size))
    cloud.close()
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    assert b"secret" not in answer.body
    (line,) = (formatEvent(line) for line in lines if line["log_level"] >= LogLevel.warn)
    assert line.endswith("the database is unavailable: connection failed: a secret")
    assert logged_failures.flush() == []
