"""The safety net under all tests holds."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import weakref

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

    @pytest.fixture
    def forgotten():
        return fail(ValueError("left in a fixture"))

    def test_failure_that_only_a_fixture_holds(forgotten):
        assert forgotten.called

    @pytest.fixture(scope="module")
    def old():
        deferred = fail(ValueError("left in a module's fixture"))
        deferred.itself = deferred
        yield deferred

    def test_failure_that_a_fixture_of_the_module_holds(old):
        assert old.called

    class Cloud:
        made = []

        def __init__(self):
            self.itself = self
            self.made.append(weakref.ref(self))

    @pytest.fixture
    def cloud():
        return Cloud()

    def test_with_a_cloud(cloud):
        assert Cloud.made[0]() is cloud

    def test_the_cloud_is_gone():
        assert Cloud.made[0]() is None

    async def test_all_is_well():
        assert True
"""


def test_a_failure_that_nobody_handles_fails_its_test_and_nothing_of_a_test_stays(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=11, errors=7)
