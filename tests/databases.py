"""PostgreSQL databases for as long as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text


@contextmanager
def a_database(server: str) -> Iterator[str]:
    """The URL of a new database on this server."""
    name = f"cloudctl_{uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()
