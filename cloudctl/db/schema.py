"""The schema of the database: brought up to date at start, or refused if it is from a release that we cannot read.

Two numbers are kept in the database: the version of the schema, and the oldest version whose code can still work with
it. So going back one release works or is refused; it never corrupts data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Integer, MetaData, inspect, select, text
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from cloudctl.db import totals
from cloudctl.db.columns import Field, column, metadata
from cloudctl.db.connection import Connection
from cloudctl.db.database import Database
from cloudctl.db.records import Record
from cloudctl.errors import ConfigError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection as Alchemy

# The newest file in migrations/versions, and the oldest release that can work with the schema it makes.
VERSION = 32
COMPATIBLE_FROM = 15

MIGRATIONS = Path(__file__).parent / "migrations"

# Any number will do, as long as all processes use the same one.
ADVISORY_LOCK = 7_261_880


class SchemaVersion(Record, table="schema_version"):
    version: Field[int] = column(Integer, primary_key=True, autoincrement=False)
    compatible_from: Field[int] = column(Integer)


def prepare(db: Database) -> bool:
    """Bring the schema up to VERSION. Returns whether anything had to be done. Blocks.

    Raises ConfigError if a newer release has changed it so that this one must not touch it.
    """
    found = db.transact(True, found_version)
    if found is not None:
        version, compatible_from = found
        if version > VERSION and compatible_from > VERSION:
            raise ConfigError(
                [f"database: its schema version is {version}, but this release supports at most {VERSION}"]
            )
        if version >= VERSION:
            return False
    with references_unchecked(db):
        db.transact(False, upgrade)
    return True


# PostgreSQL: insufficient_privilege, as since 15 without CREATE on the schema; invalid_schema_name; undefined_table;
# read_only_sql_transaction, as of a standby.
LACKING = {"42501", "3F000", "42P01", "25006"}


def is_unusable(error: DBAPIError) -> bool:
    """Whether the database cannot be used, as opposed to a statement of ours: it does not answer, is damaged, is none,
    or lacks what this release needs; or the driver refuses the URL.
    """
    refused = error.statement is None or getattr(error.orig, "sqlstate", None) in LACKING
    return isinstance(error, OperationalError) or type(error) is DatabaseError or refused


def complaint(error: DBAPIError, url: str) -> str:
    """What the database's driver says, without its advice and SQLAlchemy's, and the file that SQLite does not name."""
    file = url.removeprefix("sqlite:///")
    message = str(error.orig).partition("\n")[0]
    return f"database: {file}: {message}" if file != url else f"database: {message}"


def found_version(conn: Connection) -> tuple[int, int] | None:
    """(version, compatible from) of the database; None if it is empty."""
    if not inspect(conn.alchemy).has_table("schema_version"):
        return None
    row = conn.execute(select(SchemaVersion)).first()
    return None if row is None else (row.version, row.compatible_from)


@contextmanager
def references_unchecked(db: Database) -> Iterator[None]:
    """For SQLite, which changes a table by copying and dropping it: dropping it deletes the rows that refer to it.

    This applies to transactions of this thread that begin and end within it.
    """
    if not db.is_sqlite:
        yield
        return
    held = db.connections.get()
    held.command("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        held.command("PRAGMA foreign_keys = ON")


def upgrade(conn: Connection, directory: Path = MIGRATIONS) -> None:
    """Run the migrations that are missing, in the caller's transaction, for which references are unchecked."""
    from alembic import command

    lock(conn)
    totals.remove(conn)
    command.upgrade(alembic_config(conn.alchemy, metadata, directory), "head")
    totals.install(conn)
    conn.execute(SchemaVersion.table.delete())
    conn.execute(SchemaVersion.table.insert().values(version=VERSION, compatible_from=COMPATIBLE_FROM))
    if conn.is_sqlite:
        broken = conn.execute(text("PRAGMA foreign_key_check")).all()
        assert not broken, f"a migration left rows that refer to nothing: {broken[:10]}"


def lock(conn: Connection) -> None:
    """Until the end of this transaction, no other process prepares the database. SQLite has no other process."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})


def alembic_config(conn: Alchemy, tables: MetaData, directory: Path) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(directory))
    config.attributes |= {"connection": conn, "tables": tables}
    return config
