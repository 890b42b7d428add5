"""A database of SQLite as a first start makes it, but without rows: `migrated.py FILE`."""

from __future__ import annotations

import sys
from typing import Any, cast

from twisted.internet.task import Clock

from cloudctl.app import SECTIONS
from cloudctl.db import Database, schema
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline


def main(file: str) -> None:
    assert SECTIONS  # all tables are declared
    inline = cast(Any, Inline())
    db = Database(create(f"sqlite:///{file}"), inline, inline, Clock())
    schema.prepare(db)
    db.close()


if __name__ == "__main__":
    main(sys.argv[1])
