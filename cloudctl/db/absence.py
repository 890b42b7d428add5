"""A database that does not answer, has no room, or takes no writes: what tells it from a wrong statement, and how
little of it belongs into the log.
"""

from __future__ import annotations

import sqlite3

from attrs import define, field
from sqlalchemy.exc import DBAPIError, OperationalError
from twisted.logger import Logger, LogLevel

from cloudctl.trouble import Trouble

log = Logger()


# What was written is rolled back, and can be written again once somebody has made room, or it is the primary again.
# SQLSTATEs: disk_full, read_only_sql_transaction.
UNWRITABLE_SQLSTATES = {"53100", "25006"}
UNWRITABLE_BY_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}


def why_away(error: BaseException | None) -> str:
    """The first line of what the database's driver says. Empty: the database works, and the error is another one."""
    if not isinstance(error, DBAPIError):
        return ""
    # Without a statement it was the attempt to connect.
    is_away = error.connection_invalidated or (isinstance(error, OperationalError) and error.statement is None)
    # The lowest byte of an error of SQLite's is what it is, the rest details.
    is_away |= getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in UNWRITABLE_BY_SQLITE
    is_away |= getattr(error.orig, "sqlstate", None) in UNWRITABLE_SQLSTATES
    return str(error.orig).strip().partition("\n")[0] or type(error.orig).__name__ if is_away else ""


@define
class Absence:
    """As something that is done again and again tells it: a line when the database is away, and one when it is back."""

    what: str  # that fails meanwhile
    _trouble: Trouble = field(init=False)

    def __attrs_post_init__(self) -> None:
        over = f"{self.what}: no more, the database is available again"
        self._trouble = Trouble(log, f"{self.what}: the database is unavailable", over, LogLevel.error)

    def explains(self, error: BaseException | None) -> bool:
        """Whether this is why it failed. Then it is in the log."""
        why = why_away(error)
        if why:
            self._trouble.is_met(why)
        return bool(why)

    def is_over(self) -> None:
        """It has been done."""
        self._trouble.is_over()
