"""Unique constraints: two requests at once cannot both have what one may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError

from cloudctl.db.connection import Connection
from cloudctl.errors import CloudError


@contextmanager
def unique(conn: Connection, taken: CloudError) -> Iterator[None]:
    """If a constraint is in the way of what is written here, that is undone, and `taken` is raised."""
    try:
        with conn.begin_nested():
            yield
    except IntegrityError:
        raise taken from None
