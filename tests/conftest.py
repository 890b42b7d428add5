"""Fixtures of all tests: nothing may fail unseen, and databases to run on.

CLOUDCTL_TEST_POSTGRESQL: the SQLAlchemy URL of a PostgreSQL server on which databases may be created. Without it the
tests that need one are skipped, or fail if CLOUDCTL_REQUIRE_POSTGRESQL is 1.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_twisted
from sqlalchemy import Connection, NullPool, create_engine, inspect, text
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from cloudctl.db.columns import metadata
from tests.databases import a_database
from tests.kept import check_kept
from tests.needed import POSTGRESQL, need
from tests.plans import check_plans

if TYPE_CHECKING:
    from cloudctl.testing.cloud import MemoryCloud


@implementer(ILogObserver)
class LoggedFailures:
    """The failures that were logged as critical since the test began, unhandled errors of Deferreds among them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if event.get("log_failure") is not None and event.get("log_level") is LogLevel.critical:
            self.events.append(event)

    def flush(self, *types: type[BaseException]) -> list[Failure]:
        """Remove failures of these classes (of any, if none is given): the test expected them."""
        gc.collect()
        taken = [event for event in self.events if not types or event["log_failure"].check(*types)]
        self.events = [event for event in self.events if not any(event is one for one in taken)]
        return [event["log_failure"] for event in taken]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = dealt(items, config.workerinput["workercount"])


DRIVERS = Path(__file__).parent / "drivers"
# Each process that has a test of these folders starts a RabbitMQ or a Ceph for them, which takes seconds.
WITH_A_SERVER = {DRIVERS / "amqp", DRIVERS / "rbd"}


def dealt(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """In as many parts as there are processes; each begins with its share of the long tests, file by file.

    With `--dist=worksteal` each process has a part, and takes from the end of another's when it is done: what is left
    there is short. Tests of a folder with a server of its own are long ones that stay together.
    """
    slow: dict[Path, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        if item.path.parent in WITH_A_SERVER:
            slow.setdefault(item.path.parent, []).append(item)
        elif item.get_closest_marker("slow") is not None:
            slow.setdefault(item.path, []).append(item)
        else:
            others.append(item)
    short = iter(others)
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, tests in enumerate(slow.values()):
        shares[number % processes].extend(tests)
    left = len(items)
    for number, share in enumerate(shares):
        share.extend(islice(short, max(0, left // (processes - number) - len(share))))
        left -= len(share)
    return [*chain.from_iterable(shares), *short]


def pytest_configure() -> None:
    # Imported and collected objects stay: searching them for garbage is futile.
    gc.disable()


def pytest_collection_finish() -> None:
    check_plans()
    check_kept()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    settle()


def settle() -> None:
    """Freeze what exists now: the collection after each test need not walk through everything ever imported."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    outcome = yield
    # Between two modules nothing of a test is left: `old_failures` has just collected it. Within a module there may be
    # a cloud that must not stay.
    if nextitem is None or nextitem.path != item.path:
        gc.freeze()
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
    # All other fixtures are torn down. Their values are held by pytest until this one is torn down, and by the reactor
    # as arguments of the last thing that it did.
    request.node.funcargs.clear()
    pytest_twisted.blockon(turn())
    # Objects older than the test are left to `old_failures`: walking through them costs more than most tests.
    gc.collect(1)
    globalLogPublisher.removeObserver(logged)
    fail_with(logged)


@pytest.fixture(autouse=True, scope="module")
def old_failures() -> Iterator[None]:
    """Fails the last test of a module if nobody saw a failure that had outlived a test, as in the module's fixtures."""
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
def cloud() -> Iterator[MemoryCloud]:
    """A cloud in memory, as it is without a configuration."""
    # Most tests have none, and it is made of all services.
    from cloudctl.testing.cloud import MemoryCloud

    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture(scope="session")
def _postgresql() -> Iterator[Callable[[int], str]]:
    """Makes the URL of a database that is dropped at the end; the same one for the same number.

    Creating one costs the server half a second, so tests reuse them.
    """
    with ExitStack() as made:
        yield cache(lambda _number: made.enter_context(postgresql()))


@pytest.fixture
def postgresql_url(_postgresql: Callable[[int], str]) -> str:
    """The URL of an empty database."""
    url = _postgresql(0)
    with alone(url) as conn:
        conn.execute(text("DROP SCHEMA public CASCADE"))
        conn.execute(text("CREATE SCHEMA public"))
    return url


@pytest.fixture
def postgresql_with_tables(_postgresql: Callable[[int], str]) -> str:
    """The URL of a database that has all tables and no rows."""
    # A test module may have added tables.
    url = _postgresql(len(metadata.tables))
    filled = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM \"{name}\")" for name in metadata.tables)
    with alone(url) as conn:
        if not inspect(conn).get_table_names():
            metadata.create_all(conn)
        if found := conn.execute(text(filled)).scalars().all():
            names = ", ".join(f'"{name}"' for name in found)
            conn.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))
    return url


@contextmanager
def alone(url: str) -> Iterator[Connection]:
    """With the database, after earlier clients have been disconnected."""
    others = "datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as conn:
        conn.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
        yield conn


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of a new database."""
    server = os.environ.get("CLOUDCTL_TEST_POSTGRESQL", "")
    need(None if server else "CLOUDCTL_TEST_POSTGRESQL is not set", POSTGRESQL)
    with a_database(server) as url:
        yield url
