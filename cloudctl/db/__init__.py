"""The database: typed records, statements compiled once, and one way to run a transaction."""

from cloudctl.db.connection import Connection, Rows
from cloudctl.db.database import Database, notify, now
from cloudctl.db.records import Field, Record

__all__ = ["Connection", "Database", "Field", "Record", "Rows", "notify", "now"]
