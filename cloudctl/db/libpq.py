"""PostgreSQL's own library, called directly: a repeated statement costs a quarter of what it costs through a cursor.

psycopg opens the connection, converts values to and from the server's format, and makes the errors; in between, one
libpq call runs the statement and waits in C without the interpreter's lock. Nothing can interrupt that wait, so the
main thread, where signals are handled, stays with psycopg's cursors.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from psycopg import OperationalError
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, TransactionStatus

if TYPE_CHECKING:
    from psycopg import Connection, abc
    from psycopg.pq.abc import PGresult

# Statements counted because they have come too seldom to be prepared; beyond this many, counting starts over.
MOST_SEEN = 1024
PLACEHOLDER = re.compile("%[s%]")


class Answer(NamedTuple):
    """What a DB-API cursor has after it ran a statement, as far as it is used here."""

    result: PGresult
    reads: abc.Transformer

    @property
    def rowcount(self) -> int:
        return self.result.command_tuples or 0

    @property
    def description(self) -> list[tuple[str, int]]:
        """(name, type) of each column."""
        result = self.result
        return [((result.fname(at) or b"").decode(), result.ftype(at)) for at in range(result.nfields)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.reads.load_rows(0, self.result.ntuples, tuple)

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.reads.load_row(0, tuple)


class Prepared:
    """Runs statements on a psycopg connection; repeated ones are prepared, the least recently used are forgotten.

    For one thread at a time. Begins a transaction as psycopg does: with the first statement, unless in autocommit.
    """

    def __init__(self, driver: Connection[Any]) -> None:
        self._driver = driver
        self._libpq = driver.pgconn
        self._values: abc.Transformer = Transformer(driver)
        self._names = (b"p%d" % number for number in count())
        self._known: OrderedDict[tuple[str, tuple[int, ...]], bytes] = OrderedDict()
        self._seen: dict[tuple[str, tuple[int, ...]], int] = {}
        self._threshold, self._most = driver.prepare_threshold, driver.prepared_max
        # When psycopg discards what its own cursors have prepared, it can have the server forget these as well.
        driver.prepare_threshold = None

    def execute(self, text: str, arguments: Sequence[Any]) -> Answer:
        """`text` has `%s` for each argument. Raises psycopg's errors."""
        if not self._driver.autocommit and self._libpq.transaction_status == TransactionStatus.IDLE:
            self._checked(self._libpq.exec_(b"BEGIN"))
        given = cast("list[bytes | None]", self._values.dump_sequence(arguments, [PyFormat.AUTO] * len(arguments)))
        types, formats = self._values.types or (), self._values.formats
        name = self._name(text, types)
        if name is None:
            result = self._libpq.exec_params(numbered(text), given, types, formats)
        else:
            result = self._libpq.exec_prepared(name, cast("list[bytes]", given), formats)
        self._checked(result)
        self._values.set_pgresult(result)
        return Answer(result, self._values)

    def _name(self, text: str, types: tuple[int, ...]) -> bytes | None:
        """The prepared statement's name; None for a statement that has not come often enough yet."""
        key = (text, types)
        if (name := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return name
        if self._threshold is None:  # a pooler in between does not support prepared statements
            return None
        if (seen := self._seen.get(key, 0)) < self._threshold:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[key] = seen + 1
            return None
        self._seen.pop(key, None)
        name = next(self._names)
        self._checked(self._libpq.prepare(name, numbered(text), types))
        self._known[key] = name
        if self._most is not None and len(self._known) > self._most:
            _, old = self._known.popitem(last=False)
            self._checked(self._libpq.exec_(b"DEALLOCATE " + old))
        return name

    def _checked(self, result: PGresult) -> None:
        if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            return
        error = error_from_result(result, encoding=self._driver.info.encoding)
        if isinstance(error, InvalidSqlStatementName):
            # Something made the server forget them all. The transaction is run again: see `is_transient`.
            self._known.clear()
        # libpq's own errors have no SQLSTATE: raise what psycopg raises for a connection that is gone.
        raise OperationalError(str(error)) if self._driver.closed else error


@lru_cache(maxsize=4096)
def numbered(text: str) -> bytes:
    """`%s` → `$1`, `$2`, …; `%%` → `%`."""
    numbers = count(1)
    return PLACEHOLDER.sub(lambda found: "%" if found[0] == "%%" else f"${next(numbers)}", text).encode()
