"""The database: one engine, one thread pool, one way to run a transaction."""

from cloudctl.db.database import Database, notify, now

__all__ = ["Database", "notify", "now"]
