"""The migrations make on PostgreSQL what the tables say, as they do on SQLite."""

from __future__ import annotations

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from cloudctl import app
from cloudctl.db import Database, schema
from cloudctl.db.columns import metadata


def test_the_migrations_make_the_schema(postgresql_url: str, reactor: Any) -> None:
    # Importing the application brings every table.
    assert app.SECTIONS.keys() & {"compute"} and "servers" in metadata.tables
    db = Database.open(postgresql_url, reactor)
    try:
        assert schema.prepare(db)
        assert not schema.prepare(db)
        missing = db.transact(True, differences)
        assert not missing, missing
    finally:
        db.close()


def differences(conn: Any) -> list[Any]:
    """Of tables, columns and indexes; those that tests have made themselves are left out."""
    found = compare_metadata(MigrationContext.configure(conn.alchemy), metadata)
    return [each for each in found if not any(str(getattr(part, "name", part)).startswith("test_") for part in each)]
