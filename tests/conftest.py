"""Fixtures of all tests: nothing may fail unseen, and databases to run on.

CLOUDCTL_TEST_POSTGRESQL: the SQLAlchemy URL of a PostgreSQL server on which databases may be created. Without it the
tests that want one are skipped, or fail if CLOUDCTL_REQUIRE_POSTGRESQL is 1.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, cast
from uuid import uuid4

import pytest
import pytest_twisted
from sqlalchemy import NullPool, create_engine, make_url, text
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from cloudctl.db.columns import metadata
from tests.kept import check_kept
from tests.needed import POSTGRESQL, need
from tests.plans import check_plans


@implementer(ILogObserver)
class LoggedFailures:
    """The failures that were logged as critical since the test began, unhandled errors of Deferreds among them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if event.get("log_failure") is not None and event.get("log_level") is LogLevel.critical:
            self.events.append(event)

    def flush(self, *types: type[BaseException]) -> list[Failure]:
        """Take those of these classes (of any, if none is given) away: the test expected them."""
        gc.collect()
        taken = [event for event in self.events if not types or event["log_failure"].check(*types)]
        self.events = [event for event in self.events if not any(event is one for one in taken)]
        return [event["log_failure"] for event in taken]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Where processes share the tests, none is left alone with a long one at the end.
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    check_plans()
    check_kept()
    gc.set_threshold(20_000, 20, 20)
    settle()


def settle() -> None:
    """What is there now stays: the collection after each test need not walk through all that was ever imported."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    outcome = yield
    # Nothing of a test is left between two modules. In a module there may be a cloud that must not stay.
    if nextitem is None or nextitem.path != item.path:
        settle()
    return outcome


def turn() -> Deferred[None]:
    """Fires when the reactor has come round."""
    from twisted.internet import reactor

    return deferLater(cast(IReactorTime, reactor), 0)


@pytest.fixture(autouse=True)
def logged_failures(request: pytest.FixtureRequest) -> Iterator[LoggedFailures]:
    """Fails the test if a failure was logged that it did not `flush`: an errback that nobody saw, a bug in a task."""
    logged = LoggedFailures()
    globalLogPublisher.addObserver(logged)
    yield logged
    # All other fixtures are torn down. Their values are held by pytest until this one is, and by the reactor as
    # arguments of the last thing that it did.
    request.node.funcargs.clear()
    pytest_twisted.blockon(turn())
    # What is older than the test is left to `old_failures`: to walk through it costs more than most tests.
    gc.collect(1)
    globalLogPublisher.removeObserver(logged)
    fail_with(logged)


@pytest.fixture(autouse=True, scope="module")
def old_failures() -> Iterator[None]:
    """Fails the last test of a module if a failure was seen by nobody that had outlived a test, as in its fixtures."""
    yield
    logged = LoggedFailures()
    globalLogPublisher.addObserver(logged)
    gc.collect()
    globalLogPublisher.removeObserver(logged)
    fail_with(logged)


def fail_with(logged: LoggedFailures) -> None:
    if logged.events:
        pytest.fail(
            "\n".join(f"{formatEvent(event)}\n{event['log_failure'].getTraceback()}" for event in logged.events),
            pytrace=False,
        )


@pytest.fixture
def reactor() -> Any:
    """The reactor of this process, on which `async def` tests run."""
    from twisted.internet import reactor

    return reactor


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """The URL of an empty database that is dropped afterwards."""
    with postgresql("template1") as url:
        yield url


@pytest.fixture
def postgresql_with_tables(postgresql_emptied: Callable[[], str]) -> str:
    """The URL of a database that has all tables and no rows."""
    return postgresql_emptied()


@pytest.fixture(scope="session")
def postgresql_emptied() -> Iterator[Callable[[], str]]:
    """Gives the URL of one database that has all tables, and no rows or users of those who had it before.

    To make one, or to copy it, costs the server half a second.
    """
    with ExitStack() as made:

        @cache
        def database(_tables: int) -> str:
            url = made.enter_context(postgresql("template1"))
            engine = create_engine(url, poolclass=NullPool)
            metadata.create_all(engine)
            return url

        def emptied() -> str:
            # A test's module may have added tables.
            url = database(len(metadata.tables))
            empty(url)
            return url

        yield emptied


def empty(url: str) -> None:
    """Nobody is connected to the database, and its tables have no rows."""
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    filled = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM \"{name}\")" for name in metadata.tables)
    with create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as conn:
        conn.execute(text(f"{others} AND pid <> pg_backend_pid()"))
        if found := conn.execute(text(filled)).scalars().all():
            names = ", ".join(f'"{name}"' for name in found)
            conn.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))


@contextmanager
def postgresql(template: str) -> Iterator[str]:
    """The URL of a copy of the database `template`."""
    server = os.environ.get("CLOUDCTL_TEST_POSTGRESQL", "")
    need(None if server else "CLOUDCTL_TEST_POSTGRESQL is not set", POSTGRESQL)
    name = f"cloudctl_{uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()
