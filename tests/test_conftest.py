"""The net under all tests holds."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    from twisted.internet.defer import Deferred, fail
    from twisted.logger import Logger

    log = Logger()

    def test_unhandled_error_in_a_deferred():
        fail(ValueError("nobody saw this"))

    def test_unhandled_error_in_a_cycle():
        deferred = fail(ValueError("nobody saw that"))
        deferred.itself = deferred

    def test_logged_failure():
        try:
            raise KeyError("logged")
        except KeyError:
            log.failure("it failed")

    def test_expected_failure(logged_failures):
        fail(ValueError("expected"))
        assert len(logged_failures.flush(ValueError)) == 1

    def test_another_failure_than_the_expected_one(logged_failures):
        fail(KeyError("not expected"))
        assert logged_failures.flush(ValueError) == []

    async def test_coroutine_with_an_error_left_behind():
        Deferred().addCallback(lambda _: None)
        fail(ValueError("left behind"))

    async def test_all_is_well():
        assert True
"""


def test_a_failure_that_nobody_handles_fails_the_test_that_caused_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=7, errors=5)
